//! Correlation of volumes by transforms of their planes: Fourier along height and width, direct along depth.
//!
//! A plane of a tile, in a pair of tiles as `fft/pair.rs` has them, is transformed once and serves as many planes of
//! results as the template is deep: each is the sum of products with the spectra of the template's planes, transformed
//! back. A frequency takes four multiply-adds for each plane of the template, where a direct kernel takes one for each
//! of its samples.
//!
//! The two tiles of a pair lie side by side, or, where the result is not wide enough for that, one behind the other.

use crate::cpu::aligned::Aligned;
use crate::cpu::fft::dither::Dither;
use crate::cpu::fft::pair::{self, Buffers, Planes, Results, Samples, Sums, rows_back, stride, to_last};
use crate::cpu::fft::stages::{Complex, last};
use crate::cpu::memory::Memory;
use crate::isa::IsaSet;
use crate::isa::simd::{Job, Simd};
use crate::problem::error_model::Figure;
use crate::run::geometry::Pitch;

/// The lengths of transforms.
pub const LENGTHS: [usize; 3] = [64, 128, 256];

/// The deepest templates. Planes are added up one after the other, and where they repeat each addition may round the
/// same way, which the model of `problem/error_model.rs` does not know; up to here its margin covers that.
pub const MOST_LAYERS: usize = 64;

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

    /// The shape of the buffers: input, with what transforms read past its samples; output, with what they write past
    /// it.
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
}

/// A template bound to transforms of planes.
pub struct Spectra {
    /// For each frequency of a tile those of the template's planes, one after the other.
    planes: Planes,
    /// The largest square of their magnitudes there.
    most: Aligned<f32>,
}

/// Buffers of one worker.
pub struct Scratch {
    strip: Planes,
    /// A tile for each plane of samples.
    tiles: Planes,
    /// Sums of squares, a vector a plane: of the results' frequencies, and of the samples' under [`Spectra::most`].
    squares: [Aligned<f32>; 2],
    /// Sums of squares of the rows of frequencies of each plane of samples.
    rows: Aligned<f32>,
    /// Energy and largest column of each plane of samples.
    energies: Vec<[f64; 2]>,
    /// A figure for each plane of the pair's results, of the tile computed last.
    pub figures: Vec<Figure>,
}

/// The transforms of tiles of one shape.
pub struct Transform {
    layout: Layout,
    /// The transform of a plane.
    plane: pair::Transform,
}

/// Where the samples of a tile and its cross term lie.
pub struct VolumeRun<'a> {
    /// From the first sample.
    pub input: &'a [f32],
    /// The samples' buffer.
    pub in_pitch: Pitch,
    /// From the first output.
    pub out: &'a mut [f32],
    /// The outputs' buffer.
    pub out_pitch: Pitch,
}

impl Transform {
    /// The engine, if this processor has an instruction set that it is compiled for.
    ///
    /// # Panics
    /// A length that is none of [`LENGTHS`], or a template or outputs that do not fit in it.
    pub fn new(layout: Layout, isas: &IsaSet) -> Option<Transform> {
        assert!(
            LENGTHS.contains(&layout.length),
            "transform: expected one of {LENGTHS:?} samples, got {}",
            layout.length
        );
        let Layout { length, outputs: [_, height, width], template: [_, rows, columns], .. } = layout;
        let plane =
            pair::Layout { length, line: false, outputs: [height, width], pairs: [1, 1], template: [rows, columns] };
        Some(Transform { layout, plane: pair::Transform::new(plane, isas)? })
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
    pub fn scratch(&self, memory: &mut Memory) -> Scratch {
        let (planes, lanes) = (self.layout.planes(), self.plane.vectors().lanes());
        Scratch {
            strip: Planes::of(self.layout.length * lanes, memory),
            tiles: Planes::of(planes * self.tile_len(), memory),
            squares: [self.layout.outputs[0], planes].map(|planes| memory.aligned(0.0, planes * lanes)),
            rows: memory.aligned(0.0, planes * self.layout.length),
            energies: memory.values([0.0; 2], planes),
            figures: memory.values(Figure::default(), self.layout.outputs[0]),
        }
    }

    /// Bytes of a template's spectra.
    pub fn spectra_bytes(&self) -> usize {
        Planes::bytes(self.layout.template[0] * self.plane.plane_len()) + Aligned::<f32>::bytes(self.plane.plane_len())
    }

    /// The spectra of a template's planes, conjugate and divided by the samples of a transform: computed in f64,
    /// rounded once.
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

    /// What a wave of amplitude 1 in every plane of a tile comes to at most: the largest sum, over the planes of a
    /// template, of the magnitudes of their spectra.
    pub fn wave(&self, template: &Spectra) -> f64 {
        let (depth, lanes) = (self.layout.template[0], self.plane.vectors().lanes());
        let Planes { re, im } = &template.planes;
        let mut sums = vec![0.0f32; lanes];
        let mut most = 0.0f32;
        for (re, im) in re.chunks(depth * lanes).zip(im.chunks(depth * lanes)) {
            sums.fill(0.0);
            for (re, im) in re.chunks(lanes).zip(im.chunks(lanes)) {
                sums.iter_mut().zip(re.iter().zip(im)).for_each(|(sum, (re, im))| *sum += (re * re + im * im).sqrt());
            }
            most = sums.iter().fold(most, |most, &sum| most.max(sum));
        }
        f64::from(most) * (self.layout.length * self.layout.length) as f64
    }

    /// The cross term of the first `outputs` (depth, height and width) of a tile, and a figure for each plane of the
    /// pair.
    ///
    /// Rows of `out` are written up to the next vector past `outputs`.
    pub fn run(&self, run: VolumeRun<'_>, template: &Spectra, scratch: &mut Scratch, outputs: [usize; 3]) {
        let job = Volume {
            layout: &self.layout,
            twiddles: self.plane.twiddles(),
            dither: self.plane.dither(),
            tile_len: self.tile_len(),
            run,
            template,
            scratch,
            outputs,
        };
        let vectors = self.plane.vectors();
        match self.layout.length {
            64 => vectors.run(OfLength::<64>(job)),
            128 => vectors.run(OfLength::<128>(job)),
            _ => vectors.run(OfLength::<256>(job)),
        }
    }
}

/// A tile of a volume, its buffers and where the results go.
struct Volume<'a> {
    layout: &'a Layout,
    twiddles: &'a [Vec<[f32; 2]>],
    dither: &'a Dither,
    tile_len: usize,
    run: VolumeRun<'a>,
    template: &'a Spectra,
    scratch: &'a mut Scratch,
    outputs: [usize; 3],
}

/// A tile of a volume, to be correlated by transforms of `N` by `N` samples.
struct OfLength<'a, const N: usize>(Volume<'a>);

impl<const N: usize> Job for OfLength<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Volume { layout, twiddles, dither, tile_len, run, template, scratch, outputs } = self.0;
        let VolumeRun { input, in_pitch, out, out_pitch } = run;
        let Scratch { strip, tiles, squares: [of_results, of_samples], rows, energies, figures } = scratch;
        let [depth, height, width] = layout.outputs;
        let layers = layout.template[0];
        let planes = outputs[0].min(depth);
        let beside = |pitch: Pitch| if layout.behind { depth * pitch.plane } else { width };
        for (z, energies) in energies[..planes + layers - 1].iter_mut().enumerate() {
            let samples = Samples { from: &input[z * in_pitch.plane..], pitch: in_pitch.row, beside: beside(in_pitch) };
            let mut buffers = Buffers { twiddles, strip, tile: tiles.part(z * tile_len, tile_len) };
            let Sums { energy, column } =
                buffers.columns_forward::<S, N>(s, &samples, (dither, z), &mut rows[z * N..][..N], None);
            *energies = [energy, column];
        }
        let of_results = &mut S::rows_mut(of_results)[..planes];
        let of_samples = &mut S::rows_mut(of_samples)[..planes + layers - 1];
        of_results.iter_mut().chain(&mut *of_samples).for_each(|row| s.store(row, s.splat(0.0)));
        let [re, im] = tiles.parts();
        let (re, im) = (S::rows_mut(re), S::rows_mut(im));
        // A group of frequencies of all planes stays in the cache from the rows' transforms to those back.
        for group in 0..N / S::LANES {
            let at = |z: usize| z * (tile_len / S::LANES) + group * stride(N);
            for z in 0..planes + layers - 1 {
                let (re, im) = (&mut re[at(z)..at(z) + N], &mut im[at(z)..at(z) + N]);
                // Equal planes have unequal noise.
                let first = group * S::LANES;
                let noise = dither.of::<S, N>(s, s.load_at(rows, z * N + first), first, z);
                to_last::<S, N>(s, re, im, twiddles, Some(noise));
                last(s, re, im, Some(noise));
            }
            let frequencies =
                Frequencies::<S> { re: &mut re[at(0)..], im: &mut im[at(0)..], tile: tile_len / S::LANES };
            let taps = Layers::<S>::new(template, group * stride(N), layers);
            products::<S, N>(s, frequencies, taps, of_results, of_samples);
            for z in 0..planes {
                rows_back::<S, N>(s, &mut re[at(z)..at(z) + N], &mut im[at(z)..at(z) + N], twiddles);
            }
        }
        let first = outputs[2].min(width);
        for z in 0..planes {
            let second = match layout.behind {
                true if z + depth < outputs[0] => first,
                true => 0,
                false => (outputs[2] - first).min(width),
            };
            let wanted = Results {
                pitch: out_pitch.row,
                beside: beside(out_pitch),
                rows: outputs[1].min(height),
                columns: [first, second],
                room: usize::MAX,
            };
            let mut buffers = Buffers { twiddles, strip, tile: tiles.part(z * tile_len, tile_len) };
            let peak = buffers.columns_back::<S, N>(s, &mut out[z * out_pitch.plane..], &wanted, None);
            // What cancels between planes was rounded before it did: partial sums have at most an eighth of the terms'
            // squares for each.
            let mut terms = 0.0;
            for row in &of_samples[z..z + layers] {
                terms += f64::from(s.total(s.load(row)));
            }
            let result = f64::from(s.total(s.load(&of_results[z]))) + (1.0 + layers as f64 / 8.0) * terms;
            let under = &energies[z..z + layers];
            let energy = under.iter().fold(0.0, |most: f64, [energy, _]| most.max(*energy));
            let column = under.iter().map(|[_, column]| column).sum();
            figures[z] = Figure { energy, result, peak, column, ..Figure::default() };
        }
    }
}

/// A group of frequencies of the planes of a tile: `tile` rows from one plane to the next.
struct Frequencies<'a, S: Simd> {
    re: &'a mut [S::Row],
    im: &'a mut [S::Row],
    tile: usize,
}

/// The frequencies of the planes of a template, from those of a group on.
struct Layers<'a, S: Simd> {
    re: &'a [S::Row],
    im: &'a [S::Row],
    most: &'a [S::Row],
    layers: usize,
}

impl<'a, S: Simd> Layers<'a, S> {
    /// The frequencies of a template's planes from a row of a tile on.
    #[inline(always)]
    fn new(template: &'a Spectra, row: usize, layers: usize) -> Layers<'a, S> {
        let Spectra { planes, most } = template;
        Layers {
            re: &S::rows(&planes.re)[row * layers..],
            im: &S::rows(&planes.im)[row * layers..],
            most: &S::rows(most)[row..],
            layers,
        }
    }
}

/// For every frequency and every plane of results the sum of the products with the template's planes, in place of the
/// first of the planes that it is of; adds to sums of squares, a vector a plane.
#[inline(always)]
fn products<S: Simd, const N: usize>(
    s: S,
    frequencies: Frequencies<'_, S>,
    taps: Layers<'_, S>,
    of_results: &mut [S::Row],
    of_samples: &mut [S::Row],
) {
    let Frequencies { re, im, tile } = frequencies;
    let layers = taps.layers;
    let (planes, samples) = (of_results.len(), of_samples.len());
    for row in 0..N {
        let (taps_re, taps_im) = (&taps.re[row * layers..][..layers], &taps.im[row * layers..][..layers]);
        let most = s.load(&taps.most[row]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fft::expected;
    use crate::cpu::testing::{self, Ratios, noise, seeds, sets};
    use crate::problem::error_model::{Figures, Rounding};

    fn layouts() -> Vec<Layout> {
        let layout = |length, outputs, behind, template| Layout { length, outputs, behind, template };
        vec![
            layout(64, [6, 57, 57], false, [8, 8, 8]),
            layout(64, [3, 50, 61], false, [1, 9, 4]),
            layout(64, [5, 40, 48], true, [4, 16, 17]),
            layout(128, [2, 97, 120], true, [2, 32, 9]),
            layout(128, [4, 120, 113], false, [3, 5, 16]),
            layout(64, [2, 57, 57], false, [MOST_LAYERS, 8, 8]),
            layout(256, [2, 193, 200], false, [2, 64, 57]),
        ]
    }

    /// A tile, with what lies past its samples 0.
    fn gathered(layout: &Layout, mut sample: impl FnMut(usize, usize, usize) -> f32) -> Aligned<f32> {
        let (pitch, _) = layout.pitches();
        let mut input = Aligned::new(0.0, pitch.elements());
        let len: [usize; 3] = std::array::from_fn(|axis| layout.tile()[axis] + layout.template[axis] - 1);
        for (z, y) in (0..len[0]).flat_map(|z| (0..len[1]).map(move |y| (z, y))) {
            for x in 0..len[2] {
                input[z * pitch.plane + y * pitch.row + x] = sample(z, y, x);
            }
        }
        input
    }

    fn at_hand<'a>(layout: &Layout, input: &'a [f32], out: &'a mut [f32]) -> VolumeRun<'a> {
        let (in_pitch, out_pitch) = layout.pitches();
        VolumeRun { input, in_pitch, out, out_pitch }
    }

    #[test]
    fn it_correlates() {
        for isas in sets() {
            for layout in layouts() {
                let transform = Transform::new(layout, &isas).unwrap();
                let (mut tile, mut taps) = (noise(5), noise(9));
                let input = gathered(&layout, |_, _, _| tile());
                let template: Vec<f64> = (0..layout.template.iter().product()).map(|_| f64::from(taps())).collect();
                let expected = expected::correlated(&input, &layout.pitches().0, &template, layout.template);
                let (spectra, mut scratch) = (transform.prepare(&template), transform.scratch(&mut Memory::making()));
                let (in_pitch, pitch) = layout.pitches();
                let [depth, height, width] = layout.tile();
                let norm = template.iter().map(|value| value * value).sum::<f64>().sqrt();
                let tolerance = 1e-6 * norm * (layout.length as f64).sqrt();
                // Whole tiles, and cut ones: by planes, without a second tile, by a few rows and columns.
                for outputs in [[depth, height, width], [depth - 1, height - 7, width - 5], [1, 1, 1], layout.outputs] {
                    let mut out = Aligned::new(f32::NAN, pitch.elements());
                    transform.run(at_hand(&layout, &input, &mut out), &spectra, &mut scratch, outputs);
                    for (z, y) in (0..outputs[0]).flat_map(|z| (0..outputs[1]).map(move |y| (z, y))) {
                        for x in 0..outputs[2] {
                            let got = f64::from(out[z * pitch.plane + y * pitch.row + x]);
                            let want = expected[z * in_pitch.plane + y * in_pitch.row + x];
                            assert!(
                                (got - want).abs() <= tolerance,
                                "{isas} {layout:?} {outputs:?} at {z},{y},{x}: {got} for {want}"
                            );
                        }
                    }
                    let below = |z: usize| &out[z * pitch.plane + outputs[1] * pitch.row..(z + 1) * pitch.plane];
                    let after = &out[outputs[0] * pitch.plane..];
                    let mut unwanted = (0..outputs[0]).flat_map(below).chain(after);
                    assert!(
                        unwanted.all(|value| value.is_nan()),
                        "{isas} {layout:?} {outputs:?}: wrote rows or planes that were not wanted"
                    );
                }
            }
        }
    }

    #[test]
    fn sums_of_squares_are_those_of_each_plane() {
        for isas in sets() {
            for layout in layouts() {
                let transform = Transform::new(layout, &isas).unwrap();
                let (n, mut tile) = (layout.length, noise(3));
                let input = gathered(&layout, |z, _, _| tile() * (1.0 + z as f32));
                let template = vec![1.0; layout.template.iter().product()];
                let (spectra, mut scratch) = (transform.prepare(&template), transform.scratch(&mut Memory::making()));
                let mut out = Aligned::new(0.0, layout.pitches().1.elements());
                transform.run(at_hand(&layout, &input, &mut out), &spectra, &mut scratch, layout.outputs);
                // By Parseval, of the transforms down the columns.
                for (z, (rows, [energy, _])) in scratch.rows.chunks_exact(n).zip(&scratch.energies).enumerate() {
                    let (got, exact) = (rows.iter().map(|&row| f64::from(row)).sum::<f64>(), energy * n as f64);
                    assert!((got / exact - 1.0).abs() < 1e-4, "{isas} {layout:?}, plane {z}: {got} for {exact}");
                }
            }
        }
    }

    /// As the test of `fft/pair.rs` that is called the same: the largest error of a result over what the model of
    /// `problem/error_model.rs` grants it.
    #[test]
    fn errors_stay_within_their_estimate() {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for layout in layouts().into_iter().filter(|layout| layout.length == 64 || seed > seeds().start) {
                    errors_of(&layout, &isas, 100 * seed, &mut ratios);
                }
            }
            ratios.judge(&format!("planes of volumes, {isas}"));
        }
    }

    #[test]
    fn a_few_equal_samples_under_stripes_err_by_less_than_they_are_granted() {
        judge_hostile("a few equal samples under stripes", testing::striped);
    }

    #[test]
    fn copies_of_few_levels_err_by_less_than_they_are_granted() {
        judge_hostile("copies of few levels beside a step", testing::copied);
        judge_hostile("copies of few levels among blocks", testing::among_blocks);
    }

    fn judge_hostile(name: &str, make: testing::Hostile) {
        for isas in sets() {
            let mut ratios = Ratios::default();
            for seed in seeds() {
                if ratios.enough() {
                    break;
                }
                for layout in layouts().into_iter().filter(|layout| layout.template[2] > 2) {
                    let shape = [0, 1, 2].map(|axis| layout.tile()[axis] + layout.template[axis] - 1);
                    let seed = 100 * seed + layout.template[2] as u64;
                    let (image, taps) = make(shape, layout.template, seed);
                    testing::at_amplitudes(&mut ratios, &image, seed, |image, ratios| {
                        let input = gathered(&layout, |z, y, x| image[(z * shape[1] + y) * shape[2] + x]);
                        judge(&layout, &isas, &input, &taps, 0, ratios, name);
                    });
                }
            }
            println!("{name}, {isas}, {} panels: {:.3}", ratios.panels(), ratios.all());
        }
    }

    /// Adds every panel of a tile of each image, as it is, with every second plane negated, so that planes cancel, and
    /// with one plane again and again, under a template of noise and a smooth one, the latter of equal planes.
    fn errors_of(layout: &Layout, isas: &IsaSet, seed: u64, ratios: &mut Ratios) {
        let (in_pitch, _) = layout.pitches();
        for ((kind, (name, image)), planes) in testing::IMAGES
            .iter()
            .enumerate()
            .flat_map(|image| [(image, "as it is"), (image, "alternate"), (image, "repeated")])
        {
            let (mut tile, amplitude) = (noise(seed + kind as u64 + 3), testing::amplitude(seed + kind as u64));
            let plane: Vec<f32> = (0..in_pitch.plane).map(|_| tile()).collect();
            let input = gathered(layout, |z, y, x| match planes {
                "alternate" if z % 2 == 1 => -amplitude * image(y, x, tile()),
                "repeated" => amplitude * image(y, x, plane[y * in_pitch.row + x]),
                _ => amplitude * image(y, x, tile()),
            });
            for smooth in [false, true] {
                let (count, layers) = (layout.template.iter().product::<usize>(), layout.template[0]);
                let taps = noise(seed + kind as u64 + 50);
                let template = match smooth {
                    false => testing::template(count, false, taps),
                    true => testing::template(count / layers, true, taps)
                        .repeat(layers)
                        .iter()
                        .map(|tap| tap / (layers as f64).sqrt())
                        .collect(),
                };
                judge(layout, isas, &input, &template, kind, ratios, &format!("{name}, {planes}, smooth {smooth}"));
            }
        }
    }

    /// Adds every panel of a tile.
    fn judge(
        layout: &Layout,
        isas: &IsaSet,
        input: &[f32],
        template: &[f64],
        kind: usize,
        ratios: &mut Ratios,
        name: &str,
    ) {
        let transform = Transform::new(*layout, isas).unwrap();
        let (in_pitch, pitch) = layout.pitches();
        let (mut scratch, mut out) = (transform.scratch(&mut Memory::making()), Aligned::new(0.0, pitch.elements()));
        let [depth, height, width] = layout.tile();
        let squares: Vec<_> = input
            .chunks(in_pitch.plane)
            .map(|plane| testing::window_squares(plane, in_pitch.row, [layout.template[1], layout.template[2]]))
            .collect();
        let expected = expected::correlated(input, &layout.pitches().0, template, layout.template);
        let spectra = transform.prepare(template);
        transform.run(at_hand(layout, input, &mut out), &spectra, &mut scratch, layout.tile());
        let (len, layers) = ((layout.length * layout.length) as f64, layout.template[0] as f64);
        let figures = Figures { wave: transform.wave(&spectra), ..Figures::of([template].into_iter()) };
        let rounding = Rounding::Volume { len, layers };
        let (doubt, unseen) =
            (testing::doubt_of(template.len(), &figures, rounding), testing::unseen(&figures, rounding));
        let norm = testing::norm(template);
        for z in 0..depth {
            let figure = scratch.figures[z % layout.outputs[0]];
            let limits = doubt.at_peak(figure.energy, figure.result.sqrt(), figure.peak(&unseen));
            for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
                // Of nothing it is nothing, which the transforms of all planes in f64 only come near.
                let want = if figure.energy > 0.0 { expected[z * in_pitch.plane + y * in_pitch.row + x] } else { 0.0 };
                let error = (f64::from(out[z * pitch.plane + y * pitch.row + x]) - want).abs();
                let square = squares[z..z + layout.template[0]].iter().map(|plane| plane(y, x)).sum();
                let norms = [(layers * figure.energy).sqrt(), norm];
                ratios.add_worst(error, (len, 10.0, layers + 2.0), norms);
                ratios.add(kind, error, limits, square, || format!("{isas} {layout:?} {name} at {z},{y},{x}"));
            }
        }
    }
}
