//! Memory asked for before it is used.

/// Values of a cache line.
pub(crate) const LINE: usize = 16;

/// Rows of memory that will be used.
#[derive(Clone, Copy)]
pub struct Coming {
    /// Of the first row; only asked for, never read.
    pub(crate) from: *const f32,
    pub(crate) pitch: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
}

impl Coming {
    /// Those of these values.
    pub fn new(values: &[f32], pitch: usize, rows: usize, width: usize) -> Coming {
        Coming { from: values.as_ptr(), pitch, rows, width }
    }

    /// Lines of all rows.
    pub(crate) fn count(&self) -> usize {
        self.rows * self.width.div_ceil(LINE)
    }
}
