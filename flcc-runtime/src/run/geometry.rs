//! Where the samples of a tile lie: in the image, and in a buffer.

/// The samples that a tile's panels cover, in image coordinates; they may lie outside the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Samples {
    /// The first one.
    pub begin: [isize; 3],
    /// How many there are on each axis.
    pub len: [usize; 3],
}

/// A buffer that samples are gathered into: pitches, and the rows and planes that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pitch {
    /// Elements from one row to the next.
    pub row: usize,
    /// Elements from one plane to the next.
    pub plane: usize,
    /// Rows of a plane, slack included.
    pub rows: usize,
    /// Planes.
    pub planes: usize,
}

impl Pitch {
    /// Elements of the buffer.
    pub fn elements(&self) -> usize {
        self.planes * self.plane
    }
}
