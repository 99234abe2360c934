//! Specs at random, from a seed: what the planner is judged on, and costs are fitted to.

use flcc_core::spec::Spec;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below 1.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[(self.unit() * list.len() as f64) as usize % list.len()]
    }

    /// A length from `least` to `most`, each power of two as often as any other.
    fn length(&mut self, least: usize, most: usize) -> usize {
        let (low, high) = ((least as f64).ln(), (most as f64 + 1.0).ln());
        ((low + (high - low) * self.unit()).exp() as usize).clamp(least, most)
    }
}

/// Samples of a volume at most, and of a line.
const MOST: [usize; 2] = [1 << 22, 1 << 22];

/// Products up to which a spec is drawn: some seconds of multiply-adds.
const PRODUCTS: f64 = 3e11;

/// So many specs from a seed: 1D to 3D, images of 32 to 4096 samples a side (volumes and lines of up to 4194304
/// samples), templates of 2 to 512 that are no larger, of every pixel type, measure, mode and accuracy, some with masks
/// and some with several templates, streams and pairs among them. One seed gives the same specs on every machine.
pub fn specs(seed: u64, count: usize) -> Vec<Spec> {
    let mut random = Random(seed);
    let mut specs: Vec<Spec> = Vec::new();
    while specs.len() < count {
        if let Ok(spec) = text(&mut random).parse::<Spec>()
            && spec.direct_operations() <= PRODUCTS
            && !specs.contains(&spec)
        {
            specs.push(spec);
        }
    }
    specs
}

/// The text of a spec, which may turn out to be none.
fn text(random: &mut Random) -> String {
    let axes = random.of(&[1, 2, 2, 2, 2, 3]);
    let (image, template) = loop {
        let side = match axes {
            1 => [1024, MOST[1]],
            2 => [32, 4096],
            _ => [16, 256],
        };
        let square = random.unit() < 0.5;
        let image: Vec<usize> = match random.length(side[0], side[1]) {
            first if square => vec![first; axes],
            _ => (0..axes).map(|_| random.length(side[0], side[1])).collect(),
        };
        let most = [8192, 512, 48][axes - 1];
        let template: Vec<usize> = match random.length(2, most) {
            first if random.unit() < 0.6 => vec![first; axes],
            _ => (0..axes).map(|_| random.length(2, most)).collect(),
        };
        let fits = template.iter().zip(&image).all(|(template, image)| template <= image);
        if fits && image.iter().product::<usize>() <= if axes == 2 { 1 << 24 } else { MOST[0] } {
            break (image, template);
        }
    };
    let joined = |lengths: &[usize]| lengths.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
    let op = random.of(&["zncc", "zncc", "zncc", "zncc", "corr", "corr", "corr", "conv", "ncc", "ssd", "nssd", "sad"]);
    let dtype = random.of(&["f32", "f32", "f32", "f32", "u8", "u8", "u16", "f64"]);
    let mode = random.of(&["valid", "valid", "valid", "same", "full"]);
    let templates = random.of(&["", "", "", "", "", "4@"]);
    let option = random.of(&["", "", "", "", "", ",reflect", ",acc=fast", ",mask01", ",rank=1"]);
    // Streams, and of small images such that each have a template of their own.
    let small = image.iter().product::<usize>() <= 1 << 16 && templates.is_empty() && option != ",rank=1";
    let (images, pairs) = match random.unit() {
        share if share < 0.3 && small => ("0@", ",pairs"),
        share if share < 0.4 => ("0@", ""),
        _ => ("", ""),
    };
    format!("{op}:{dtype}:{images}{}*{templates}{}:{mode}{option}{pairs}", joined(&image), joined(&template))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_specs() {
        let (a, b) = (specs(1, 200), specs(2, 200));
        assert_eq!(a, specs(1, 200));
        assert_eq!(a[..50], specs(1, 50));
        assert!(a.iter().all(|spec| !b.contains(spec)));
        // What is to be judged is there.
        for what in [
            "zncc:", "corr:", "conv:", "ncc:", "ssd:", "sad:", ":u8:", ":u16:", ":f64:", "mask01", "4@", "full", ":0@",
            "pairs",
        ] {
            assert!(a.iter().any(|spec| spec.to_string().contains(what)), "{what}");
        }
        for axes in 1..=3 {
            assert!(a.iter().filter(|spec| spec.image().axes() == axes).count() > 15);
        }
    }
}
