//! A record of the problems on one card as tables.

use std::fmt::Write;

use serde_json::Value;

use super::bars::{self, Bar};
use super::problems::{self, Goal, Problem, Roofs};

/// What a record says of a problem.
struct Row<'a> {
    problem: Problem,
    told: &'a Value,
    floor_us: Option<f64>,
    /// FLCC's time over that of its correlation of the same sizes.
    times_correlation: Option<f64>,
}

impl Row<'_> {
    fn us(&self) -> Option<f64> {
        self.told["us"].as_f64()
    }

    fn best(&self) -> Option<&Value> {
        let peers = self.told["peers"].as_array()?.iter().filter(|peer| peer["us"].is_f64());
        peers.min_by(|a, b| a["us"].as_f64().unwrap_or(0.0).total_cmp(&b["us"].as_f64().unwrap_or(0.0)))
    }

    fn ratio(&self) -> Option<f64> {
        Some(self.best()?["us"].as_f64()? / self.us()?)
    }

    /// Whether it is what must be, and what is aimed at where something is; `None` where one of both was not timed.
    fn met(&self) -> Option<(bool, Option<bool>)> {
        match self.problem.goal {
            Goal::Peer { must, aim } => self.ratio().map(|ratio| (ratio >= must, aim.map(|aim| ratio >= aim))),
            Goal::Correlation(most) => self.times_correlation.map(|times| (times <= most, None)),
        }
    }

    /// A line of the table of all.
    fn line(&self) -> String {
        let cell = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        let best = self.best();
        let (must, aim) = match self.problem.goal {
            Goal::Peer { must, aim } => (must.to_string(), aim.map(|aim| aim.to_string())),
            Goal::Correlation(most) => {
                let times = self.times_correlation.map(|times| format!(" ({times:.2})"));
                (format!("{most} x correlation{}", times.unwrap_or_default()), None)
            }
        };
        let mark = |met: Option<bool>| met.map_or("", |met| if met { ", met" } else { ", missed" });
        let (must_met, aim_met) = self.met().map_or((None, None), |(must, aim)| (Some(must), aim));
        let own = match (self.us(), self.told["min_us"].as_f64(), self.told["max_us"].as_f64()) {
            (Some(us), Some(min), Some(max)) => format!("{} ({} to {})", digits(us), digits(min), digits(max)),
            _ => cell(self.told["failed"].as_str().map(|why| format!("failed: {}", why.replace('|', "/")))),
        };
        let error = |value: &Value| cell(value["error"].as_f64().map(|error| format!("{error:.0e}")));
        let share = self.floor_us.zip(self.us()).map(|(floor, us)| format!("{:.0} %", 100.0 * floor / us));
        let cells = [
            self.problem.name.clone(),
            own,
            cell(self.told["kernel"].as_str().map(|kernel| format!("`{kernel}`"))),
            cell(share),
            cell(best.and_then(|best| best["peer"].as_str()).map(str::to_string)),
            cell(best.and_then(|best| best["us"].as_f64()).map(digits)),
            cell(self.ratio().map(|ratio| format!("{ratio:.2}"))),
            must + mark(must_met),
            cell(aim.map(|aim| aim + mark(aim_met))),
            error(self.told),
            best.map_or_else(|| "-".into(), error),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

/// The problems of a record, in their order.
fn rows(record: &Value) -> Vec<Row<'_>> {
    let told = record["rows"].as_array().map_or(&[][..], Vec::as_slice);
    let of = |spec: &str| told.iter().find(|row| row["spec"] == spec);
    let roofs = Roofs::of(record["card"].as_str().unwrap_or_default(), record["about"]["copy_gb_s"].as_f64());
    let row = |problem: Problem| {
        let told = of(&problem.spec)?;
        let text = |key: &str| told[key].as_str().unwrap_or_default();
        let floor_us = roofs.as_ref().map(|roofs| problem.floor_us(roofs, text("method"), text("kernel")));
        let correlation = of(&problem.spec.replace("zncc", "corr")).and_then(|row| row["us"].as_f64());
        let times_correlation = told["us"].as_f64().zip(correlation).map(|(own, other)| own / other);
        Some(Row { problem, told, floor_us, times_correlation })
    };
    problems::all().into_iter().filter_map(row).collect()
}

/// The rows of each table.
fn by_table<'r, 'a>(rows: &'r [Row<'a>]) -> impl Iterator<Item = &'r [Row<'a>]> {
    rows.chunk_by(|a, b| a.problem.table == b.problem.table)
}

/// The card, and what was measured beside it.
pub fn about(record: &Value) -> String {
    let versions = ["flcc", "driver"].into_iter().filter_map(|key| record[key].as_str().map(str::to_string));
    let peers = ["torch", "cupy", "npp"].into_iter().filter_map(|key| {
        let version = record["about"][key].as_str()?;
        Some(format!("{key} {version}"))
    });
    let missing = record["missing"].as_object().into_iter().flatten();
    let missing = missing.map(|(name, why)| format!("missing: {name} ({})", why.as_str().unwrap_or("?")));
    let card = record["card"].as_str().unwrap_or("?").to_string();
    let parts: Vec<String> = [card].into_iter().chain(versions).chain(peers).chain(missing).collect();
    format!("{}.", parts.join(", "))
}

/// Every table with all that is known of each problem, and what became of the goals.
pub fn whole(record: &Value) -> String {
    let rows = rows(record);
    let mut text = String::new();
    for table in by_table(&rows) {
        let _ = writeln!(
            text,
            "| {} | FLCC us (least to most) | kernel | of the floor | best peer | us | peer / FLCC | must | aim \
             | error | the peer's |\n|---|---|---|---|---|---|---|---|---|---|---|",
            table[0].problem.table
        );
        table.iter().for_each(|row| text += &(row.line() + "\n"));
        text.push('\n');
    }
    text + &verdict(&rows) + "\n"
}

fn verdict(rows: &[Row<'_>]) -> String {
    let met: Vec<_> = rows.iter().filter_map(Row::met).collect();
    let must = met.iter().filter(|met| met.0).count();
    let aims: Vec<bool> = met.iter().filter_map(|met| met.1).collect();
    let aim = aims.iter().filter(|met| **met).count();
    let (judged, aimed) = (met.len(), aims.len());
    let mut text = format!("What must be is met by {must} of {judged}, what is aimed at by {aim} of {aimed}");
    if rows.len() > met.len() {
        let _ = write!(text, "; {} not judged", rows.len() - met.len());
    }
    let waited: Vec<&str> =
        rows.iter().filter(|row| row.told["queued"] == false).map(|row| row.problem.name.as_str()).collect();
    if !waited.is_empty() {
        let _ = write!(text, "; the GPU may have waited for the host in {}", waited.join(", "));
    }
    text + "."
}

/// A column for each problem: times, and how many times longer the best peer takes.
pub fn brief(record: &Value) -> String {
    let rows = rows(record);
    let mut text = String::new();
    for (number, table) in by_table(&rows).enumerate() {
        if number > 0 {
            text.push('\n');
        }
        let mut line = |name: &str, cell: &dyn Fn(&Row<'_>) -> Option<String>| {
            let cells: Vec<String> = table.iter().map(|row| cell(row).unwrap_or_else(|| "-".into())).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        };
        line(table[0].problem.table, &|row| Some(row.problem.name.clone()));
        line("---", &|_| Some("---".into()));
        line("FLCC, us", &|row| row.us().map(digits));
        line("best peer, us", &|row| row.best().and_then(|best| best["us"].as_f64()).map(digits));
        line("peer / FLCC", &|row| row.ratio().map(|ratio| format!("{ratio:.1}")));
    }
    text
}

/// How many times longer the best peer takes, as a picture.
pub fn picture(record: &Value) -> String {
    let rows = rows(record);
    let bar = |row: &Row<'_>| {
        let (best, own) = (row.best()?, row.us()?);
        let words = format!("{} ({} / {} us)", best["peer"].as_str()?, digits(best["us"].as_f64()?), digits(own));
        Some(Bar { name: row.problem.name.clone(), ratio: row.ratio()?, words })
    };
    let tables: Vec<(&str, Vec<Bar>)> =
        by_table(&rows).map(|table| (table[0].problem.table, table.iter().filter_map(bar).collect())).collect();
    bars::drawn("How many times longer the fastest of FLCC's peers takes, on a GPU", &about(record), &tables)
}

/// Microseconds to three digits.
fn digits(us: f64) -> String {
    match us {
        us if us >= 100.0 => format!("{us:.0}"),
        us if us >= 10.0 => format!("{us:.1}"),
        us => format!("{us:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Value {
        json!({
            "card": "NVIDIA H200", "flcc": "flcc 0.1.0", "driver": "driver 13.0",
            "about": {"torch": "2.11.0", "copy_gb_s": 4140.0}, "missing": {"cupy": "no module"},
            "rows": [
                {"spec": "zncc:f32:100x100x100*3x3x3:full", "us": 20.0, "min_us": 19.0, "max_us": 21.0,
                 "method": "direct", "kernel": "zncc_f32_v3", "error": 1e-7, "queued": false, "peers": []},
                {"spec": "corr:f32:2000x2000*3x3:full", "us": 10.0, "min_us": 9.5, "max_us": 12.0, "method": "direct",
                 "kernel": "corr_f32_s3", "error": 2e-7, "queued": true, "peers": [
                     {"peer": "slow", "us": 50.0, "error": 1e-6}, {"peer": "torch conv2d", "us": 15.0, "error": 3e-7}]},
                {"spec": "corr:f32:100x100x100*3x3x3:full", "us": 16.0, "min_us": 16.0, "max_us": 16.0,
                 "method": "direct", "kernel": "corr_f32_v3", "error": 1e-7, "queued": true,
                 "peers": [{"peer": "torch conv3d", "us": 48.0, "error": 2e-7}]},
                {"spec": "corr:f32:2000x2000*5x5:full", "failed": "refused | why", "peers": []},
            ]
        })
    }

    #[test]
    fn a_record_is_told_whole() {
        let text = whole(&record());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("| f32 correlation | FLCC us") && lines[1].starts_with("|---|"), "{text}");
        assert_eq!(
            lines[2],
            "| 2000^2 k3 | 10.0 (9.50 to 12.0) | `corr_f32_s3` | 77 % | torch conv2d | 15.0 | 1.50 | 1.4, met | \
             1.6, missed | 2e-7 | 3e-7 |"
        );
        assert_eq!(lines[3], "| 2000^2 k5 | failed: refused / why | - | - | - | - | - | 1.7 | 1.9 | - | - |");
        assert!(lines[7].contains("| 3.00 | 4, missed | 6, missed |"), "{text}");
        assert!(lines[11].contains("| 1.6 x correlation (1.25), met | - |"), "{text}");
        // A line has as many cells as its head.
        let cells = |line: &&str| line.matches('|').count();
        assert!(lines.iter().filter(|line| line.starts_with('|')).all(|line| cells(line) == cells(&lines[0])));
        assert_eq!(
            lines[lines.len() - 1],
            "What must be is met by 2 of 3, what is aimed at by 0 of 2; 1 not judged; the GPU may have waited for the \
             host in 100^3 k3."
        );
    }

    #[test]
    fn a_record_is_told_briefly() {
        assert_eq!(
            brief(&record()),
            "| f32 correlation | 2000^2 k3 | 2000^2 k5 |\n| --- | --- | --- |\n| FLCC, us | 10.0 | - |\n\
             | best peer, us | 15.0 | - |\n| peer / FLCC | 1.5 | - |\n\n\
             | 3D f32 correlation | 100^3 k3 |\n| --- | --- |\n| FLCC, us | 16.0 |\n| best peer, us | 48.0 |\n\
             | peer / FLCC | 3.0 |\n\n\
             | 3D f32 zncc | 100^3 k3 |\n| --- | --- |\n| FLCC, us | 20.0 |\n| best peer, us | - |\n\
             | peer / FLCC | - |\n"
        );
    }

    #[test]
    fn what_was_measured_is_named() {
        assert_eq!(about(&record()), "NVIDIA H200, flcc 0.1.0, driver 13.0, torch 2.11.0, missing: cupy (no module).");
        assert_eq!(about(&json!({})), "?.");
    }
}
