//! The kernel of repair against `cpu/score/repair.rs`, on panels of which every one is in doubt: magnitudes near either
//! end of a type's range, channels and weights of any size, and panels that shared memory does not hold.

use std::fs;
use std::process::Command;

use flcc_runtime::rooms::cpu::score::repair::Panels;
use flcc_runtime::rooms::cuda::driver::buffer::bytes_of;
use flcc_runtime::rooms::isa;
use flcc_runtime::rooms::problem::template::{check_mask, check_template};
use flcc_runtime::{AnyView, Pixels, Spec};

use super::common::{Seed, in_threads};
use super::compiled;

/// Reads problems, numbers all of them, and prints the bits of every score.
const PROGRAM: &str = r#"
static bool read(FILE* in, std::vector<double>& to, size_t count) {
  to.resize(count);
  return std::fread(to.data(), 8, count, in) == count;
}
int main(int, char** arguments) {
  FILE* in = std::fopen(arguments[1], "rb");
  std::vector<double> head, pixels, values, raw, weights;
  while (read(in, head, 16)) {
    FlccImage im = {};
    FlccLayout l = {};
    FlccTile tile = {};
    FlccResult r = {};
    FlccConstants k = {};
    const int channels = (int)head[12];
    for (int a = 0; a < 3; a++) {
      im.lengths[a] = (int)head[a], l.template_[a] = (int)head[3 + a];
      l.out_shape[a] = tile.keep_to[a] = (int)head[6 + a];
      tile.begin[a] = (int)head[9 + a];
    }
    k.n = head[13], im.fill = head[15], im.channels = l.channels = channels, l.tiles = 1;
    im.channel_stride = 1, im.stride[2] = channels;
    im.stride[1] = im.lengths[2] * channels, im.stride[0] = im.lengths[1] * im.stride[1];
    l.out_row = r.stride[1] = l.out_shape[2], r.stride[2] = 1;
    l.out_plane = r.stride[0] = l.out_row * l.out_shape[1], l.out_channel = l.out_plane * l.out_shape[0];
    const size_t taps = (size_t)l.template_[0] * l.template_[1] * l.template_[2];
    const bool masked = head[14] != 0;
    if (!read(in, pixels, im.lengths[0] * im.stride[0]) || !read(in, values, taps * channels) ||
        !read(in, raw, taps * channels) ||
        !read(in, weights, masked ? taps : 0))
      return 1;
    const std::vector<Pixel> image(pixels.begin(), pixels.end());
    std::vector<unsigned> doubtful(l.out_channel);
    for (size_t i = 0; i < doubtful.size(); i++) doubtful[i] = (unsigned)i;
    const unsigned count = (unsigned)doubtful.size();
    std::vector<Out> result(count, (Out)NAN);
    launch({3, 1, 1}, {128, 1, 1}, [&] {
      flcc_repair(k, image.data(), im, l, &tile, doubtful.data(), &count, values.data(), raw.data(),
          masked ? weights.data() : nullptr,
          result.data(), r);
    });
    for (double value : result) std::printf("%llx\n", (unsigned long long)__double_as_longlong(value));
  }
  return 0;
}
"#;

/// A problem, and the scores of all its panels by the CPU.
struct Case {
    name: String,
    numbers: Vec<f64>,
    expected: Vec<f64>,
}

impl Case {
    fn new(name: &str, text: &str, image: &[f64], template: &[f64], mask: Option<&[f64]>) -> Case {
        let spec: Spec = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let pixels = |values: &[f64], dtype| Pixels::F64(values.to_vec()).cast(dtype);
        let (image, template) = (pixels(image, spec.image_type()), pixels(template, spec.template_type()));
        let mask = mask.map(|mask| Pixels::F64(mask.to_vec()));
        let view = |pixels, shape| AnyView::dense(pixels, shape, spec.channels()).unwrap();
        let weights =
            check_mask(&spec, mask.as_ref().map(|mask| AnyView::dense(mask, spec.template(), 1).unwrap()).as_ref())
                .unwrap();
        let checked = check_template(&spec, &view(&template, spec.template()), &weights).unwrap();
        let (lengths, sides, outputs) = (spec.image().padded(), spec.template().padded(), spec.out_shape().padded());
        let origin = [0, 1, 2].map(|axis| spec.region().origin[axis] as isize - (sides[axis] as isize - 1));
        let image_view = view(&image, spec.image());
        let panels = Panels {
            image: &image_view,
            boundary: spec.boundary(),
            template: sides,
            weights: &weights,
            isas: isa::detect(),
        };
        let mut room = vec![0.0; spec.template().len() * spec.channels()];
        let expected = (0..spec.out_shape().len()).map(|index| {
            let position = spec.out_shape().position(index);
            panels.score(
                spec.op().measure(),
                [0, 1, 2].map(|axis| origin[axis] + position[axis] as isize),
                &checked,
                &mut room,
            )
        });
        let expected = expected.collect();
        let masked = f64::from(u8::from(weights.values.is_some()));
        let head = [spec.channels() as f64, weights.n, masked, spec.boundary().value().unwrap_or(0.0)];
        let numbers = lengths
            .iter()
            .chain(&sides)
            .chain(&outputs)
            .map(|&side| side as f64)
            .chain(origin.map(|at| at as f64))
            .chain(head);
        let numbers = numbers.chain(image.to_f64()).chain(checked.values.concat()).chain(checked.raw.concat());
        let numbers = numbers.chain(weights.values.iter().flatten().copied()).collect();
        Case { name: format!("{name}: {text}"), numbers, expected }
    }
}

/// Noise of an amplitude, 24 columns, with one sample of another.
fn beside(seed: &mut Seed, amplitude: f64, bright: f64) -> Vec<f64> {
    (0..20 * 24).map(|at| if at == 5 * 24 + 6 { bright } else { amplitude * seed.normal() }).collect()
}

/// 3x5 samples of a channel or more, from row 12 and column 14 on.
fn cut(image: &[f64], channels: usize) -> Vec<f64> {
    (12..15).flat_map(|y| image[channels * (y * 24 + 14)..][..channels * 5].to_vec()).collect()
}

/// As tests/range.rs has them.
fn cases(op: &str, dtype: &str, boundary: &str) -> Vec<Case> {
    let (mut seed, mut all) = (Seed(13), Vec::new());
    let amplitudes: &[f64] = match (op, dtype) {
        ("ssd", _) => &[1.0, 1e150, 1e155, 1e307, 1e-158, 1e-320],
        (_, "f32") => &[1.0, 1e-18, 1e-30, 1e-40, 1e-43],
        _ => &[1.0, 1e-20, 1e-120, 1e-158, 1e-161, 1e-163, 1e-300, 1e-320],
    };
    for &amplitude in amplitudes {
        // Texture in one channel, nothing or as much in another.
        for kind in 0..3 {
            let channels = (0..20 * 24).flat_map(|i| {
                let noise = seed.normal();
                let first = [0.1, if i % 24 < 4 { 0.1 + noise } else { 0.1 }, noise][kind];
                [first, amplitude * seed.normal()]
            });
            let image: Vec<f64> = channels.collect();
            let name = format!("{amplitude:e} in one channel, kind {kind}");
            let spec = format!("{op}:{dtype}>f64:20x24*3x5:full,{boundary},channels=2");
            all.push(Case::new(&name, &spec, &image, &cut(&image, 2), None));
        }
        let image = beside(&mut seed, amplitude, 1.0);
        let template = cut(&image, 1);
        all.push(Case::new(
            "one ordinary sample",
            &format!("{op}:{dtype}>f64:20x24*3x5:full,{boundary}"),
            &image,
            &template,
            None,
        ));
        // Under weights that are themselves near either end of the range.
        let weights: Vec<f64> =
            (0..15).map(|k| if k != 3 && seed.below(3) == 0 { 0.0 } else { 0.1 + seed.unit() }).collect();
        for gain in [1.0, 1e-310, 1e-200, 1e8, 1e300] {
            let mask: Vec<f64> = weights.iter().map(|weight| gain * weight).collect();
            let spec = format!("{op}:{dtype}>f64:20x24*3x5:full,{boundary},maskw");
            all.push(Case::new(&format!("{amplitude:e} under {gain:e}"), &spec, &image, &template, Some(&mask)));
        }
        // Of an offset that is far larger than the texture, and a template in a scale of its own.
        let image: Vec<f64> = (0..20 * 24).map(|i| 1e6 + if i % 24 < 12 { 0.0 } else { seed.normal() }).collect();
        let template: Vec<f64> = (0..15).map(|_| amplitude * (2.0 + seed.normal())).collect();
        all.push(Case::new(
            "an offset",
            &format!("{op}:{dtype}>f64:20x24*3x5:valid,{boundary}"),
            &image,
            &template,
            None,
        ));
    }
    // The sample under the least weight may be the largest of its panel.
    let gains: &[f64] = if dtype == "f32" { &[1e-30, 1e-60] } else { &[1e-100, 1e-200, 1e-300, 1e-320] };
    for &gain in gains {
        let image: Vec<f64> =
            (0..18 * 25).map(|i| seed.normal() * if i % 5 == 2 { 1.0 } else { f64::sqrt(gain) }).collect();
        let template: Vec<f64> =
            (0..15).map(|k| seed.normal() * if k % 5 == 2 { 1.0 } else { f64::sqrt(gain) }).collect();
        let mask: Vec<f64> = (0..15).map(|k| if k % 5 == 2 { gain } else { 0.5 + seed.unit() }).collect();
        let spec = format!("{op}:{dtype}>f64:18x25*3x5:valid,maskw,{boundary}");
        all.push(Case::new(&format!("weights down to {gain:e}"), &spec, &image, &template, Some(&mask)));
    }
    // More than are remembered, also under weights, and many equal terms.
    for (mask, channels) in [("", 1), (",maskw", 1), (",channels=2", 2)] {
        let image: Vec<f64> =
            (0..channels * 73 * 75).map(|i| if i % 991 == 0 { 3.0 } else { 0.7 + 1e-3 * seed.normal() }).collect();
        let template: Vec<f64> =
            (0..channels * 71 * 70).map(|i| if i % 17 == 0 { seed.normal() } else { 0.1 }).collect();
        let weights: Vec<f64> = (0..71 * 70).map(|i| if i % 3 == 0 { 0.0 } else { 0.3 }).collect();
        let spec = format!("{op}:{dtype}>f64:73x75*71x70:valid,{boundary}{mask}");
        all.push(Case::new("large panels", &spec, &image, &template, (mask == ",maskw").then_some(&weights[..])));
    }
    all
}

#[test]
fn the_kernel_of_repair_scores_as_the_cpu_does() {
    let problems = [
        ("zncc", "f32", "constant(1e-158)"),
        ("zncc", "f32", "constant(2.5)"),
        ("zncc", "f64", "replicate"),
        ("ncc", "f32", "replicate"),
        ("ncc", "f64", "constant(1e-161)"),
        ("nssd", "f32", "constant(2.5)"),
        ("nssd", "f64", "replicate"),
        ("ssd", "f64", "constant(2.5)"),
    ];
    // Most of the time a compiler works on one of them.
    let numbered: Vec<_> = problems.into_iter().enumerate().collect();
    in_threads(&numbered, |&(number, (op, dtype, boundary))| {
        let (pixel, rule) = (dtype.to_uppercase(), boundary.split('(').next().unwrap_or_default().to_uppercase());
        let measure = op.to_uppercase();
        let options = [
            ("PIXEL", &*pixel),
            ("REAL", "F64"),
            ("CROSS", "CROSS_F64"),
            ("OUT", "F64"),
            ("MEASURE", &measure),
            ("BOUNDARY", &rule),
        ];
        let defines: String =
            options.iter().map(|(name, value)| format!("#define FLCC_{name} FLCC_{value}\n")).collect();
        let Some(folder) = compiled(&format!("repair-{number}"), &defines, PROGRAM) else { return };
        let cases = cases(op, dtype, boundary);
        let numbers = folder.join("numbers");
        fs::write(
            &numbers,
            bytes_of(&cases.iter().flat_map(|case| case.numbers.iter().copied()).collect::<Vec<f64>>()),
        )
        .unwrap();
        let output = Command::new(folder.join("run")).arg(&numbers).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        let told = String::from_utf8(output.stdout).unwrap();
        let mut found = told.lines().map(|line| f64::from_bits(u64::from_str_radix(line, 16).unwrap()));
        let mut worst = 0.0f64;
        for case in &cases {
            for (index, wanted) in case.expected.iter().enumerate() {
                let got = found.next().unwrap();
                // Both may be an infinity.
                let off = if got == *wanted { 0.0 } else { (got - wanted).abs() / wanted.abs().max(1.0) };
                assert!(off <= 1e-13, "{} at {index}: {got} for {wanted}", case.name);
                worst = worst.max(off);
            }
        }
        assert_eq!(found.next(), None);
        println!("{op} of {dtype} by {boundary}: {worst:.1e} from the CPU's scores");
    });
}
