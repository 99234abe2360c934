//! Results that several workers write: disjoint rows of the caller's arrays, by pointers.

use flcc_core::view::{AnyViewMut, Layout};

use crate::isa::prefetch::Coming;

/// A row of scores.
#[derive(Clone, Copy, Debug)]
pub enum Scores<'a> {
    /// Scores as a result of f32 holds them.
    Single(&'a [f32]),
    /// Scores to be rounded to the result's type.
    Double(&'a [f64]),
}

/// Where a tile's results go: rows of the result, from the first to the last of the tile.
pub struct Rows<'a> {
    /// From the first result of the first row.
    pub out: &'a mut [f32],
    /// From one row to the next.
    pub pitch: usize,
    /// From one plane to the next, if there are several.
    pub plane: usize,
}

/// A result to write, as a pointer: its borrow is held by the call that made it.
#[derive(Clone, Copy)]
pub(crate) enum Output {
    F32(*mut f32, Layout),
    F64(*mut f64, Layout),
}

// SAFETY: an `Output` is an address and a layout; it is dereferenced only in `Outputs::write` and `Outputs::rows`,
// whose callers answer for exclusive access. Between runs the addresses in a scratch are not used: `execute` replaces
// them first.
unsafe impl Send for Output {}

impl Output {
    pub(crate) fn new(view: &mut AnyViewMut<'_>) -> Output {
        match view {
            AnyViewMut::F32(view) => {
                let (data, layout) = view.parts();
                Output::F32(data.as_mut_ptr(), *layout)
            }
            AnyViewMut::F64(view) => {
                let (data, layout) = view.parts();
                Output::F64(data.as_mut_ptr(), *layout)
            }
        }
    }
}

/// The results of a run, or a band of them, shared by its workers.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    pub(crate) list: &'a [Output],
    /// Where the results' first elements lie in the whole ones; no place before that is written.
    pub(crate) origin: [usize; 3],
}

// SAFETY: as `Output`; workers write disjoint elements.
unsafe impl Sync for Outputs<'_> {}

impl Outputs<'_> {
    /// A place of a whole result in what is there of it.
    fn inside(&self, place: [usize; 3]) -> [usize; 3] {
        [0, 1, 2].map(|axis| place[axis] - self.origin[axis])
    }

    /// Rows of one result of f32 from a place of it, if nothing else lies between the first and the last of their
    /// elements: one row or a part of it, whole rows of a plane, or whole planes.
    ///
    /// # Safety
    /// The result's elements are borrowed exclusively by the running call, and nothing else uses these rows meanwhile.
    pub(crate) unsafe fn rows(
        &self,
        result: usize,
        place: [usize; 3],
        [planes, count, columns]: [usize; 3],
    ) -> Option<Rows<'_>> {
        let &Output::F32(data, ref layout) = &self.list[result] else { return None };
        let [z, y, x] = self.inside(place);
        let [depth, height, width] = layout.shape().padded();
        let ([step, pitch, column], _) = layout.strides();
        // What leads to rows that there are none of may be anything.
        let pitch = if height == 1 { width } else { usize::try_from(pitch).ok().filter(|pitch| *pitch >= width)? };
        let nested = depth == 1 || step.unsigned_abs() >= (height - 1) * pitch + width;
        let inside = z + planes <= depth && y + count <= height && x + columns <= width;
        if column != 1 || !nested || !inside || planes * count * columns == 0 {
            return None;
        }
        let whole = [count == height, columns == width];
        let plane = match [planes, count] {
            [1, 1] => 0,
            [1, _] if whole[1] => 0,
            _ if whole == [true, true] => usize::try_from(step).ok()?,
            _ => return None,
        };
        let len = (planes - 1) * plane + (count - 1) * pitch + columns;
        // SAFETY: the first and the last element are positions of the layout (just checked), so all between them lie in
        // the slice of its view. What lies between rows is no position's: rows are no longer than their pitch and
        // planes no longer than theirs, and several rows are whole ones, several planes whole ones. So the slice has
        // these rows' positions and no others; exclusive access is the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(data.add(layout.offset([z, y, x], 0)), len) };
        Some(Rows { out, pitch, plane })
    }

    /// Where the rows of one result of f32 lie from a place of it on, to be asked for and no more.
    pub(crate) fn lines(&self, result: usize, place: [usize; 3]) -> Option<Coming> {
        let &Output::F32(data, ref layout) = &self.list[result] else { return None };
        let place = self.inside(place);
        let ([_, pitch, column], _) = layout.strides();
        let [_, rows, width] = layout.shape().padded();
        let pitch = usize::try_from(pitch).ok().filter(|_| column == 1)?;
        Some(Coming { from: data.wrapping_add(layout.offset(place, 0)), pitch, rows, width })
    }

    /// Writes a row of scores, rounded once, from a place of one result.
    ///
    /// # Safety
    /// The result's elements are borrowed exclusively by the running call, and no other thread writes this row.
    pub(crate) unsafe fn write(&self, result: usize, place: [usize; 3], scores: Scores<'_>) {
        let place = self.inside(place);
        // SAFETY: as promised to this function.
        unsafe {
            match (&self.list[result], scores) {
                (&Output::F32(data, ref layout), Scores::Single(row)) => {
                    write_row(data, layout, place, row, |score| score)
                }
                (&Output::F32(data, ref layout), Scores::Double(row)) => {
                    write_row(data, layout, place, row, |score| score as f32)
                }
                (&Output::F64(data, ref layout), Scores::Single(row)) => write_row(data, layout, place, row, f64::from),
                (&Output::F64(data, ref layout), Scores::Double(row)) => {
                    write_row(data, layout, place, row, |score| score)
                }
            }
        }
    }
}

/// Writes a row from a place of a result.
///
/// # Safety
/// `data` and `layout` are of a `ViewMut`; its elements are borrowed exclusively, and no other thread writes this row.
unsafe fn write_row<S: Copy, T>(
    data: *mut T,
    layout: &Layout,
    [z, y, x]: [usize; 3],
    row: &[S],
    round: impl Fn(S) -> T,
) {
    let [depth, height, width] = layout.shape().padded();
    assert!(
        z < depth && y < height && x + row.len() <= width,
        "a row of {} at {z},{y},{x} of {}",
        row.len(),
        layout.shape()
    );
    if row.is_empty() {
        return;
    }
    if layout.row_step() == 1 {
        // SAFETY: every position of the row lies in the layout's shape (asserted above), so in the slice of the view;
        // they lie side by side; exclusive access is the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(data.add(layout.offset([z, y, x], 0)), row.len()) };
        out.iter_mut().zip(row).for_each(|(out, &score)| *out = round(score));
        return;
    }
    for (k, &score) in row.iter().enumerate() {
        // SAFETY: as above, one position at a time.
        unsafe { data.add(layout.offset([z, y, x + k], 0)).write(round(score)) };
    }
}
