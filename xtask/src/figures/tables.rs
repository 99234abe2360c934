//! Tables of what was found beside what was printed.

use std::fmt::Write;

use super::experiments::{
    DIFFERED, DIFFERENCES, Feed, MATCHED, MATCHING, Method, Op, Platform, SIZES, Shape, matched_templates,
};
use super::rows::Row;

/// A table: its title, and its lines as Markdown.
#[derive(Debug, PartialEq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// A row a line.
    pub text: String,
}

/// Printed gains of streaming: the table, and of CPU and GPU those of convolution and LCC.
const GAINS: [(&str, [[&str; 2]; 2]); 4] = [
    ("5.3", [["25 to 45 %", "20 to 40 %"], ["50 to 60 %", "40 to 47 %"]]),
    ("5.5", [["26 to 46 %", "20 to 35 %"], ["46 to 53 %", "39 to 44 %"]]),
    ("5.7", [["25 to 45 %", "20 to 35 %"], ["46 to 58 %", "36 to 46 %"]]),
    ("5.8", [["20 to 45 %", "15 to 40 %"], ["40 to 65 %", "32 to 60 %"]]),
];

/// Printed critical sizes: the table, which of [`SIZES`], and of CPU, GPU and prediction those of convolution, single
/// and stream, and LCC.
const CRITICAL: [(&str, usize, [[usize; 4]; 3]); 2] = [
    ("5.4", 0, [[11, 8, 12, 10], [18, 15, 21, 17], [13, 10, 14, 12]]),
    ("5.6", 1, [[6, 5, 7, 6], [7, 6, 7, 6], [6, 5, 6, 5]]),
];

/// Printed times of table 3.4 in ms: a name, and one for each of [`MATCHED`].
const PRINTED_MATCHING: [(&str, [f64; 6]); 4] = [
    ("2011, Quadro FX 3800, small", [2.3, 3.1, 5.8, 14.3, 51.8, 201.9]),
    ("2011, Quadro FX 3800, large", [2.1, 2.9, 5.6, 14.5, 52.0, 203.1]),
    ("2011, OpenCV on Xeon E5520, small", [6.1, 17.2, 84.8, 285.0, 1425.3, 6263.1]),
    ("2011, OpenCV on Xeon E5520, large", [5.6, 15.7, 61.4, 273.7, 1268.8, 5584.7]),
];

/// Printed times of figure 3.3 in ms, one for each of [`DIFFERED`]: serial, and by the GPU with copies.
const PRINTED_DIFFERENCES: [(&str, [f64; 4]); 2] = [
    ("2018, one core of an i7-4710HQ", [10787.0, 22615.0, 92204.0, 1_722_131.0]),
    ("2018, GeForce 850M", [345.0, 665.0, 1980.0, 28977.0]),
];

const OPS: [Op; 2] = [Op::Conv, Op::Lcc];
const PLATFORMS: [Platform; 2] = [Platform::Cpu, Platform::Cuda];
/// What stands where nothing was found.
const NOTHING: &str = "-";

/// The tables that there are data for.
pub fn tables(rows: &[Row]) -> Vec<Table> {
    let has = |files: &[&str]| rows.iter().any(|row| files.contains(&row.point.file));
    let mut tables = Vec::new();
    let gains = GAINS.iter().enumerate().filter(|(at, _)| has(&SIZES[*at].files));
    tables.extend(gains.map(|(at, gains)| gains_table(at, gains, rows)));
    let critical = CRITICAL.iter().filter(|(_, at, _)| has(&SIZES[*at].files));
    tables.extend(critical.map(|critical| critical_table(critical, rows)));
    tables.extend(has(&[MATCHING]).then(|| matching_table(rows)));
    tables.extend(has(&[DIFFERENCES]).then(|| differences_table(rows)));
    tables
}

fn row(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

fn head(cells: &[&str]) -> String {
    format!("| {} |\n|{}\n", cells.join(" | "), "---|".repeat(cells.len()))
}

/// Tables 5.3, 5.5, 5.7 and 5.8: how much less time an image of a stream takes by Fourier.
fn gains_table(at: usize, (number, printed): &(&str, [[&str; 2]; 2]), rows: &[Row]) -> Table {
    let sizes = &SIZES[at];
    let mut text = head(&["streaming saves", "convolution, 2011", "now", "LCC, 2011", "now"]);
    for (platform, printed) in PLATFORMS.into_iter().zip(printed) {
        let file = sizes.files[usize::from(platform == Platform::Cuda)];
        let now = OPS.map(|op| gains(rows, file, op).unwrap_or(NOTHING.into()));
        let cells = [platform.name(), printed[0], &now[0], printed[1], &now[1]];
        row(&mut text, &cells.map(str::to_string));
    }
    row(&mut text, &["by count of transforms", "33.3 %", "", "28.6 %", ""].map(str::to_string));
    let what = match sizes.templates.vary() {
        true => format!("images of {}", Shape::of(sizes.images.all()[0], sizes.axes)),
        false => format!("templates of {}", Shape::of(sizes.templates.all()[0], sizes.axes)),
    };
    Table { title: format!("Table {number}: what streaming gains the Fourier method, {what}"), text }
}

/// From the least to the largest share of time that a stream saves an image, in percent.
fn gains(rows: &[Row], file: &str, op: Op) -> Option<String> {
    let of = |feed: Feed| {
        rows.iter().filter(move |Row { point, .. }| {
            point.file == file && point.op == op && point.feed == feed && point.method == Method::Fourier
        })
    };
    let saved = of(Feed::Single).filter_map(|single| {
        let alike =
            |stream: &&Row| stream.point.image == single.point.image && stream.point.template == single.point.template;
        let stream = of(Feed::Stream).find(alike)?;
        Some(100.0 * (1.0 - stream.ns()? / single.ns()?))
    });
    let ends = |(least, most): (f64, f64), saved: f64| (least.min(saved), most.max(saved));
    let (least, most) = saved.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
    (least <= most).then(|| format!("{least:.0} to {most:.0} %"))
}

/// Tables 5.4 and 5.6: the least template that Fourier is faster for.
fn critical_table((number, at, printed): &(&str, usize, [[usize; 4]; 3]), rows: &[Row]) -> Table {
    let sizes = &SIZES[*at];
    let mut text = head(&["", "convolution, single", "stream", "LCC, single", "stream"]);
    let shown = |sides: &[usize; 4]| sides.map(|side| Shape::of(side, sizes.axes).to_string());
    let mut line = |name: String, cells: [String; 4]| row(&mut text, &[&[name][..], &cells[..]].concat());
    for (platform, printed) in PLATFORMS.into_iter().zip(printed) {
        let file = sizes.files[usize::from(platform == Platform::Cuda)];
        line(format!("{}, 2011", platform.name()), shown(printed));
        let of = |op, feed| critical(rows, file, op, feed, sizes.axes).unwrap_or(NOTHING.into());
        let now = [(0, 0), (0, 1), (1, 0), (1, 1)];
        line(
            format!("{}, now", platform.name()),
            now.map(|(op, feed)| of(OPS[op], [Feed::Single, Feed::Stream][feed])),
        );
    }
    line("predicted in 2011".into(), shown(&printed[2]));
    let image = Shape::of(sizes.images.all()[0], sizes.axes);
    Table { title: format!("Table {number}: the template from which on Fourier is faster, images of {image}"), text }
}

/// The template from which on Fourier is faster, between sizes that were timed by the logarithms of time and side.
fn critical(rows: &[Row], file: &str, op: Op, feed: Feed, axes: usize) -> Option<String> {
    let of = |method: Method, side: usize| {
        let point = |Row { point, .. }: &&Row| {
            (point.file, point.op, point.feed, point.method, point.template.side()) == (file, op, feed, method, side)
        };
        rows.iter().find(point).and_then(Row::ns)
    };
    let mut sides: Vec<usize> = rows.iter().filter(|row| row.point.file == file).map(side).collect();
    sides.sort_unstable();
    sides.dedup();
    // By how much direct takes longer, as a logarithm.
    let longer = |side: usize| Some((side, (of(Method::Direct, side)? / of(Method::Fourier, side)?).ln()));
    let found: Vec<(usize, f64)> = sides.into_iter().filter_map(longer).collect();
    let (first, last) = (found.first()?.0, found.last()?.0);
    let shape = |side: usize| Shape::of(side, axes).to_string();
    Some(match found.iter().rposition(|(_, longer)| *longer < 0.0) {
        None => format!("{} or less", shape(first)),
        Some(at) if at + 1 == found.len() => format!("above {}", shape(last)),
        Some(at) => {
            let [(below, before), (above, after)] = [found[at], found[at + 1]];
            let share = before / (before - after);
            let side = (below as f64).ln() * (1.0 - share) + (above as f64).ln() * share;
            shape((side.exp().ceil() as usize).clamp(below + 1, above))
        }
    })
}

fn side(row: &Row) -> usize {
    row.point.template.side()
}

/// Milliseconds in three digits.
fn ms(ns: Option<f64>) -> String {
    match ns.map(|ns| ns / 1e6) {
        None => NOTHING.into(),
        Some(ms) if ms >= 100.0 => format!("{ms:.0}"),
        Some(ms) if ms >= 10.0 => format!("{ms:.1}"),
        Some(ms) if ms >= 1.0 => format!("{ms:.2}"),
        Some(ms) => format!("{ms:.3}"),
    }
}

fn found(rows: &[Row], file: &str, platform: Platform, image: &Shape, template: usize) -> Option<f64> {
    let alike = |Row { point, .. }: &&Row| {
        (point.file, point.platform, &point.image, point.template.side()) == (file, platform, image, template)
    };
    rows.iter().find(alike).and_then(Row::ns)
}

/// Table 3.4 of Binna and Hofmann.
fn matching_table(rows: &[Row]) -> Table {
    let shapes = MATCHED.map(|side| Shape::of(side, 2));
    let names: Vec<String> = shapes.iter().map(Shape::to_string).collect();
    let names: Vec<&str> = ["ms"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut text = head(&names);
    let mut line = |name: String, cells: Vec<String>| row(&mut text, &[vec![name], cells].concat());
    for (name, times) in PRINTED_MATCHING {
        line(name.into(), times.iter().map(|time| ms(Some(time * 1e6))).collect());
    }
    for platform in PLATFORMS {
        for (at, size) in ["small", "large"].into_iter().enumerate() {
            let times = shapes
                .iter()
                .map(|image| ms(found(rows, MATCHING, platform, image, matched_templates(image.side())[at])));
            line(format!("now, {}, {size}", platform.name()), times.collect());
        }
    }
    Table { title: "Table 3.4 of Binna and Hofmann: matching with a small and a large template".into(), text }
}

/// Figure 3.3 of Gholami.
fn differences_table(rows: &[Row]) -> Table {
    let shapes = DIFFERED.map(|(image, template)| (Shape(image.to_vec()), template));
    let names: Vec<String> = shapes.iter().map(|(image, side)| format!("{image}\\*{}", Shape::of(*side, 2))).collect();
    let names: Vec<&str> = ["ms"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let mut text = head(&names);
    let mut line = |name: String, cells: Vec<String>| row(&mut text, &[vec![name], cells].concat());
    for (name, times) in PRINTED_DIFFERENCES {
        line(name.into(), times.iter().map(|time| ms(Some(time * 1e6))).collect());
    }
    for platform in PLATFORMS {
        let times = shapes.iter().map(|(image, side)| ms(found(rows, DIFFERENCES, platform, image, *side)));
        line(format!("now, {}", platform.name()), times.collect());
    }
    Table { title: "Figure 3.3 of Gholami: SAD of three channels of bytes".into(), text }
}

#[cfg(test)]
mod tests {
    use super::super::experiments::Point;
    use super::super::rows::Answer;
    use super::*;

    fn row(method: Method, feed: Feed, template: usize, ns: f64) -> Row {
        let point = Point {
            file: "fig-5-01",
            platform: Platform::Cpu,
            op: Op::Lcc,
            method,
            feed,
            threads: 0,
            image: Shape::of(2000, 2),
            template: Shape::of(template, 2),
        };
        let answer =
            Answer { ns: Some(ns), least_ns: None, runs: None, max_error: None, took: method, kernel: "k".into() };
        Row { point, answer: Ok(answer) }
    }

    /// Direct takes the square of the side, Fourier so much for all.
    fn rows(fourier: f64) -> Vec<Row> {
        let mut rows = Vec::new();
        for side in [2, 4, 8, 16, 32] {
            rows.push(row(Method::Direct, Feed::Single, side, (side * side) as f64));
            rows.push(row(Method::Fourier, Feed::Single, side, fourier));
            rows.push(row(Method::Fourier, Feed::Stream, side, fourier * (0.5 + side as f64 / 100.0)));
        }
        rows
    }

    #[test]
    fn critical_sizes_lie_where_times_are_equal() {
        let of = |fourier| critical(&rows(fourier), "fig-5-01", Op::Lcc, Feed::Single, 2).unwrap();
        assert_eq!(of(100.0), "10x10");
        assert_eq!(of(143.0), "12x12");
        assert_eq!(of(1.0), "2x2 or less");
        assert_eq!(of(5000.0), "above 32x32");
        assert_eq!(critical(&rows(9.0), "fig-5-01", Op::Lcc, Feed::Stream, 2), None);
    }

    #[test]
    fn gains_are_the_least_and_the_most() {
        assert_eq!(gains(&rows(50.0), "fig-5-01", Op::Lcc).unwrap(), "18 to 48 %");
        assert_eq!(gains(&rows(50.0), "fig-5-01", Op::Conv), None);
    }

    #[test]
    fn tables_stand_beside_what_was_printed() {
        assert_eq!(tables(&[]), []);
        let mut rows = rows(100.0);
        for file in [SIZES[1].files[0], SIZES[2].files[1], SIZES[3].files[0], MATCHING, DIFFERENCES] {
            let mut other = row(Method::Auto, Feed::Single, 10, 12_340_000.0);
            (other.point.file, other.point.image) = (file, Shape::of(128, 2));
            rows.push(other);
        }
        let tables = tables(&rows);
        let numbers: Vec<&str> = tables.iter().map(|table| table.title.split(':').next().unwrap()).collect();
        let expected =
            ["5.3", "5.5", "5.7", "5.8", "5.4", "5.6", "3.4 of Binna and Hofmann"].map(|n| format!("Table {n}"));
        assert_eq!(numbers[..7], expected);
        assert_eq!(numbers[7], "Figure 3.3 of Gholami");
        assert!(tables[0].text.contains("| CPU | 25 to 45 % | - | 20 to 40 % | 18 to 48 % |"), "{}", tables[0].text);
        assert!(tables[4].text.contains("| CPU, now | - | - | 10x10 | - |"), "{}", tables[4].text);
        assert!(tables[6].text.contains("| now, CPU, small | 12.3 | - |"), "{}", tables[6].text);
        for Table { title, text } in &tables {
            let columns: Vec<usize> = text.lines().map(|line| line.matches('|').count()).collect();
            assert!(columns.len() > 3 && columns.iter().all(|count| *count == columns[0]), "{title}\n{text}");
        }
        assert_eq!([0.5e6, 1.234e6, 43.21e6, 1722131e6].map(|ns| ms(Some(ns))), ["0.500", "1.23", "43.2", "1722131"]);
    }
}
