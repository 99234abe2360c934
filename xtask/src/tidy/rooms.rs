//! Who may name whom: no circles of imports, and the rules of rooms. A room is a module and all that lies below it.

use super::circles;
use super::graph::{Edge, Graph};
use super::violation::{Source, Violation};

/// The one table of rules. Rooms are named by their paths, the crate first; a name that no module has is an error.
const RULES: &[Rule] = &[
    never("flcc_core", &["flcc_macros", "flcc_codegen", "flcc_generated", "flcc_runtime", "flcc_cli"], "all know it"),
    never("flcc_core", &["flcc_core::reference"], "nothing is computed by the oracle that judges it"),
    never("flcc_core::measure", &["flcc_core::view", "flcc_core::spec"], "a measure sees sums, never pixels"),
    apart("flcc_core::measure", "each is a file of its own").but(&["flcc_core::measure::formula"]),
    never("flcc_macros", &["flcc_core::measure", "flcc_core::spec"], "it knows syntax and sizes, not correlation"),
    never("flcc_codegen", &["flcc_generated", "flcc_runtime", "flcc_cli"], "it makes what they hold and launch"),
    never("flcc_codegen", &["flcc_core::measure", "flcc_core::spec"], "templates know measures, plans choose kernels"),
    never("xtask", &["flcc_generated", "flcc_runtime"], "it works while they do not build"),
    never("flcc_runtime::isa", &["flcc_runtime::cpu", "flcc_runtime::run", "flcc_runtime::plan"], "all may use it"),
    never("flcc_runtime::problem", &["flcc_runtime::cpu", "flcc_runtime::cuda"], "what both ask knows neither"),
    never("flcc_runtime::problem", &["flcc_runtime::run", "flcc_runtime::plan", "flcc_runtime::call"], "it is numbers"),
    never("flcc_runtime::run", &["flcc_runtime::cpu", "flcc_runtime::cuda"], "what both are run by knows neither"),
    never("flcc_runtime::run", &["flcc_runtime::plan", "flcc_runtime::call"], "a run knows no plan"),
    never("flcc_runtime::plan", &["flcc_runtime::cpu", "flcc_runtime::cuda"], "one table names what there is")
        .but(&["flcc_runtime::plan::solvers"]),
    never("flcc_runtime::plan", &["flcc_runtime::call"], "calls are made of plans"),
    never("flcc_runtime::plan", &["flcc_runtime::tune"], "plans are judged there, not made"),
    never("flcc_runtime::tune", &["flcc_runtime::cpu", "flcc_runtime::cuda"], "it times what solvers offer"),
    never("flcc_runtime::call", &["flcc_runtime::cpu", "flcc_runtime::cuda"], "a call names no platform"),
    never("flcc_runtime::cuda", &["flcc_runtime::cpu"], "platforms stand side by side"),
    never("flcc_runtime::cpu", &["flcc_runtime::cuda"], "platforms stand side by side"),
    never("flcc_runtime::cpu::kernels", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "they are below"),
    never("flcc_runtime::cpu::kernels", &["flcc_runtime::cpu::score", "flcc_runtime::cpu::tile"], "they are below"),
    never("flcc_runtime::cpu::fft", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::score"], "transforms only"),
    never("flcc_runtime::cpu::fft", &["flcc_core::measure", "flcc_core::spec"], "transforms only"),
    apart("flcc_runtime::cpu::engines", "no engine knows another"),
    never("flcc_runtime::cpu::engines", &["flcc_core::measure"], "no measure"),
    never("flcc_runtime::cpu::engines", &["flcc_runtime::cpu::score", "flcc_runtime::cpu::tile"], "no measure"),
    never("flcc_runtime::cpu::engines", &["flcc_core::spec"], "no spec"),
    never("flcc_runtime::cpu::engines", &["flcc_runtime::plan", "flcc_runtime::cpu::solvers"], "no spec"),
    never("flcc_runtime::cpu::engine", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "it is any engine's"),
    never("flcc_runtime::cpu::engine", &["flcc_core::measure", "flcc_core::spec"], "it is any spec's and measure's"),
    never("flcc_runtime::cpu::engine", &["flcc_runtime::cpu::score", "flcc_runtime::cpu::tile"], "no measure"),
    never("flcc_runtime::cpu::slab", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "engines share it"),
    never("flcc_runtime::cpu::in_place", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "engines share it"),
    never("flcc_runtime::cpu::score", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "no engine"),
    never("flcc_runtime::cpu::score", &["flcc_runtime::cpu::engine", "flcc_runtime::cpu::tile"], "no engine"),
    never("flcc_runtime::cpu::score", &["flcc_runtime::cpu::solvers", "flcc_runtime::plan"], "plans are made of it"),
    apart("flcc_runtime::cpu::score::ways", "each is a file of its own"),
    never("flcc_runtime::cpu::tile", &["flcc_runtime::cpu::engines", "flcc_runtime::cpu::fft"], "any engine serves"),
    never("flcc_runtime::cpu::tile", &["flcc_runtime::cpu::solvers", "flcc_runtime::plan"], "plans are made of it"),
    never("flcc_runtime::cuda", &["flcc_runtime::cuda::methods"], "any method serves, one table names what there is")
        .but(&["flcc_runtime::cuda::solver"]),
    apart("flcc_runtime::cuda::methods", "each is a file of its own"),
    never("flcc_runtime::cuda::methods", &["flcc_core::spec", "flcc_runtime::plan"], "solvers know specs"),
    never("flcc_runtime::cuda::methods", &["flcc_runtime::cuda::unit", "flcc_runtime::cuda::decisions"], "any unit's"),
    never("flcc_runtime::cuda::driver", &["flcc_runtime::cuda::rooms", "flcc_runtime::cuda::kernels"], "it is below"),
    never("flcc::pointers", &["flcc::plans", "flcc::classic"], "both pass it what they were passed"),
    never("flcc::registry", &["flcc::pointers"], "no handle is followed"),
    never("flcc_cli", &["flcc_cli::commands"], "commands use the rest, the rest knows none of them"),
    never("flcc_cli::io", &["flcc_cli::args", "flcc_cli::error", "flcc_cli::data"], "it knows files, not calls"),
    never("flcc_cli::picture", &["flcc_cli::args", "flcc_cli::session", "flcc_cli::outputs"], "it knows no calls"),
];

/// A rule of rooms.
struct Rule {
    room: &'static str,
    /// Rooms that nothing in `room` may name, unless it lies in them itself.
    never: &'static [&'static str],
    /// Nothing in a module of `room` may name another module of `room`.
    apart: bool,
    /// Parts of `room` that the rule leaves alone.
    but: &'static [&'static str],
    /// Why, in words that follow a colon.
    why: &'static str,
}

/// The rule that nothing in `room` names one of `others`.
const fn never(room: &'static str, others: &'static [&'static str], why: &'static str) -> Rule {
    Rule { room, never: others, apart: false, but: &[], why }
}

/// The rule that what stands side by side in `room` does not name each other.
const fn apart(room: &'static str, why: &'static str) -> Rule {
    Rule { room, never: &[], apart: true, but: &[], why }
}

impl Rule {
    /// The same rule without some parts of its room.
    const fn but(self, parts: &'static [&'static str]) -> Rule {
        Rule { but: parts, ..self }
    }
}

/// Circles and broken rules of all crates.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let graph = Graph::of(sources);
    let mut violations = circles_of(&graph);
    violations.extend(broken(&graph, RULES));
    violations.extend(graph.broken);
    violations
}

/// An error of the tables here, where they have a name.
fn untrue(name: &str, what: String) -> Violation {
    let quoted = format!("{name:?}");
    let mut table = include_str!("rooms.rs").lines().take_while(|line| *line != "#[cfg(test)]");
    let line = table.position(|line| line.contains(&quoted)).map_or(1, |at| at + 1);
    Violation { path: "xtask/src/tidy/rooms.rs".into(), line, what }
}

/// A violation for each circle.
fn circles_of(graph: &Graph) -> Vec<Violation> {
    let told = |circle: circles::Circle| Violation {
        path: graph.files[circle.way[0]].clone(),
        line: circle.line(graph),
        what: circle.text(graph),
    };
    circles::of(graph).into_iter().map(told).collect()
}

/// The rules that are broken, and names in them that nothing has.
fn broken(graph: &Graph, rules: &[Rule]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for rule in rules {
        let named = [&[rule.room], rule.never, rule.but].concat();
        let rooms: Vec<Option<usize>> = named.iter().map(|name| graph.module(name)).collect();
        for (name, _) in named.iter().zip(&rooms).filter(|(_, room)| room.is_none()) {
            violations.push(untrue(name, format!("a rule of {} names {name}, which is no module", rule.room)));
        }
        let Some(rooms) = rooms.into_iter().collect::<Option<Vec<usize>>>() else { continue };
        let (room, others) = (rooms[0], &rooms[1..]);
        let (never, but) = others.split_at(rule.never.len());
        let within = |module: usize, rooms: &[usize]| rooms.iter().any(|room| graph.is_within(module, *room));
        for edge in graph.edges.iter().filter(|edge| within(edge.from, &[room]) && !within(edge.from, but)) {
            let seen = |module: usize| match rule.apart {
                true => {
                    let [from, to] = [edge.from, module].map(|module| graph.part_of(module, room));
                    from.is_some() && to.is_some() && from != to && !within(module, but)
                }
                false => never.iter().any(|other| within(module, &[*other]) && !within(edge.from, &[*other])),
            };
            if let Some(other) = [edge.to].iter().chain(&edge.through).find(|module| seen(**module)) {
                violations.push(broken_by(graph, rule, edge, *other));
            }
        }
    }
    violations
}

fn broken_by(graph: &Graph, rule: &Rule, edge: &Edge, other: usize) -> Violation {
    let what = match rule.apart {
        true => format!("the parts of {} name each other never: {}", rule.room, rule.why),
        false => format!("{} never names {}: {}", rule.room, rule.never.join(" or "), rule.why),
    };
    let what = format!("names {} of {}; {what}", edge.path, graph.path(other));
    Violation { path: graph.path(edge.from).to_string(), line: edge.line, what }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::graph;
    use super::*;

    const FILES: [(&str, &str); 7] = [
        ("a/src/lib.rs", "mod low;\nmod high;\npub use high::top::Top;\n"),
        ("a/src/low.rs", "mod deep;\nmod flat;\n"),
        ("a/src/low/deep.rs", "use std::fmt;\nuse crate::{Top, high::Plain};\nuse super::flat::Flat;\n"),
        ("a/src/low/flat.rs", "use crate::high::Plain;\n"),
        ("a/src/high.rs", "pub mod top;\npub struct Plain;\n"),
        ("a/src/high/top.rs", "use super::Plain;\nuse b::B;\n"),
        ("b/src/lib.rs", "pub struct B;\n"),
    ];

    fn found(rules: &[Rule]) -> Vec<String> {
        broken(&graph(&FILES), rules).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_broken_rule_is_told_with_file_and_line() {
        let why = "a::low never names a::high::top: so";
        assert_eq!(
            found(&[never("a::low", &["a::high::top"], "so")]),
            [format!("a/src/low/deep.rs:2: names crate::Top of a/src/high/top.rs; {why}")]
        );
        assert_eq!(
            found(&[never("a", &["b"], "so")]),
            ["a/src/high/top.rs:2: names b::B of b/src/lib.rs; a never names b: so"]
        );
        assert!(found(&[never("a::high", &["a::low"], "so"), never("b", &["a"], "so")]).is_empty());
    }

    #[test]
    fn a_room_names_itself_and_parts_may_be_let_off() {
        assert_eq!(found(&[never("a", &["a::high"], "so")]).len(), 3 + 1);
        assert_eq!(found(&[never("a", &["a::high"], "so").but(&["a::low::deep"])]).len(), 1 + 1);
        assert!(found(&[never("a::high", &["a::high"], "so")]).is_empty());
    }

    #[test]
    fn what_stands_side_by_side_stays_apart() {
        let why = "the parts of a::low name each other never: so";
        assert_eq!(
            found(&[apart("a::low", "so")]),
            [format!("a/src/low/deep.rs:3: names super::flat::Flat of a/src/low/flat.rs; {why}")]
        );
        assert!(found(&[apart("a::low", "so").but(&["a::low::flat"])]).is_empty());
        assert!(found(&[apart("a::high", "so")]).is_empty());
    }

    #[test]
    fn what_has_been_re_exported_is_named_too() {
        let files = [
            ("a/src/lib.rs", "mod x;\n"),
            ("a/src/x.rs", "use b::Item;\n"),
            ("b/src/lib.rs", "pub use c::Item;\n"),
            ("c/src/lib.rs", "pub struct Item;\n"),
        ];
        let count = |rule: Rule| broken(&graph(&files), &[rule]).len();
        assert_eq!([count(never("a", &["b"], "so")), count(never("a", &["c"], "so"))], [1, 1]);
    }

    #[test]
    fn a_name_that_no_module_has_is_an_error() {
        let error = |rule: &str, name: &str| {
            [format!("xtask/src/tidy/rooms.rs:1: a rule of {rule} names {name}, which is no module")]
        };
        assert_eq!(found(&[never("a::lower", &["a::high"], "so")]), error("a::lower", "a::lower"));
        assert_eq!(found(&[never("a::low", &["a::higher"], "so")]), error("a::low", "a::higher"));
        assert_eq!(found(&[apart("a::low", "so").but(&["c"])]), error("a::low", "c"));
    }

    #[test]
    fn a_circle_is_told_with_its_lines() {
        let files = [
            ("a/src/lib.rs", "mod b;\nmod c;\n"),
            ("a/src/b.rs", "use crate::c::C;\n"),
            ("a/src/c.rs", "use crate::b::B;\n"),
            ("d/src/lib.rs", ""),
        ];
        let graph = graph(&files);
        let violations = circles_of(&graph);
        assert_eq!(violations.len(), 1);
        assert!(violations[0].to_string().starts_with("a/src/b.rs:1: a circle of imports among 2 files:\n"));
    }
}
