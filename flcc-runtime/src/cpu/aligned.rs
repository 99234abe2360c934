//! Buffers that begin on a cache line, so that no vector of a row with a whole number of lines straddles two.

use std::ops::{Deref, DerefMut};

/// Bytes of a cache line.
const LINE: usize = 64;

/// A value that begins on a cache line, where it lies in no buffer.
#[repr(align(64))]
pub struct OnLine<T>(pub T);

/// Values that begin on a cache line; their number is fixed.
#[derive(Default)]
pub struct Aligned<T> {
    values: Vec<T>,
    skip: usize,
    len: usize,
}

impl<T: Copy> Aligned<T> {
    /// `len` times `value`.
    pub fn new(value: T, len: usize) -> Aligned<T> {
        let spare = if len == 0 { 0 } else { LINE / size_of::<T>().max(1) };
        let values = vec![value; len + spare];
        // Where it cannot be aligned it is only slower.
        let skip = values.as_ptr().align_offset(LINE).min(spare);
        Aligned { values, skip, len }
    }

    /// Bytes of a buffer of `len` values.
    pub fn bytes(len: usize) -> usize {
        if len == 0 { 0 } else { len * size_of::<T>() + LINE }
    }
}

impl<T> Deref for Aligned<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.values[self.skip..self.skip + self.len]
    }
}

impl<T> DerefMut for Aligned<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.values[self.skip..self.skip + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_on_a_line() {
        assert_eq!(align_of::<OnLine<[f32; 3]>>(), LINE);
        for len in [0, 1, 7, 1000] {
            let mut buffer = Aligned::new(1.5f32, len);
            assert!(len == 0 || (buffer.as_ptr() as usize).is_multiple_of(LINE));
            buffer.iter_mut().for_each(|value| *value += 1.0);
            assert_eq!(buffer.iter().sum::<f32>(), 2.5 * len as f32);
        }
    }
}
