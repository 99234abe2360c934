//! Where the windows and taps of products of tiles lie.

use crate::cpu::kernels::operands::GROUP;

/// Windows of a product, and outputs of each.
pub(crate) const SIDE: usize = 16;
/// Bytes of a window: a line of the cache.
pub(crate) const LINE: usize = 64;
/// Bytes of the windows of a product.
pub(crate) const WINDOWS: usize = SIDE * LINE;
/// Outputs of a product, and groups of its taps: 16 rows of 16 columns of four.
pub(crate) const SPAN: usize = SIDE * SIDE;

/// Outputs to which widths are rounded up: a vector of those who go on with the sums.
pub const LANES: usize = 16;

/// Where the windows and the taps of templates of one shape lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plot {
    pub(crate) depth: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Image rows of a window, and output rows: 1, 2 or 4.
    pub(crate) rows: usize,
}

impl Plot {
    /// The cheapest for templates of this shape: depth, height, width.
    pub fn new([depth, height, width]: [usize; 3]) -> Plot {
        let plots = [1, 2, 4].map(|rows| Plot { depth, height, width, rows });
        // For large tiles, whatever the tile: the taps are laid out before there is one.
        let cycles = |plot: &Plot| plot.cycles([8, 64, 256]);
        let cheapest = plots.into_iter().min_by(|a, b| cycles(a).total_cmp(&cycles(b))).unwrap_or(plots[0]);
        if plots[0].in_place() { plots[0] } else { cheapest }
    }

    /// Neighbouring outputs of a window, in each of its rows.
    pub(crate) fn columns(&self) -> usize {
        SIDE / self.rows
    }

    /// Bytes of one image row that so many neighbours meet, made up so that the rows of a window are whole lines.
    pub(crate) fn stretch(&self) -> usize {
        self.width.saturating_add(self.columns() - 1).div_ceil(self.piece()).saturating_mul(self.piece())
    }

    /// Bytes that are copied at once, all into one line.
    pub(crate) fn piece(&self) -> usize {
        LINE / self.rows
    }

    /// Windows for all that its image rows meet.
    pub(crate) fn lines(&self) -> usize {
        self.stretch().saturating_mul(self.rows) / LINE
    }

    /// Products of a plane of the template: of all windows that its rows touch.
    pub(crate) fn steps(&self) -> usize {
        self.lines().saturating_mul(self.height.saturating_add(self.rows - 1).div_ceil(self.rows))
    }

    /// Products for each 256 outputs.
    pub(crate) fn products(&self) -> usize {
        self.depth.saturating_mul(self.steps())
    }

    /// About how many cycles an output takes in a tile of so many, beside its result.
    ///
    /// Measured on an Emerald Rapids: a product takes a cycle for each of its windows, but 8 at least, and some for its
    /// loads. A piece is copied in 3. Where windows are taken in place a product is priced as any: of twelve lines of
    /// 20,000 to a million bytes by 200 to 3000 taps (one thread, a Xeon with AMX and the costs of profiles/xeon.toml)
    /// estimates were 1.6 to 5.3 times what was measured with three times that price, and come to 0.7 to 3.1 with this.
    pub fn cycles(&self, [depth, height, width]: [usize; 3]) -> f64 {
        let [bands, places] = [height.div_ceil(self.rows), width.div_ceil(self.columns())];
        let windows = (places / SIDE * SIDE + (places % SIDE).next_multiple_of(8)) as f64;
        let [product, piece, other] = if self.in_place() { [20.0, 0.0, 0.5] } else { [20.0, 3.0, 0.0] };
        let products = (depth * bands * self.products()) as f64 * windows / SIDE as f64;
        let pieces = (depth + self.depth - 1) * (height + self.height - 1) * places * (self.stretch() / self.piece());
        other + (product * products + piece * pieces as f64) / (depth * height * width).max(1) as f64
    }

    /// Groups of four taps, zeros between them counted.
    pub fn groups(&self) -> usize {
        self.products().saturating_mul(SPAN)
    }

    /// Whether windows are taken where the image's rows lie.
    pub(crate) fn in_place(&self) -> bool {
        self.depth == 1 && self.height == 1
    }

    /// Bytes that are read of a row of samples for so many outputs.
    pub fn reach(&self, outputs: usize) -> usize {
        let last = outputs.saturating_sub(1) / self.columns() * self.columns();
        last.saturating_add(self.stretch())
    }

    /// Products of which a plane of samples holds the windows, for so many output rows.
    pub(crate) fn below(&self, height: usize) -> usize {
        height.div_ceil(self.rows).saturating_mul(self.lines()).saturating_add(self.steps())
    }

    /// Bytes of the windows of 16 places side by side, in a tile of such outputs.
    pub fn room(&self, out: [usize; 3]) -> usize {
        let planes = out[0].saturating_add(self.depth - 1);
        if self.in_place() || out.contains(&0) {
            0
        } else {
            self.below(out[1]).saturating_mul(planes).saturating_mul(WINDOWS)
        }
    }

    /// Lays out the taps of a template, integers from 0 to 255; `groups` holds [`Plot::groups`] of zeros.
    pub fn lay(&self, values: &[f64], groups: &mut [[u8; GROUP]]) {
        let (plane, columns) = (self.steps() * SPAN, self.columns());
        // How many bytes after the first output's window a tap's byte of each output lies.
        let later: [usize; SIDE] = std::array::from_fn(|output| output / columns * self.stretch() + output % columns);
        for (number, row) in values.chunks_exact(self.width).enumerate() {
            let (z, i) = (number / self.height, number % self.height);
            for (j, &value) in row.iter().enumerate() {
                let (value, first) = (value as u8, i * self.stretch() + j);
                for (output, later) in later.iter().enumerate() {
                    let byte = first + later;
                    groups[z * plane + byte / GROUP * SIDE + output][byte % GROUP] = value;
                }
            }
        }
    }
}
