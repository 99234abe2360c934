//! What was found, as lines of CSV: one file a figure.

use super::experiments::{CHOICES, DIFFERENCES, Feed, MATCHING, Method, Op, Point, SIZES, Shape, THREADS};

/// The first line of a file.
const HEADER: &str = "platform,op,method,feed,threads,image,template,ns,least_ns,runs,max_error,took,kernel,refusal";

/// What was found of a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Median nanoseconds of an image; of a choice those that the planner measured, if it told any.
    pub ns: Option<f64>,
    /// The least.
    pub least_ns: Option<f64>,
    /// Runs timed.
    pub runs: Option<u64>,
    /// Largest error of the positions checked.
    pub max_error: Option<f64>,
    /// The method that was taken.
    pub took: Method,
    /// The kernel.
    pub kernel: String,
}

/// A point with what was found, or why it was refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The point.
    pub point: Point,
    /// What was found.
    pub answer: Result<Answer, String>,
}

impl Row {
    /// Nanoseconds an image.
    pub fn ns(&self) -> Option<f64> {
        self.answer.as_ref().ok().and_then(|answer| answer.ns)
    }

    fn line(&self) -> String {
        let point = &self.point;
        let answer = self.answer.as_ref();
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let of = |part: fn(&Answer) -> Option<f64>| number(answer.ok().and_then(part));
        let cells = [
            point.platform.to_string(),
            point.op.to_string(),
            point.method.to_string(),
            point.feed.to_string(),
            point.threads.to_string(),
            point.image.to_string(),
            point.template.to_string(),
            of(|answer| answer.ns.map(f64::round)),
            of(|answer| answer.least_ns.map(f64::round)),
            of(|answer| answer.runs.map(|runs| runs as f64)),
            // Three digits of an error say all that it can say.
            answer.ok().and_then(|answer| answer.max_error).map_or(String::new(), |error| format!("{error:.2e}")),
            answer.map_or(String::new(), |answer| answer.took.to_string()),
            answer.map_or(String::new(), |answer| answer.kernel.clone()),
            // No cell holds a comma or ends a line, so none is quoted.
            answer.err().map_or(String::new(), |reason| reason.replace(',', ";").replace('\n', " ")),
        ];
        cells.join(",")
    }

    fn parse(file: &'static str, line: &str) -> Result<Row, String> {
        let cells: Vec<&str> = line.split(',').collect();
        let [platform, op, method, feed, threads, image, template, ns, least, runs, error, took, kernel, refusal] =
            cells[..]
        else {
            return Err(format!("expected {} cells, got {}", HEADER.split(',').count(), cells.len()));
        };
        let number = |name: &str, text: &str| match text {
            "" => Ok(None),
            text => match text.parse::<f64>() {
                Ok(value) if value.is_finite() && value >= 0.0 => Ok(Some(value)),
                _ => Err(format!("{name}: expected a number, at least 0, or nothing, got {text:?}")),
            },
        };
        let point = Point {
            file,
            platform: platform.parse()?,
            op: op.parse::<Op>()?,
            method: method.parse()?,
            feed: feed.parse::<Feed>()?,
            threads: threads.parse().map_err(|_| format!("threads: expected a whole number, got {threads:?}"))?,
            image: image.parse::<Shape>()?,
            template: template.parse::<Shape>()?,
        };
        let answer = match refusal {
            "" => Ok(Answer {
                ns: number("ns", ns)?,
                least_ns: number("least_ns", least)?,
                runs: number("runs", runs)?.map(|runs| runs as u64),
                max_error: number("max_error", error)?,
                took: took.parse()?,
                kernel: kernel.to_string(),
            }),
            reason => Err(reason.to_string()),
        };
        Ok(Row { point, answer })
    }
}

/// The text of a file, its rows in the order of their sizes.
pub fn write(rows: &[Row]) -> String {
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by_key(|Row { point, .. }| {
        let sizes = (point.threads, point.image.side(), point.template.side());
        (point.platform, point.op, point.method, point.feed, sizes)
    });
    let lines: Vec<String> = rows.into_iter().map(Row::line).collect();
    format!("{HEADER}\n{}\n", lines.join("\n"))
}

/// The rows of a file's text.
pub fn read(file: &'static str, text: &str) -> Result<Vec<Row>, String> {
    let mut lines = text.lines();
    match lines.next() {
        Some(HEADER) => {}
        other => return Err(format!("line 1: expected {HEADER:?}, got {:?}", other.unwrap_or("nothing"))),
    }
    let row = |(at, line)| Row::parse(file, line).map_err(|what| format!("line {}: {what}", at + 2));
    lines.enumerate().map(row).collect()
}

/// The names of all files that hold rows.
pub fn files() -> Vec<&'static str> {
    let sizes = SIZES.iter().flat_map(|sizes| sizes.files);
    let threads = THREADS.iter().map(|threads| threads.file);
    let choices = CHOICES.iter().map(|choice| choice.file);
    sizes.chain(threads).chain(choices).chain([MATCHING, DIFFERENCES]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::experiments::Platform;
    use super::*;

    fn row(side: usize, answer: Result<Answer, String>) -> Row {
        let point = Point {
            file: "fig-5-01",
            platform: Platform::Cpu,
            op: Op::Lcc,
            method: Method::Fourier,
            feed: Feed::Stream,
            threads: 0,
            image: Shape(vec![300, 400]),
            template: Shape::of(side, 2),
        };
        Row { point, answer }
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        let answer = Answer {
            ns: Some(1234.0),
            least_ns: None,
            runs: Some(7),
            max_error: Some(2.5e-7),
            took: Method::Fourier,
            kernel: "fourier_f32_64x64_avx512_t49x49".into(),
        };
        let rows = [row(2, Ok(answer)), row(3, Err("no room, none;\nnone at all".into()))];
        let text = write(&[rows[1].clone(), rows[0].clone()]);
        let read = read("fig-5-01", &text).unwrap();
        assert_eq!(read[0], rows[0]);
        assert_eq!(read[1].answer, Err("no room; none; none at all".into()));
        assert_eq!(write(&read), text);
    }

    #[test]
    fn wrong_data_are_told_with_their_line() {
        let told = |text: &str| read("fig-5-01", text).unwrap_err();
        assert!(told("a,b\n").starts_with("line 1: expected \"platform,op,"), "{}", told("a,b\n"));
        let line = "cpu,conv,direct,single,0,9x9,3x3,5,5,1,0,direct,corr_f32_w3,";
        assert!(read("fig-5-01", &format!("{HEADER}\n{line}\n")).is_ok());
        for (right, wrong, expected) in [
            ("cpu,", "gpu,", "line 2: expected a platform: cpu or cuda, got \"gpu\""),
            ("9x9", "9x", "line 2: expected a shape as 2000x2000, got \"9x\""),
            (",5,5,", ",five,5,", "line 2: ns: expected a number, at least 0, or nothing, got \"five\""),
            (",corr_f32_w3,", "", "line 2: expected 14 cells, got 12"),
        ] {
            assert_eq!(told(&format!("{HEADER}\n{}\n", line.replace(right, wrong))), expected);
        }
    }
}
