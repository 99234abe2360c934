//! The problems that speed on a GPU is judged by, what is asked of each, and what the card allows.

/// What is asked of a problem.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The best peer's time over FLCC's: at least so much, and what is aimed at.
    Peer { must: f64, aim: Option<f64> },
    /// FLCC's time over that of its correlation of the same sizes, at most.
    Correlation(f64),
}

/// A problem.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The table that it stands in.
    pub table: &'static str,
    /// Its name there.
    pub name: String,
    pub spec: String,
    pub goal: Goal,
    /// Each image has a template of its own.
    pub pairs: bool,
    bytes: f64,
    products: f64,
}

/// What a card reaches, measured by loops that do nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roofs {
    /// Operations of f32 a second, two for a multiply-add with one operand constant.
    fma: f64,
    /// Operations of dot products of four bytes a second.
    dots: f64,
    /// Operations of bytes on tensor cores a second.
    tensor: f64,
    /// Bytes that a copy reads and writes a second.
    copy: f64,
}

const H200: Roofs = Roofs { fma: 66.1e12, dots: 133.5e12, tensor: 1293e12, copy: 4.14e12 };

impl Roofs {
    /// Those of a card, with the rate of copies that was measured in the run, in billions of bytes a second, where one
    /// was.
    pub fn of(card: &str, copied: Option<f64>) -> Option<Roofs> {
        let known = match card {
            _ if card.contains("H200") => Some(H200),
            // The same chip at the same clock, in front of other memory.
            _ if card.contains("H100") && card.contains("HBM3") => copied.map(|_| H200),
            _ => None,
        };
        known.map(|roofs| Roofs { copy: copied.map_or(roofs.copy, |rate| rate * 1e9), ..roofs })
    }
}

impl Problem {
    /// The least time in us: images and results cross the memory once and, where a kernel adds products one after the
    /// other, each product takes a multiply-add.
    pub fn floor_us(&self, roofs: &Roofs, method: &str, kernel: &str) -> f64 {
        let rate = match method {
            _ if kernel.contains("mma") => roofs.tensor,
            "direct" if self.spec.contains(":u8:") => roofs.dots,
            "direct" => roofs.fma,
            _ => f64::INFINITY,
        };
        1e6 * (self.bytes / roofs.copy).max(2.0 * self.products / rate)
    }
}

/// Sides: of images and templates.
type Sides = (&'static [usize], &'static [usize]);

/// How an operation is named in a spec, and of which samples: `corr:f32`.
fn problem(table: &'static str, of: &str, (image, template): Sides, templates: usize, goal: Goal) -> Problem {
    let text = |sides: &[usize]| sides.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let count = if templates > 1 { format!("{templates}@") } else { String::new() };
    let volume = |sides: &[usize]| sides.iter().map(|&side| side as f64).product::<f64>();
    let results: f64 = image.iter().zip(template).map(|(&n, &k)| (n + k - 1) as f64).product();
    let size = if of.ends_with("u8") { 1.0 } else { 4.0 };
    let samples = if of.ends_with("u8") { "u8 " } else { "" };
    let whole = match image {
        [length] => format!("{:.0e}", *length as f64),
        [side, rest @ ..] => format!("{side}^{}", rest.len() + 1),
        [] => String::new(),
    };
    Problem {
        table,
        name: format!("{samples}{whole} {}k{}", count.replace('@', " x "), template[0]),
        spec: format!("{of}:{}*{count}{}:full", text(image), text(template)),
        goal,
        pairs: false,
        bytes: volume(image) * size + results * templates as f64 * 4.0,
        // In mode full each sample meets each tap once.
        products: volume(image) * volume(template) * templates as f64,
    }
}

/// A row of a table: the sides, what is asked and what is aimed at.
type Row = (Sides, f64, f64);

const CORRELATION: [Row; 11] = [
    ((&[2000, 2000], &[3, 3]), 1.4, 1.6),
    ((&[2000, 2000], &[5, 5]), 1.7, 1.9),
    ((&[2000, 2000], &[8, 8]), 5.0, 7.0),
    ((&[2000, 2000], &[11, 11]), 4.7, 6.5),
    ((&[2000, 2000], &[16, 16]), 4.3, 6.0),
    ((&[2000, 2000], &[21, 21]), 3.7, 5.0),
    ((&[2000, 2000], &[32, 32]), 2.8, 4.0),
    ((&[2000, 2000], &[64, 64]), 2.2, 3.0),
    ((&[2000, 2000], &[128, 128]), 1.1, 1.4),
    ((&[4096, 4096], &[16, 16]), 6.5, 8.0),
    ((&[4096, 4096], &[76, 76]), 1.9, 2.5),
];

const SCORES: [Row; 7] = [
    ((&[2000, 2000], &[8, 8]), 12.0, 17.0),
    ((&[2000, 2000], &[16, 16]), 12.0, 17.0),
    ((&[2000, 2000], &[32, 32]), 12.0, 17.0),
    ((&[2000, 2000], &[64, 64]), 11.0, 15.0),
    ((&[1024, 1024], &[76, 76]), 8.0, 15.0),
    ((&[1024, 1024], &[413, 413]), 10.0, 15.0),
    ((&[4096, 4096], &[76, 76]), 10.0, 15.0),
];

const BYTES: [Row; 4] = [
    ((&[2000, 2000], &[8, 8]), 14.0, 25.0),
    ((&[2000, 2000], &[16, 16]), 30.0, 50.0),
    ((&[2000, 2000], &[32, 32]), 55.0, 80.0),
    ((&[2000, 2000], &[64, 64]), 60.0, 100.0),
];

const VOLUMES: [Row; 6] = [
    ((&[100, 100, 100], &[3, 3, 3]), 4.0, 6.0),
    ((&[100, 100, 100], &[5, 5, 5]), 2.7, 4.0),
    ((&[100, 100, 100], &[8, 8, 8]), 1.25, 3.0),
    ((&[256, 256, 256], &[8, 8, 8]), 1.25, 3.0),
    ((&[512, 512, 512], &[8, 8, 8]), 1.3, 3.0),
    ((&[512, 512, 512], &[32, 32, 32]), 1.2, 2.0),
];

/// How much longer scores of volumes may take than their correlation.
const MOST_OF_CORRELATION: f64 = 1.6;

const LINES: [(Sides, usize); 4] = [
    ((&[10_000_000], &[64]), 1),
    ((&[10_000_000], &[500]), 1),
    ((&[10_000_000], &[5000]), 1),
    ((&[1_000_000], &[500]), 100),
];

/// Windows of two frames, as in particle image velocimetry.
const PAIRS: &str = "corr:f32:1000@128x128*32x32:valid,pairs";

/// Results of such a window.
const OUTPUTS: f64 = 97.0 * 97.0;

/// All problems, table by table.
pub fn all() -> Vec<Problem> {
    let rows = |table: &'static str, of: &'static str, rows: &'static [Row]| {
        rows.iter().map(move |&(sides, must, aim)| problem(table, of, sides, 1, Goal::Peer { must, aim: Some(aim) }))
    };
    let asked = |must| Goal::Peer { must, aim: None };
    let mut all: Vec<Problem> = rows("f32 correlation", "corr:f32", &CORRELATION).collect();
    all.extend(rows("zncc", "zncc:f32", &SCORES).chain(rows("zncc", "zncc:u8", &BYTES)));
    all.extend(rows("3D f32 correlation", "corr:f32", &VOLUMES));
    all.extend(
        VOLUMES
            .iter()
            .map(|&(sides, ..)| problem("3D f32 zncc", "zncc:f32", sides, 1, Goal::Correlation(MOST_OF_CORRELATION))),
    );
    all.extend(
        LINES.iter().map(|&(sides, templates)| problem("1D f32 correlation", "corr:f32", sides, templates, asked(3.0))),
    );
    all.push(Problem {
        table: "f32 pairs",
        name: "1000 of 128^2 k32".into(),
        spec: PAIRS.into(),
        goal: asked(5.0),
        pairs: true,
        bytes: 4.0 * 1000.0 * (128.0 * 128.0 + 32.0 * 32.0 + OUTPUTS),
        products: 1000.0 * OUTPUTS * 32.0 * 32.0,
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(spec: &str) -> Problem {
        all().into_iter().find(|problem| problem.spec == spec).unwrap_or_else(|| panic!("no {spec}"))
    }

    #[test]
    fn specs_are_those_of_the_library() {
        for problem in all() {
            let spec: flcc_core::spec::Spec =
                problem.spec.parse().unwrap_or_else(|error| panic!("{}: {error}", problem.spec));
            assert_eq!(spec.pairs(), problem.pairs, "{}", problem.spec);
            if !problem.pairs {
                let sizes = spec.image().len() * spec.image_type().row().size
                    + spec.templates() * spec.out_shape().len() * spec.out_type().row().size;
                assert_eq!(problem.bytes, sizes as f64, "{}", problem.spec);
            }
        }
    }

    #[test]
    fn each_stands_once_and_has_a_name() {
        let names: Vec<String> = all().iter().map(|problem| format!("{} {}", problem.table, problem.name)).collect();
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len());
        assert_eq!(one("corr:f32:2000x2000*3x3:full").name, "2000^2 k3");
        assert_eq!(one("zncc:u8:2000x2000*64x64:full").name, "u8 2000^2 k64");
        assert_eq!(one("corr:f32:512x512x512*32x32x32:full").name, "512^3 k32");
        assert_eq!(one("corr:f32:1000000*100@500:full").name, "1e6 100 x k500");
    }

    #[test]
    fn a_floor_is_of_bytes_or_of_products() {
        let roofs = Roofs::of("NVIDIA H200", None).unwrap();
        let small = one("corr:f32:2000x2000*3x3:full");
        let bytes = (4e6 + 2002.0 * 2002.0) * 4.0 / 4.14e6;
        assert_eq!(small.floor_us(&roofs, "direct", "corr_f32_s3"), bytes);
        let large = one("corr:f32:4096x4096*16x16:full");
        let products = 2.0 * 4096.0 * 4096.0 * 256.0 / 66.1e6;
        assert!((large.floor_us(&roofs, "direct", "corr_f32_s16") / products - 1.0).abs() < 1e-12);
        // Transforms are free of that bound.
        assert!(large.floor_us(&roofs, "fourier", "tile64") < products / 3.0);
        let scores = one("zncc:u8:2000x2000*64x64:full");
        let [dots, tensor] =
            ["zncc_u8_s64", "znccmma_u8_any_b32x8"].map(|kernel| scores.floor_us(&roofs, "direct", kernel));
        assert!((dots / tensor - 1293.0 / 133.5).abs() < 1e-9, "{dots} {tensor}");
        // Windows, templates and results of pairs once.
        let bytes = 4.0 * 1000.0 * (128.0 * 128.0 + 32.0 * 32.0 + 97.0 * 97.0) / 4.14e6;
        assert!((one(PAIRS).floor_us(&roofs, "fourier", "pairs128") / bytes - 1.0).abs() < 1e-12);
    }

    #[test]
    fn roofs_are_known_or_not() {
        assert_eq!(Roofs::of("NVIDIA H200", Some(4000.0)).map(|roofs| roofs.copy), Some(4e12));
        assert_eq!(Roofs::of("NVIDIA H100 80GB HBM3", Some(2800.0)).map(|roofs| roofs.copy), Some(2.8e12));
        assert_eq!(Roofs::of("NVIDIA H100 80GB HBM3", None), None);
        assert_eq!(Roofs::of("another", Some(100.0)), None);
    }
}
