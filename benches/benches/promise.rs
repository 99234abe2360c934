//! What the error promise costs on real images: zncc at the default accuracy beside accuracy fast, in turns on one
//! thread, and how many panels it computes again.

use flcc_benches::real::{FILES, Image};
use flcc_benches::turns::{Turns, median};
use flcc_benches::{Case, Run};
use flcc_runtime::{Accuracy, DType, Measure, Method, Mode, Op, Planner, Shape, Spec, Statistics};

/// How often each accuracy has its turn.
const ROUNDS: usize = 21;
/// What one measurement lasts at least.
const LEAST_MS: f64 = 5.0;
/// What the promise may cost on ordinary images: the goal.
const GOAL: f64 = 1.15;
/// The methods.
const METHODS: [Method; 3] = [Method::Direct, Method::Fourier, Method::Auto];

fn main() {
    println!(
        "| image | template | method | kernel | promised ms | fast ms | ratio | panels | repaired | share | tiles \
         | error | fast |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    // Rows whose file, template and method hold every word of the command line: `-- camera 16x16 auto`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let mut rows = Vec::new();
    for file in FILES {
        let image = Image::read(file);
        for template in templates(image.shape) {
            let wanted =
                |method: &Method| words.iter().all(|word| format!("{file} {template} {method}").contains(word));
            rows.extend(METHODS.into_iter().filter(wanted).map(|method| compare(file, &image, template, method)));
        }
    }
    println!();
    for method in METHODS {
        let of_method: Vec<&Row> = rows.iter().filter(|row| row.method == method).collect();
        summarise(&method.to_string(), &of_method);
    }
    summarise("all", &rows.iter().collect::<Vec<_>>());
}

/// What was found for an image, a template and a method.
struct Row {
    what: String,
    method: Method,
    /// The time of the default accuracy over that of fast.
    ratio: f64,
    /// Counts at the default accuracy.
    statistics: Statistics,
    /// Whether parts of tiles were computed again, whose panels count as repaired only where that left them in doubt.
    again: bool,
}

/// Prints what some rows come to.
fn summarise(name: &str, rows: &[&Row]) {
    let ratios: Vec<f64> = rows.iter().map(|row| row.ratio).collect();
    let mut all = Statistics::default();
    rows.iter().for_each(|row| all.add(row.statistics));
    let (within, again) =
        (ratios.iter().filter(|ratio| **ratio <= GOAL).count(), rows.iter().filter(|row| row.again).count());
    let Some(worst) = rows.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio)) else { return };
    println!(
        "{name}: ratio median {:.3}, worst {:.3} ({}), at most {GOAL} in {within} of {}; \
         repaired {} of {} panels, {}; tiles again in {again}",
        median(&ratios),
        worst.ratio,
        worst.what,
        rows.len(),
        all.repaired,
        all.panels,
        share(&all),
    );
}

/// The templates for an image of so many axes.
fn templates(image: Shape) -> Vec<Shape> {
    let sides: &[usize] = match image.axes() {
        1 => &[64, 250],
        2 => &[8, 16, 32, 64],
        _ => &[5, 8],
    };
    sides.iter().map(|&side| Shape::new(&vec![side; image.axes()]).expect("as many axes as the image")).collect()
}

/// Times a row of the table and prints it.
fn compare(file: &str, image: &Image, template: Shape, method: Method) -> Row {
    let planner = Planner::new().expect("FLCC_ISA is unset or right").threads(1).method(method);
    let [promised, fast] = [Accuracy::Promised, Accuracy::Fast].map(|accuracy| {
        let spec = Spec::new(Op::Match(Measure::Zncc), DType::F32, image.shape, DType::F32, template, Mode::Valid);
        let spec = spec.and_then(|spec| spec.with_accuracy(accuracy)).expect("the template is smaller");
        Case::of(spec, image.pixels.clone(), image.cut(template))
    });
    let (mut promised, mut fast) = (Run::new(&promised, &planner), Run::new(&fast, &planner));
    let turns = Turns::take(ROUNDS, LEAST_MS, &mut [&mut || promised.execute(), &mut || fast.execute()]);
    let (ratio, statistics) = (turns.ratio(0, 1), promised.statistics());
    let tiles = promised.matcher().plan().tiles();
    let [kernel, other] = [&promised, &fast].map(|run| run.matcher().kernel().to_string());
    let kernel = if kernel == other { kernel } else { format!("{kernel}, fast: {other}") };
    println!(
        "| {file} | {template} | {method} | {kernel} | {:.3} | {:.3} | {ratio:.3} | {} | {} | {} | {} of {} \
         | {:.0e} | {:.0e} |",
        turns.ms(0),
        turns.ms(1),
        statistics.panels,
        statistics.repaired,
        share(&statistics),
        statistics.tiles,
        tiles,
        promised.error(),
        fast.error(),
    );
    Row { what: format!("{file} {template}"), method, ratio, statistics, again: statistics.tiles > tiles as u64 }
}

/// The share of panels that were recomputed one by one.
fn share(statistics: &Statistics) -> String {
    format!("{:.4} %", 100.0 * statistics.repaired as f64 / statistics.panels as f64)
}
