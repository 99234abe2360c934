//! What the experiments are: chapter 5 of the dissertation (Papamakarios, Rizos, Thessaloniki 2011), the template
//! matching of Binna and Hofmann (Rapperswil 2011, tables 3.3 and 3.4) and the SAD of Gholami (2018, figure 3.3).
//!
//! Image and template of the dissertation are squares and cubes of f32, its results the full ones with zeros around the
//! image. A stream is ten images with one template; its time is that of one image.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use super::grid::sample;

/// Images of a stream.
pub const STREAM: usize = 10;

/// Defines an enumeration with the one word of each value, by which data name it.
macro_rules! words {
    ($(#[$about:meta])* $name:ident, $what:literal: $($(#[$doc:meta])* $value:ident = $word:literal),+ $(,)?) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $value),+ }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$value => $word),+ })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<$name, String> {
                match word {
                    $($word => Ok($name::$value),)+
                    other => Err(format!("expected {}: {}, got {other:?}", $what, [$($word),+].join(" or "))),
                }
            }
        }
    };
}

words! {
    /// Where it is computed.
    Platform, "a platform":
    /// The processor.
    Cpu = "cpu",
    /// A GPU.
    Cuda = "cuda",
}

words! {
    /// What is computed, as specs name it.
    Op, "an operation":
    /// Convolution.
    Conv = "conv",
    /// Local correlation coefficients.
    Lcc = "zncc",
    /// Sums of absolute differences.
    Sad = "sad",
}

words! {
    /// By which method.
    Method, "a method":
    /// Product by product.
    Direct = "direct",
    /// By transforms.
    Fourier = "fourier",
    /// By products of lines.
    Separable = "separable",
    /// By the one that the planner takes.
    Auto = "auto",
}

words! {
    /// How images come.
    Feed, "a feed":
    /// One image, with its template bound in the same call.
    Single = "single",
    /// [`STREAM`] images in one call, with a template that is bound before.
    Stream = "stream",
}

impl Platform {
    /// As pictures and tables name it.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Cpu => "CPU",
            Platform::Cuda => "GPU",
        }
    }
}

/// A shape, slowest axis first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(pub Vec<usize>);

impl Shape {
    /// A line, square or cube.
    pub fn of(side: usize, axes: usize) -> Shape {
        Shape(vec![side; axes])
    }

    /// How many samples it has.
    pub fn samples(&self) -> usize {
        self.0.iter().product()
    }

    /// The last side: that of a square or cube.
    pub fn side(&self) -> usize {
        self.0.last().copied().unwrap_or(0)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides: Vec<String> = self.0.iter().map(usize::to_string).collect();
        f.write_str(&sides.join("x"))
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sides = text.split('x').map(str::parse).collect::<Result<_, _>>();
        sides.map(Shape).map_err(|_| format!("expected a shape as 2000x2000, got {text:?}"))
    }
}

/// One thing to time, or to ask the planner about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The name of the file that it stands in.
    pub file: &'static str,
    /// Where.
    pub platform: Platform,
    /// What.
    pub op: Op,
    /// How.
    pub method: Method,
    /// How images come.
    pub feed: Feed,
    /// With how many threads; 0 for one a core.
    pub threads: usize,
    /// The image's shape.
    pub image: Shape,
    /// The template's shape.
    pub template: Shape,
}

impl Point {
    /// What `flcc` computes for it, in the words of a spec.
    pub fn spec(&self) -> String {
        let (op, image, template) = (self.op, &self.image, &self.template);
        match (self.file, self.feed) {
            (MATCHING, _) => format!("{op}:u8:{image}*{template}:valid"),
            (DIFFERENCES, _) => format!("{op}:u8:{image}*{template}:valid,channels=3"),
            (_, Feed::Single) => format!("{op}:f32:{image}*{template}:full"),
            // Any number of images, for the planner; so many are timed.
            (_, Feed::Stream) if self.method == Method::Auto => format!("{op}:f32:0@{image}*{template}:full"),
            (_, Feed::Stream) => format!("{op}:f32:{STREAM}@{image}*{template}:full"),
        }
    }

    /// Whether one call can have both.
    pub fn goes_with(&self, other: &Point) -> bool {
        let call = |of: &Point| (of.platform, of.method, of.feed, of.threads, of.is_choice(), of.file == DIFFERENCES);
        call(self) == call(other)
    }

    /// Whether the planner is asked for its choice, and nothing is timed beyond that.
    pub fn is_choice(&self) -> bool {
        CHOICES.iter().any(|choice| choice.file == self.file)
    }
}

/// Times over sizes, of both platforms.
pub struct Sizes {
    /// The files of CPU and GPU, and of their ratio.
    pub files: [&'static str; 2],
    /// The file of the ratio.
    pub ratio: &'static str,
    /// Axes.
    pub axes: usize,
    /// Sides of the image.
    pub images: Sides,
    /// Sides of the template.
    pub templates: Sides,
}

/// Sides: first, last, step.
#[derive(Clone, Copy)]
pub struct Sides(usize, usize, usize);

impl Sides {
    /// Every experiment.
    pub fn all(self) -> Vec<usize> {
        (self.0..=self.1).step_by(self.2).collect()
    }

    /// Whether there is more than one.
    pub fn vary(self) -> bool {
        self.0 < self.1
    }
}

/// Figures 5.1 to 5.12.
pub const SIZES: [Sizes; 4] = [
    Sizes {
        files: ["fig-5-01", "fig-5-02"],
        ratio: "fig-5-09",
        axes: 2,
        images: Sides(2000, 2000, 1),
        templates: Sides(2, 32, 1),
    },
    Sizes {
        files: ["fig-5-03", "fig-5-04"],
        ratio: "fig-5-10",
        axes: 3,
        images: Sides(100, 100, 1),
        templates: Sides(2, 8, 1),
    },
    Sizes {
        files: ["fig-5-05", "fig-5-06"],
        ratio: "fig-5-11",
        axes: 2,
        images: Sides(1000, 4000, 100),
        templates: Sides(16, 16, 1),
    },
    Sizes {
        files: ["fig-5-07", "fig-5-08"],
        ratio: "fig-5-12",
        axes: 3,
        images: Sides(50, 250, 25),
        templates: Sides(8, 8, 1),
    },
];

/// Times over threads.
pub struct Threads {
    /// The file.
    pub file: &'static str,
    /// Axes.
    pub axes: usize,
    /// The image's side.
    pub image: usize,
    /// The template's side.
    pub template: usize,
}

/// Figures 5.13 and 5.14.
pub const THREADS: [Threads; 2] = [
    Threads { file: "fig-5-13", axes: 2, image: 2000, template: 16 },
    Threads { file: "fig-5-14", axes: 3, image: 100, template: 8 },
];

/// From 1 to 1024.
pub fn thread_counts() -> Vec<usize> {
    (0..=10).map(|power| 1 << power).collect()
}

/// What the planner takes, over sizes of image and template.
pub struct Choice {
    /// The file.
    pub file: &'static str,
    /// Where.
    pub platform: Platform,
    /// How images come.
    pub feed: Feed,
    /// Axes.
    pub axes: usize,
    /// Powers of two that the image's sides are, first and last.
    images: (u32, u32),
    /// Sides of the template.
    pub templates: Sides,
}

impl Choice {
    /// Sides of the image.
    pub fn images(&self) -> Vec<usize> {
        (self.images.0..=self.images.1).map(|power| 1 << power).collect()
    }
}

const fn plane(file: &'static str, platform: Platform, feed: Feed) -> Choice {
    Choice { file, platform, feed, axes: 2, images: (5, 12), templates: Sides(2, 32, 1) }
}

const fn volume(file: &'static str, platform: Platform, feed: Feed) -> Choice {
    Choice { file, platform, feed, axes: 3, images: (3, 9), templates: Sides(2, 8, 1) }
}

/// Figures 5.15 to 5.22.
pub const CHOICES: [Choice; 8] = [
    plane("fig-5-15", Platform::Cpu, Feed::Single),
    plane("fig-5-16", Platform::Cpu, Feed::Stream),
    volume("fig-5-17", Platform::Cpu, Feed::Single),
    volume("fig-5-18", Platform::Cpu, Feed::Stream),
    plane("fig-5-19", Platform::Cuda, Feed::Single),
    plane("fig-5-20", Platform::Cuda, Feed::Stream),
    volume("fig-5-21", Platform::Cuda, Feed::Single),
    volume("fig-5-22", Platform::Cuda, Feed::Stream),
];

/// The file of table 3.4 of Binna and Hofmann.
pub const MATCHING: &str = "matching";

/// Sides of its images; its templates are 76 and 413 of 1024, and keep that share of the side here.
pub const MATCHED: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];

/// The small and the large template's side for an image's.
pub fn matched_templates(image: usize) -> [usize; 2] {
    [76, 413].map(|share| (image * share + 512) / 1024)
}

/// The file of figure 3.3 of Gholami.
pub const DIFFERENCES: &str = "sad";

/// Its images, rows and columns, and the sides of their templates; three channels of bytes.
pub const DIFFERED: [([usize; 2], usize); 4] =
    [([459, 630], 116), ([460, 1203], 116), ([1500, 1211], 116), ([2160, 3840], 214)];

/// Points of one process.
#[derive(Debug)]
pub struct Batch {
    /// The points, which differ in sizes and operations alone.
    pub points: Vec<Point>,
}

/// How many sizes an axis has in a round.
#[derive(Clone, Copy)]
struct Counts {
    /// Templates of figures 5.1 to 5.4, and of 5.15 to 5.22.
    templates: [usize; 2],
    /// Images of figures 5.5 to 5.8.
    images: usize,
    /// Numbers of threads.
    threads: usize,
    /// Samples of the largest image that the planner is asked about.
    samples: usize,
    /// Pairs of [`DIFFERED`].
    differed: usize,
    /// Images of [`MATCHED`].
    matched: usize,
}

/// The rounds; the last has all sizes.
const ROUNDS: [Counts; 3] = [
    Counts { templates: [7, 5], images: 3, threads: 6, samples: 1 << 22, differed: 3, matched: 6 },
    Counts { templates: [11, 9], images: 5, threads: 11, samples: 1 << 24, differed: 3, matched: 6 },
    Counts {
        templates: [usize::MAX; 2],
        images: usize::MAX,
        threads: usize::MAX,
        samples: usize::MAX,
        differed: 4,
        matched: 6,
    },
];
const QUICK: [Counts; 1] =
    [Counts { templates: [3, 3], images: 3, threads: 3, samples: usize::MAX, differed: 1, matched: 3 }];

/// What of the experiments is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Extent {
    /// Where.
    pub platforms: Vec<Platform>,
    /// Few sizes of images of a quarter of the side: it tries the way, its times are no figures.
    pub quick: bool,
    /// Nothing is timed: the planner estimates its choices, of all sizes at once.
    pub estimated: bool,
}

/// The points of each round, in batches; later rounds lack what earlier ones have, and all lack what is known. Each
/// round goes through all experiments, so that one which ends early has measured all of them coarsely.
pub fn rounds(extent: &Extent, mut known: HashSet<Point>) -> Vec<Vec<Batch>> {
    let Extent { platforms, quick, estimated } = extent;
    let counts = match (quick, estimated) {
        (true, _) => &QUICK[..],
        (false, true) => &ROUNDS[ROUNDS.len() - 1..],
        (false, false) => &ROUNDS[..],
    };
    let round = |&count: &Counts| {
        let mut points = Vec::new();
        if !estimated {
            points.extend(sized(platforms, count, *quick));
            points.extend(others(platforms, count));
            if platforms.contains(&Platform::Cpu) {
                points.extend(threaded(count, *quick));
            }
        }
        points.extend(chosen(platforms, count, *quick));
        points.retain(|point| known.insert(point.clone()));
        batches(points)
    };
    counts.iter().map(round).collect()
}

/// Points in groups that one process can time, in the order in which the first of each comes.
fn batches(points: Vec<Point>) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for point in points {
        match batches.iter_mut().find(|batch| batch.points.first().is_some_and(|first| first.goes_with(&point))) {
            Some(batch) => batch.points.push(point),
            None => batches.push(Batch { points: vec![point] }),
        }
    }
    batches
}

const OPS: [Op; 2] = [Op::Conv, Op::Lcc];
const METHODS: [Method; 2] = [Method::Direct, Method::Fourier];
const FEEDS: [Feed; 2] = [Feed::Single, Feed::Stream];

/// The image's side, of a quick run a quarter of it.
fn shrunk(image: usize, quick: bool) -> usize {
    if quick { image / 4 } else { image }
}

/// Figures 5.1 to 5.8.
fn sized(platforms: &[Platform], count: Counts, quick: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for sizes in &SIZES {
        for image in sample(&sizes.images.all(), count.images) {
            for template in sample(&sizes.templates.all(), count.templates[0]) {
                for &platform in platforms {
                    let file = sizes.files[usize::from(platform == Platform::Cuda)];
                    let image = Shape::of(shrunk(image, quick), sizes.axes);
                    points.extend(all_ways(file, platform, 0, &image, &Shape::of(template, sizes.axes)));
                }
            }
        }
    }
    points
}

/// Both operations by both methods with both feeds.
fn all_ways(file: &'static str, platform: Platform, threads: usize, image: &Shape, template: &Shape) -> Vec<Point> {
    let mut points = Vec::new();
    for method in METHODS {
        for feed in FEEDS {
            for op in OPS {
                let (image, template) = (image.clone(), template.clone());
                points.push(Point { file, platform, op, method, feed, threads, image, template });
            }
        }
    }
    points
}

/// Figures 5.13 and 5.14.
fn threaded(count: Counts, quick: bool) -> Vec<Point> {
    let way = |threads: usize, of: &Threads| {
        let image = Shape::of(shrunk(of.image, quick), of.axes);
        all_ways(of.file, Platform::Cpu, threads, &image, &Shape::of(of.template, of.axes))
    };
    let counts = sample(&thread_counts(), count.threads);
    counts.into_iter().flat_map(|threads| THREADS.iter().flat_map(move |of| way(threads, of))).collect()
}

/// Figures 5.15 to 5.22.
fn chosen(platforms: &[Platform], count: Counts, quick: bool) -> Vec<Point> {
    let mut points = Vec::new();
    for choice in CHOICES.iter().filter(|choice| platforms.contains(&choice.platform)) {
        for template in sample(&choice.templates.all(), count.templates[1]) {
            for image in choice.images() {
                if Shape::of(image, choice.axes).samples() > count.samples {
                    continue;
                }
                for op in OPS {
                    points.push(Point {
                        file: choice.file,
                        platform: choice.platform,
                        op,
                        method: Method::Auto,
                        feed: choice.feed,
                        threads: 0,
                        image: Shape::of(shrunk(image, quick), choice.axes),
                        template: Shape::of(template, choice.axes),
                    });
                }
            }
        }
    }
    points
}

/// The tables of the other two works.
fn others(platforms: &[Platform], count: Counts) -> Vec<Point> {
    let mut points = Vec::new();
    for &platform in platforms {
        let point = |file, op, method, image: Shape, template| Point {
            file,
            platform,
            op,
            method,
            feed: Feed::Single,
            threads: 0,
            image,
            template: Shape::of(template, 2),
        };
        for &image in &MATCHED[..count.matched] {
            for template in matched_templates(image) {
                points.push(point(MATCHING, Op::Lcc, Method::Auto, Shape::of(image, 2), template));
            }
        }
        for (image, template) in &DIFFERED[..count.differed] {
            points.push(point(DIFFERENCES, Op::Sad, Method::Direct, Shape(image.to_vec()), *template));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Platform; 2] = [Platform::Cpu, Platform::Cuda];

    fn all_of(platforms: &[Platform], quick: bool) -> Vec<Vec<Batch>> {
        rounds(&Extent { platforms: platforms.to_vec(), quick, estimated: false }, HashSet::new())
    }

    fn points(rounds: &[Vec<Batch>]) -> Vec<&Point> {
        rounds.iter().flatten().flat_map(|batch| &batch.points).collect()
    }

    fn files(round: &[Batch]) -> std::collections::BTreeSet<&'static str> {
        round.iter().flat_map(|batch| &batch.points).map(|point| point.file).collect()
    }

    #[test]
    fn the_first_round_has_something_of_every_experiment() {
        for quick in [false, true] {
            let rounds = all_of(&BOTH, quick);
            let all = files(&rounds[0]);
            let expected = (1..=8).chain(13..=22).map(|number| format!("fig-5-{number:02}"));
            for file in expected.chain([MATCHING.to_string(), DIFFERENCES.to_string()]) {
                assert!(all.contains(file.as_str()), "{file}, quick {quick}");
            }
            let cpu = all_of(&[Platform::Cpu], quick);
            assert!(points(&cpu).iter().all(|point| point.platform == Platform::Cpu));
        }
    }

    #[test]
    fn all_rounds_together_have_every_size_once() {
        let rounds = all_of(&BOTH, false);
        let points = points(&rounds);
        let of = |file: &str| points.iter().filter(|point| point.file == file).count();
        // Two operations, methods and feeds.
        assert_eq!([of("fig-5-01"), of("fig-5-04"), of("fig-5-05"), of("fig-5-08")], [31 * 8, 7 * 8, 31 * 8, 9 * 8]);
        assert_eq!([of("fig-5-13"), of("fig-5-14")], [11 * 8, 11 * 8]);
        assert_eq!([of("fig-5-15"), of("fig-5-22")], [31 * 8 * 2, 7 * 7 * 2]);
        assert_eq!([of(MATCHING), of(DIFFERENCES)], [6 * 2 * 2, 4 * 2]);
        let different: HashSet<&&Point> = points.iter().collect();
        assert_eq!(different.len(), points.len());
    }

    #[test]
    fn what_is_known_is_not_asked_for_again() {
        let extent = Extent { platforms: BOTH.to_vec(), quick: false, estimated: false };
        let all = rounds(&extent, HashSet::new());
        let known: HashSet<Point> = points(&all[..1]).into_iter().cloned().collect();
        let left = rounds(&extent, known.clone());
        assert!(left[0].is_empty());
        assert_eq!(points(&left).len() + known.len(), points(&all).len());
        let estimated = rounds(&Extent { estimated: true, ..extent }, HashSet::new());
        let estimated = points(&estimated);
        assert!(estimated.iter().all(|point| point.is_choice()));
        assert_eq!(estimated.len(), points(&all).iter().filter(|point| point.is_choice()).count());
    }

    #[test]
    fn a_batch_is_one_call() {
        for batch in all_of(&BOTH, false).iter().flatten() {
            let of = |point: &Point| (point.platform, point.method, point.feed, point.threads, point.is_choice());
            assert!(batch.points.iter().all(|point| of(point) == of(&batch.points[0])));
        }
    }

    #[test]
    fn points_say_what_is_computed() {
        let point = |file, feed, method, op| Point {
            file,
            platform: Platform::Cpu,
            op,
            method,
            feed,
            threads: 0,
            image: Shape(vec![30, 40]),
            template: Shape::of(5, 2),
        };
        let spec = |file, feed, method, op| point(file, feed, method, op).spec();
        let conv = |feed, method| spec("fig-5-01", feed, method, Op::Conv);
        assert_eq!(conv(Feed::Single, Method::Direct), "conv:f32:30x40*5x5:full");
        assert_eq!(conv(Feed::Stream, Method::Direct), "conv:f32:10@30x40*5x5:full");
        assert_eq!(spec("fig-5-16", Feed::Stream, Method::Auto, Op::Lcc), "zncc:f32:0@30x40*5x5:full");
        assert_eq!(spec(MATCHING, Feed::Single, Method::Auto, Op::Lcc), "zncc:u8:30x40*5x5:valid");
        assert_eq!(spec(DIFFERENCES, Feed::Single, Method::Direct, Op::Sad), "sad:u8:30x40*5x5:valid,channels=3");
        assert_eq!(matched_templates(1024), [76, 413]);
        assert_eq!(matched_templates(128), [10, 52]);
    }
}
