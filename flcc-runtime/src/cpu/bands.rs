//! Which outputs of a tile share which figure of the error model: engines tell, scores are judged by it.

use crate::problem::error_model::Figure;

/// Which outputs of a tile share which figure of the error model.
#[derive(Clone, Copy, Debug)]
pub enum Bands<'a> {
    /// None has one: an output is as wrong as its own panel makes it.
    Own,
    /// All share that of the tile, which is to be taken of its samples and cross term.
    Tile {
        /// What the mean square of all results may be, those that wrap round included.
        result: f64,
    },
    /// Each place of a grid has one.
    Grid(Grid<'a>),
}

/// Figures of the places of a grid over a tile's outputs.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a> {
    /// Plane by plane, row by row.
    pub figures: &'a [Figure],
    /// How many planes have figures; those after them have the same again.
    pub planes: usize,
    /// Figures from one row to the next.
    pub pitch: usize,
    /// Outputs of a place: height and width.
    pub place: [usize; 2],
    /// From a place's columns to others that share its figure; 0 where there are none.
    pub beside: usize,
}

impl<'a> Grid<'a> {
    /// One figure for all outputs.
    pub fn of(figure: &'a Figure, outputs: [usize; 2]) -> Grid<'a> {
        Grid { figures: std::slice::from_ref(figure), planes: 1, pitch: 1, place: outputs, beside: 0 }
    }

    /// Rows and columns of places that so many outputs take.
    pub fn places(&self, [height, width]: [usize; 2]) -> [usize; 2] {
        [height.div_ceil(self.place[0]), (width - self.beside).div_ceil(self.place[1])]
    }

    /// The figure of a place, by its plane, row and column.
    pub fn figure(&self, plane: usize, row: usize, column: usize) -> Figure {
        let at = plane % self.planes + row * self.pitch + column;
        self.figures.get(at).copied().unwrap_or_default()
    }

    /// Where a place's outputs begin along a row.
    pub fn begins(&self, column: usize) -> impl Iterator<Item = usize> + use<> {
        let begin = column * self.place[1];
        let beside = (self.beside > 0).then_some(begin + self.beside);
        std::iter::once(begin).chain(beside)
    }
}
