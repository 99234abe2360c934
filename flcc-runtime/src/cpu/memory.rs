//! Buffers of a worker: counted or made, by one code.

use crate::cpu::aligned::Aligned;

/// Hands out buffers and counts their bytes. One that only counts hands out empty ones.
#[derive(Debug)]
pub struct Memory {
    makes: bool,
    bytes: usize,
}

impl Memory {
    /// Makes what it hands out.
    pub fn making() -> Memory {
        Memory { makes: true, bytes: 0 }
    }

    /// Counts what it would hand out.
    pub fn counting() -> Memory {
        Memory { makes: false, bytes: 0 }
    }

    /// Bytes of all that was handed out.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A buffer of `len` times `value` that begins on a cache line.
    pub fn aligned<T: Copy>(&mut self, value: T, len: usize) -> Aligned<T> {
        self.bytes = self.bytes.saturating_add(Aligned::<T>::bytes(len));
        Aligned::new(value, if self.makes { len } else { 0 })
    }

    /// `len` times `value`.
    pub fn values<T: Clone>(&mut self, value: T, len: usize) -> Vec<T> {
        vec![value; self.counted::<T>(len)]
    }

    /// A list that holds up to `most` values.
    pub fn list<T>(&mut self, most: usize) -> Vec<T> {
        Vec::with_capacity(self.counted::<T>(most))
    }

    /// A value in a place of its own.
    pub fn boxed<T>(&mut self, value: T) -> Box<T> {
        self.counted::<T>(1);
        Box::new(value)
    }

    /// Counts so many values; returns how many are to be made.
    fn counted<T>(&mut self, len: usize) -> usize {
        self.bytes = self.bytes.saturating_add(len.saturating_mul(size_of::<T>()));
        if self.makes { len } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_is_made() {
        let work = |memory: &mut Memory| {
            (memory.aligned(0.0f32, 100), memory.values(false, 7), memory.list::<u64>(3), memory.aligned(0u8, 0))
        };
        let (mut counting, mut making) = (Memory::counting(), Memory::making());
        let (aligned, values, list, _) = work(&mut counting);
        assert!(aligned.is_empty() && values.is_empty() && list.capacity() == 0);
        let (aligned, values, list, _) = work(&mut making);
        assert!(aligned.len() == 100 && values.len() == 7 && list.capacity() >= 3);
        assert_eq!([counting.bytes(), making.bytes()], [Aligned::<f32>::bytes(100) + 7 + 24; 2]);
    }
}
