//! Ratios of times as a picture of bars, in SVG: each begins at 1, to the right where FLCC takes less time, to the left
//! where it takes more. Colours of Okabe and Ito tell the same.

use std::fmt::Write;

/// A problem: its name, how many times longer the other takes than FLCC, and what the other is.
pub struct Bar {
    pub name: String,
    pub ratio: f64,
    pub words: String,
}

/// Pixels: of the picture, of names at its left and of words behind the longest bar, of a bar with what is around it.
const WIDTH: f64 = 930.0;
const NAMES: f64 = 150.0;
const WORDS: f64 = 370.0;
const STEP: f64 = 16.0;
/// Values told on the axis, as far as bars reach.
const TICKS: [f64; 9] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0];

/// The bars of some tables, each below its title.
pub fn drawn(title: &str, about: &str, tables: &[(&str, Vec<Bar>)]) -> String {
    let ratios = || tables.iter().flat_map(|(_, bars)| bars).map(|bar| bar.ratio);
    let low = TICKS.into_iter().rfind(|&tick| ratios().all(|ratio| tick <= ratio)).unwrap_or(TICKS[0]).min(0.5);
    let high = TICKS.into_iter().find(|&tick| ratios().all(|ratio| tick >= ratio)).unwrap_or(50.0).max(2.0);
    let across = |ratio: f64| NAMES + (WIDTH - NAMES - WORDS) * (ratio.clamp(low, high) / low).ln() / (high / low).ln();
    let (mut marks, mut y) = (String::new(), 52.0);
    let text = |x: f64, y: f64, more: &str, words: &str| {
        let words = words.replace('&', "&amp;").replace('<', "&lt;");
        format!("<text x=\"{x:.0}\" y=\"{y:.0}\"{more}>{words}</text>\n")
    };
    for (table, bars) in tables {
        y += 22.0;
        marks += &text(10.0, y, " font-weight=\"bold\"", table);
        y += 6.0;
        for Bar { name, ratio, words } in bars {
            let (begin, end) = (across(ratio.min(1.0)), across(ratio.max(1.0)));
            let color = if *ratio >= 1.0 { "#0072b2" } else { "#d55e00" };
            marks += &text(NAMES - 8.0, y + 12.0, " text-anchor=\"end\"", name);
            let _ = writeln!(
                marks,
                "<rect x=\"{begin:.1}\" y=\"{:.0}\" width=\"{:.1}\" height=\"12\" fill=\"{color}\"/>",
                y + 2.0,
                end - begin
            );
            marks += &text(end + 6.0, y + 12.0, "", &format!("{ratio:.1}  {words}"));
            y += STEP;
        }
    }
    let (mut axis, below) = (String::new(), y + 8.0);
    for tick in TICKS.into_iter().filter(|tick| (low..=high).contains(tick)) {
        let (x, color) = (across(tick), if tick == 1.0 { "#1e1e1e" } else { "#dedede" });
        let _ = writeln!(axis, "<path d=\"M{x:.1} 56V{below:.0}\" stroke=\"{color}\"/>");
        axis += &text(x, below + 14.0, " text-anchor=\"middle\"", &tick.to_string());
    }
    let middle = (across(low) + across(high)) / 2.0;
    let told = "best peer's time / FLCC's time, logarithmic";
    axis += &text(middle, below + 32.0, " text-anchor=\"middle\"", told);
    let height = below + 44.0;
    let head = text(10.0, 22.0, " font-size=\"16\"", title) + &text(10.0, 42.0, " fill=\"#6e6e6e\"", about);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" viewBox=\"0 0 {WIDTH} \
         {height:.0}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#1e1e1e\" stroke-width=\"1\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{head}{axis}{marks}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_begin_at_one() {
        let bar = |name: &str, ratio: f64| Bar { name: name.into(), ratio, words: "a < b".into() };
        let text = drawn("title", "about", &[("table", vec![bar("faster", 10.0), bar("slower", 0.5)])]);
        // Of the 410 pixels from 0.5 to 10 a factor of 2 takes 94.9.
        let there = |x: f64, y: u32, width: f64, color: &str| {
            text.contains(&format!(
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"12\" fill=\"{color}\"/>"
            ))
        };
        assert!(there(244.9, 82, 315.1, "#0072b2") && there(150.0, 98, 94.9, "#d55e00"), "{text}");
        assert!(
            text.contains(">10.0  a &lt; b</text>") && text.contains(">0.5</text>") && !text.contains(">20</text>")
        );
    }
}
