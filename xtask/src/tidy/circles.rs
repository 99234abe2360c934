//! Circles of imports: files that name each other, one after another and back to the first.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::graph::{Edge, Graph};

/// Files that all lead to each other.
#[derive(Debug)]
pub struct Circle {
    /// All of them.
    pub files: Vec<usize>,
    /// A shortest way round among them, the first not repeated.
    pub way: Vec<usize>,
}

/// What each file names: for every file, the edges to it.
type Named<'a> = BTreeMap<usize, BTreeMap<usize, Vec<&'a Edge>>>;

fn named(graph: &Graph) -> Named<'_> {
    let mut named = Named::new();
    for edge in &graph.edges {
        let [from, to] = [edge.from, edge.to].map(|module| graph.modules[module].file);
        named.entry(from).or_default().entry(to).or_default().push(edge);
    }
    named
}

/// All circles, each by its own files.
pub fn of(graph: &Graph) -> Vec<Circle> {
    let named = named(graph);
    let next = |file: usize| named.get(&file).into_iter().flat_map(BTreeMap::keys).copied();
    let reached: Vec<BTreeSet<usize>> = (0..graph.files.len())
        .map(|begin| {
            let (mut seen, mut left) = (BTreeSet::new(), vec![begin]);
            while let Some(file) = left.pop() {
                left.extend(next(file).filter(|next| seen.insert(*next)));
            }
            seen
        })
        .collect();
    let mut done: BTreeSet<usize> = BTreeSet::new();
    let mut circles = Vec::new();
    for first in 0..graph.files.len() {
        if done.contains(&first) || !reached[first].contains(&first) {
            continue;
        }
        let files: Vec<usize> =
            reached[first].iter().copied().filter(|other| reached[*other].contains(&first)).collect();
        done.extend(files.iter().copied());
        let ways = files.iter().filter_map(|begin| way_back(*begin, next));
        let way = ways.min_by_key(Vec::len).unwrap_or_default();
        circles.push(Circle { files, way });
    }
    circles
}

/// A shortest way from a file back to it.
fn way_back<I: Iterator<Item = usize>>(begin: usize, next: impl Fn(usize) -> I) -> Option<Vec<usize>> {
    let (mut before, mut left) = (BTreeMap::new(), VecDeque::from([begin]));
    while let Some(file) = left.pop_front() {
        for next in next(file) {
            if next == begin {
                let mut way: Vec<usize> = std::iter::successors(Some(file), |at| before.get(at).copied()).collect();
                way.reverse();
                return Some(way);
            }
            before.entry(next).or_insert_with(|| {
                left.push_back(next);
                file
            });
        }
    }
    None
}

impl Circle {
    /// What it is, then a line for each step of the shortest way round: who names whom, and each name with its line.
    pub fn text(&self, graph: &Graph) -> String {
        let named = named(graph);
        let mut text = format!("a circle of imports among {} files", self.files.len());
        if self.files.len() > self.way.len() {
            let all: Vec<&str> = self.files.iter().map(|file| graph.files[*file].as_str()).collect();
            text.push_str(&format!(", {}; the shortest way round", all.join(" ")));
        }
        text.push(':');
        for (at, from) in self.way.iter().enumerate() {
            let to = self.way[(at + 1) % self.way.len()];
            let mut names = Vec::new();
            for edge in &named[from][&to] {
                let name = format!("{} (line {})", edge.path, edge.line);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            text.push_str(&format!("\n    {} names {}: {}", graph.files[*from], graph.files[to], names.join(", ")));
        }
        text
    }

    /// Where the first step of the shortest way round is named.
    pub fn line(&self, graph: &Graph) -> usize {
        let (from, to) = (self.way[0], self.way[1 % self.way.len()]);
        named(graph)[&from][&to].iter().map(|edge| edge.line).min().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::graph;
    use super::*;

    #[test]
    fn a_circle_is_told_with_what_ties_it() {
        let graph = graph(&[
            ("a/src/lib.rs", "mod b;\nmod c;\nmod d;\nmod e;\n"),
            ("a/src/b.rs", "use crate::c::C;\nuse crate::d::D;\n"),
            ("a/src/c.rs", "use crate::d::{D, F};\n"),
            ("a/src/d.rs", "\nfn f() { crate::e::g(); crate::b::g() }\n"),
            ("a/src/e.rs", "use std::fmt;\n"),
        ]);
        let circles = of(&graph);
        assert_eq!(circles.len(), 1);
        assert_eq!(
            circles[0].text(&graph),
            "a circle of imports among 3 files, a/src/b.rs a/src/c.rs a/src/d.rs; the shortest way round:\n    \
             a/src/b.rs names a/src/d.rs: crate::d::D (line 2)\n    \
             a/src/d.rs names a/src/b.rs: crate::b::g (line 2)"
        );
        assert_eq!(circles[0].line(&graph), 2);
    }

    #[test]
    fn a_parent_and_its_child_make_a_circle() {
        let lib = ("a/src/lib.rs", "mod b;\n");
        let child = ("a/src/b/c.rs", "use super::B;\n");
        let count = |parent: &str| of(&graph(&[lib, ("a/src/b.rs", parent), child])).len();
        assert_eq!(count("mod c;\npub struct B;\n"), 0);
        assert_eq!(count("mod c;\npub struct B;\npub use c::C;\n"), 1);
        assert_eq!(count("mod c;\npub struct B;\n#[cfg(test)]\nmod tests { use super::c::C; }\n"), 0);
    }

    #[test]
    fn every_circle_is_told_once() {
        let graph = graph(&[
            ("a/src/lib.rs", "mod b;\nmod c;\nmod d;\nmod e;\n"),
            ("a/src/b.rs", "use crate::c::C;\nuse crate::d::D;\n"),
            ("a/src/c.rs", "use crate::b::B;\n"),
            ("a/src/d.rs", "use crate::e::E;\n"),
            ("a/src/e.rs", "use crate::d::D;\n"),
        ]);
        let files: Vec<Vec<&str>> =
            of(&graph).iter().map(|circle| circle.files.iter().map(|file| &*graph.files[*file]).collect()).collect();
        assert_eq!(files, [["a/src/b.rs", "a/src/c.rs"], ["a/src/d.rs", "a/src/e.rs"]]);
    }
}
