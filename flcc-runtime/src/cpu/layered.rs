//! Correlation of volumes by transforms of their planes: Fourier along height and width, direct along depth.
//!
//! A plane of a tile, in a pair of tiles as `planar.rs` has them, is transformed once and serves as many planes of results as
//! the template is deep: each is the sum of products with the spectra of the template's planes, transformed back. A frequency
//! takes four multiply-adds for each plane of the template, where a direct kernel takes one for each of its samples.
//!
//! The two tiles of a pair lie side by side, or, where the result is not wide enough for that, one behind the other.

use super::aligned::Aligned;
use super::butterfly::Complex;
use super::isa::IsaSet;
use super::planar::{self, Buffers, Figure, Planar, Planes, Results, Samples, stride};
use super::simd::{Job, Simd};
use crate::pad::Pitch;

/// The lengths of transforms.
pub const LENGTHS: [usize; 3] = [64, 128, 256];

/// Planes of results that are summed up together, in registers.
const TOGETHER: usize = 4;

/// The shape of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Samples of a transform, on both axes: one of [`LENGTHS`].
    pub length: usize,
    /// Outputs of each tile of a pair: depth, height and width.
    pub outputs: [usize; 3],
    /// Whether the second tile of a pair lies behind the first, not at its right.
    pub behind: bool,
    /// Depth, height and width of the template.
    pub template: [usize; 3],
}

impl Layout {
    /// Outputs of a whole tile, which is one pair: depth, height and width.
    pub fn tile(&self) -> [usize; 3] {
        let [depth, height, width] = self.outputs;
        if self.behind { [2 * depth, height, width] } else { [depth, height, 2 * width] }
    }

    /// Planes of samples under each tile of a pair.
    fn planes(&self) -> usize {
        self.outputs[0] + self.template[0] - 1
    }

    /// The shape of the buffers: input, with what transforms read past its samples; output, with what they write past it.
    pub fn pitches(&self) -> (Pitch, Pitch) {
        let [depth, height, width] = self.tile();
        let pitch = |columns: usize, rows: usize, planes: usize| {
            let row = columns.next_multiple_of(16);
            // Rows, of which a transform takes many at once, would fall on few sets of the cache.
            let row = if row.is_multiple_of(128) { row + 16 } else { row };
            Pitch { row, plane: row * rows, rows, planes }
        };
        let reach = width + self.length - self.outputs[2];
        let input = pitch(reach, self.length, depth + self.template[0] - 1);
        (input, pitch(width.next_multiple_of(16) + 16, height, depth))
    }

    /// The plane of the pair's results that a plane of the tile belongs to.
    pub fn plane_of(&self, z: usize) -> usize {
        z % self.outputs[0]
    }
}

/// A template bound to transforms of planes.
pub struct Spectra {
    /// For each frequency of a tile those of the template's planes, one after the other.
    planes: Planes,
    /// The largest square of their magnitudes there.
    most: Aligned<f32>,
}

/// Buffers of one worker.
pub struct LayeredScratch {
    strip: Planes,
    /// A tile for each plane of samples.
    tiles: Planes,
    /// Sums of squares, a vector a plane: of the results' frequencies, and of the samples' under [`Spectra::most`].
    squares: [Aligned<f32>; 2],
    /// Energy and largest column of each plane of samples.
    energies: Vec<[f64; 2]>,
    /// A figure for each plane of the pair's results, of the tile computed last.
    pub figures: Vec<Figure>,
    /// The energy of its samples; what both tiles of the pair share counts twice.
    pub energy: f64,
}

/// The transforms of tiles of one shape.
pub struct Layered {
    layout: Layout,
    /// The transform of a plane.
    plane: Planar,
}

/// Where the samples of a tile and its cross term lie.
pub struct Ground<'a> {
    /// From the first sample.
    pub input: &'a [f32],
    /// The samples' buffer.
    pub in_pitch: Pitch,
    /// From the first output.
    pub out: &'a mut [f32],
    /// The outputs' buffer.
    pub out_pitch: Pitch,
}

impl Layered {
    /// The engine, if this processor has an instruction set that it is compiled for.
    ///
    /// # Panics
    /// A length that is none of [`LENGTHS`], or a template or outputs that do not fit in it.
    pub fn new(layout: Layout, isas: &IsaSet) -> Option<Layered> {
        assert!(LENGTHS.contains(&layout.length), "transform: expected one of {LENGTHS:?} samples, got {}", layout.length);
        let Layout { length, outputs: [_, height, width], template: [_, rows, columns], .. } = layout;
        let plane = planar::Layout { length, line: false, outputs: [height, width], pairs: [1, 1], template: [rows, columns] };
        Some(Layered { layout, plane: Planar::new(plane, isas)? })
    }

    /// How a tile is divided.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Values from one plane's tile to the next: not a power of two either.
    fn tile_len(&self) -> usize {
        self.plane.plane_len() + self.plane.vectors().lanes()
    }

    /// Buffers of a worker.
    pub fn scratch(&self) -> LayeredScratch {
        let (planes, lanes) = (self.layout.planes(), self.plane.vectors().lanes());
        LayeredScratch {
            strip: Planes::new(self.layout.length * lanes),
            tiles: Planes::new(planes * self.tile_len()),
            squares: [Aligned::new(0.0, self.layout.outputs[0] * lanes), Aligned::new(0.0, planes * lanes)],
            energies: vec![[0.0; 2]; planes],
            figures: vec![Figure::default(); self.layout.outputs[0]],
            energy: 0.0,
        }
    }

    /// Bytes of that.
    pub fn scratch_bytes(&self) -> usize {
        let (planes, lanes) = (self.layout.planes(), self.plane.vectors().lanes());
        Planes::bytes(self.layout.length * lanes)
            + Planes::bytes(planes * self.tile_len())
            + Aligned::<f32>::bytes(self.layout.outputs[0] * lanes)
            + Aligned::<f32>::bytes(planes * lanes)
            + planes * size_of::<[f64; 2]>()
            + self.layout.outputs[0] * size_of::<Figure>()
    }

    /// Bytes of a template's spectra.
    pub fn spectra_bytes(&self) -> usize {
        Planes::bytes(self.layout.template[0] * self.plane.plane_len()) + Aligned::<f32>::bytes(self.plane.plane_len())
    }

    /// The spectra of a template's planes, conjugate and divided by the samples of a transform: computed in f64, rounded once.
    pub fn prepare(&self, template: &[f64]) -> Spectra {
        let [depth, rows, columns] = self.layout.template;
        let (len, lanes) = (self.plane.plane_len(), self.plane.vectors().lanes());
        let mut spectra = Spectra { planes: Planes::new(depth * len), most: Aligned::new(0.0, len) };
        for (z, plane) in template.chunks_exact(rows * columns).enumerate() {
            let spectrum = self.plane.prepare(plane);
            for at in 0..len {
                let to = (at / lanes * depth + z) * lanes + at % lanes;
                let (re, im) = (spectrum.re[at], spectrum.im[at]);
                (spectra.planes.re[to], spectra.planes.im[to]) = (re, im);
                spectra.most[at] = spectra.most[at].max(re * re + im * im);
            }
        }
        spectra
    }

    /// The cross term of the first `outputs` (depth, height and width) of a tile, and a figure for each plane of the pair.
    ///
    /// Rows of `out` are written up to the next vector past `outputs`.
    pub fn run(&self, ground: Ground<'_>, template: &Spectra, scratch: &mut LayeredScratch, outputs: [usize; 3]) {
        let job = Volume { layout: &self.layout, twiddles: self.plane.twiddles(), tile_len: self.tile_len(), ground, template, scratch, outputs };
        let vectors = self.plane.vectors();
        match self.layout.length {
            64 => vectors.run(Sized::<64>(job)),
            128 => vectors.run(Sized::<128>(job)),
            _ => vectors.run(Sized::<256>(job)),
        }
    }
}

/// A tile of a volume, its buffers and where the results go.
struct Volume<'a> {
    layout: &'a Layout,
    twiddles: &'a [Vec<[f32; 2]>],
    tile_len: usize,
    ground: Ground<'a>,
    template: &'a Spectra,
    scratch: &'a mut LayeredScratch,
    outputs: [usize; 3],
}

/// That under transforms of `N` by `N` samples.
struct Sized<'a, const N: usize>(Volume<'a>);

impl<const N: usize> Job for Sized<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Volume { layout, twiddles, tile_len, ground, template, scratch, outputs } = self.0;
        let Ground { input, in_pitch, out, out_pitch } = ground;
        let LayeredScratch { strip, tiles, squares: [of_results, of_samples], energies, figures, energy } = scratch;
        let [depth, height, width] = layout.outputs;
        let layers = layout.template[0];
        let planes = outputs[0].min(depth);
        let beside = |pitch: Pitch| if layout.behind { depth * pitch.plane } else { width };
        *energy = 0.0;
        for (z, energies) in energies[..planes + layers - 1].iter_mut().enumerate() {
            let samples = Samples { from: &input[z * in_pitch.plane..], pitch: in_pitch.row, beside: beside(in_pitch) };
            let mut buffers = Buffers { twiddles, strip, tile: tiles.part(z * tile_len, tile_len) };
            let (sum, column) = buffers.columns_forward::<S, N>(s, &samples);
            buffers.rows_forward::<S, N>(s);
            *energies = [sum, column];
            *energy += sum;
        }
        let of_results = &mut S::rows_mut(of_results)[..planes];
        let of_samples = &mut S::rows_mut(of_samples)[..planes + layers - 1];
        let [re, im] = tiles.parts();
        let frequencies = Frequencies::<S> { re: S::rows_mut(re), im: S::rows_mut(im), tile: tile_len / S::LANES };
        products::<S, N>(s, frequencies, template, layers, of_results, of_samples);
        let first = outputs[2].min(width);
        for z in 0..planes {
            let second = match layout.behind {
                true if z + depth < outputs[0] => first,
                true => 0,
                false => (outputs[2] - first).min(width),
            };
            let wanted = Results { pitch: out_pitch.row, beside: beside(out_pitch), rows: outputs[1].min(height), columns: [first, second] };
            let mut buffers = Buffers { twiddles, strip, tile: tiles.part(z * tile_len, tile_len) };
            buffers.rows_back::<S, N>(s);
            let peak = buffers.columns_back::<S, N>(s, &mut out[z * out_pitch.plane..], &wanted);
            let total = |row: &S::Row| f64::from(s.total(s.load(row)));
            // What cancels between planes was rounded before it did.
            let terms: f64 = of_samples[z..z + layers].iter().map(total).sum();
            let result = total(&of_results[z]) + (1.0 + layers as f64 / 12.0) * terms;
            let under = &energies[z..z + layers];
            let energy = under.iter().fold(0.0, |most: f64, [energy, _]| most.max(*energy));
            let column = under.iter().map(|[_, column]| column).sum();
            figures[z] = Figure { energy, result, peak, column };
        }
    }
}

/// The frequencies of the planes of a tile: `tile` rows from one plane to the next.
struct Frequencies<'a, S: Simd> {
    re: &'a mut [S::Row],
    im: &'a mut [S::Row],
    tile: usize,
}

/// For every frequency and every plane of results the sum of the products with the template's planes, in place of the first of the
/// planes that it is of; and sums of squares, a vector a plane.
#[inline(always)]
fn products<S: Simd, const N: usize>(
    s: S,
    frequencies: Frequencies<'_, S>,
    template: &Spectra,
    layers: usize,
    of_results: &mut [S::Row],
    of_samples: &mut [S::Row],
) {
    let Frequencies { re, im, tile } = frequencies;
    let (template_re, template_im, most) = (S::rows(&template.planes.re), S::rows(&template.planes.im), S::rows(&template.most));
    of_results.iter_mut().chain(&mut *of_samples).for_each(|row| s.store(row, s.splat(0.0)));
    let (planes, samples) = (of_results.len(), of_samples.len());
    for row in (0..N / S::LANES).flat_map(|group| (0..N).map(move |x| group * stride(N) + x)) {
        let (taps_re, taps_im) = (&template_re[row * layers..][..layers], &template_im[row * layers..][..layers]);
        let most = s.load(&most[row]);
        for (z, squares) in of_samples.iter_mut().enumerate() {
            let x = Complex::<S> { re: s.load(&re[z * tile + row]), im: s.load(&im[z * tile + row]) };
            let square = x.square(s, s.splat(0.0));
            s.store(squares, s.mul_add(square, most, s.load(squares)));
        }
        for first in (0..planes).step_by(TOGETHER) {
            let mut sums = [Complex::<S>::zero(s); TOGETHER];
            for z in first..samples.min(first + TOGETHER + layers - 1) {
                let x = Complex::<S> { re: s.load(&re[z * tile + row]), im: s.load(&im[z * tile + row]) };
                for (ahead, sum) in sums.iter_mut().enumerate() {
                    let layer = (z - first).wrapping_sub(ahead);
                    if layer < layers {
                        *sum = x.times_add(s, s.load(&taps_re[layer]), s.load(&taps_im[layer]), *sum);
                    }
                }
            }
            for ((z, squares), sum) in of_results.iter_mut().enumerate().skip(first).zip(&sums) {
                s.store(&mut re[z * tile + row], sum.re);
                s.store(&mut im[z * tile + row], sum.im);
                s.store(squares, sum.square(s, s.load(squares)));
            }
        }
    }
}
