//! Which file names which: the modules of every crate of the workspace, and what their imports and paths lead to.
//!
//! A path leads to the file of the deepest module that it names; where that file imports the name, to the file that the
//! import leads to. Modules and code for tests alone are left out, and so is all that a macro of a crate writes into
//! another. A declaration `mod child;` is no edge.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use toml::{Table, Value};

use super::modules::{self, Brings, Module, Named};
use super::violation::{Source, Violation};

/// How many imports a name is followed through.
const STEPS: usize = 16;

/// Every crate's modules, and the edges between their files.
#[derive(Default)]
pub struct Graph {
    /// Paths of the files, in order of crates and modules.
    pub files: Vec<String>,
    /// The modules, each behind its parent.
    pub modules: Vec<Node>,
    /// What names what.
    pub edges: Vec<Edge>,
    /// The roots: the crate's name and its module.
    pub roots: Vec<(String, usize)>,
    /// What could not be read.
    pub broken: Vec<Violation>,
    /// The roots that other crates can import.
    libraries: BTreeMap<String, usize>,
}

/// A module of a crate, as a node of the graph of imports.
pub struct Node {
    /// What it is declared in.
    pub parent: Option<usize>,
    /// Its file, an index of [`Graph::files`].
    pub file: usize,
    root: usize,
    children: BTreeMap<String, usize>,
    names: BTreeMap<String, Vec<String>>,
    all_of: Vec<Vec<String>>,
    macros: BTreeMap<String, usize>,
    text: Module,
}

/// A module that names something of another file.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The module that names.
    pub from: usize,
    /// The module that defines what is named.
    pub to: usize,
    /// The modules whose imports were followed, the first first.
    pub through: Vec<usize>,
    /// Where it is named.
    pub line: usize,
    /// What is named, as it stands there.
    pub path: String,
}

/// Where a path leads.
struct Place {
    module: usize,
    /// The path ends with the module.
    whole: bool,
    through: Vec<usize>,
}

impl Graph {
    /// The graph of all crates whose manifests are among `sources`.
    pub fn of(sources: &[Source]) -> Graph {
        let texts = sources.iter().map(|source| (source.path.as_str(), source)).collect();
        let mut reader = Reader { texts, graph: Graph::default() };
        for manifest in sources.iter().filter(|source| source.path.ends_with("/Cargo.toml")) {
            reader.targets(manifest);
        }
        let mut graph = reader.graph;
        for module in 0..graph.modules.len() {
            let edges = graph.edges_of(module);
            graph.edges.extend(edges);
        }
        graph
    }

    /// The file of a module.
    pub fn path(&self, module: usize) -> &str {
        &self.files[self.modules[module].file]
    }

    /// The module that a path from a crate's name on leads to.
    pub fn module(&self, path: &str) -> Option<usize> {
        let mut names = path.split("::");
        let root = names.next()?;
        let begin = self.roots.iter().find(|(name, _)| name == root)?.1;
        names.try_fold(begin, |module, name| self.modules[module].children.get(name).copied())
    }

    /// The module right below `room` that another is or lies in.
    pub fn part_of(&self, module: usize, room: usize) -> Option<usize> {
        let up = |module: &usize| self.modules[*module].parent;
        std::iter::successors(Some(module), up).find(|part| self.modules[*part].parent == Some(room))
    }

    /// Whether a module is another or lies below it.
    pub fn is_within(&self, module: usize, room: usize) -> bool {
        let up = |module: &usize| self.modules[*module].parent;
        std::iter::successors(Some(module), up).any(|above| above == room)
    }

    /// The edges of a module to those of other files.
    fn edges_of(&self, from: usize) -> Vec<Edge> {
        let node = &self.modules[from];
        let own = self.modules.iter().filter(|other| other.file == node.file);
        let begins: BTreeSet<&str> = own.flat_map(|other| &other.text.paths).map(|path| &*path.names[0]).collect();
        let mut edges = Vec::new();
        let mut add = |named: &Named, place: Option<Place>, all: bool| {
            let Some(place) = place.filter(|place| self.modules[place.module].file != node.file) else { return };
            edges.push(Edge {
                from,
                to: place.module,
                through: place.through,
                line: named.line,
                path: format!("{}{}", named.names.join("::"), if all { "::*" } else { "" }),
            });
        };
        for import in &node.text.imports {
            let place = self.resolve(from, &import.of.names, STEPS);
            // A module with children that is imported by name may serve as a way to them; then the paths tell.
            let way = match (&import.brings, &place) {
                (Brings::Name(name), Some(place)) => {
                    place.whole && !self.modules[place.module].children.is_empty() && begins.contains(name.as_str())
                }
                _ => false,
            };
            if !way {
                add(&import.of, place, import.brings == Brings::All);
            }
        }
        // What begins with an imported item is told by its import.
        let told = |name: &String| {
            let place = node.names.get(name).and_then(|of| self.resolve(from, of, STEPS));
            place.is_some_and(|place| !place.whole)
        };
        for path in node.text.paths.iter().filter(|path| !told(&path.names[0])) {
            add(path, self.resolve(from, &path.names, STEPS), false);
        }
        edges
    }

    /// Where a path in a module leads; `None`: to no crate of ours.
    fn resolve(&self, from: usize, names: &[String], steps: usize) -> Option<Place> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = names.split_first()?;
        match first.as_str() {
            "crate" => self.walk(self.modules[from].root, rest, steps),
            "self" => self.walk(from, rest, steps),
            "super" => self.walk(self.modules[from].parent?, rest, steps),
            name => {
                if let Some(child) = self.modules[from].children.get(name) {
                    return self.walk(*child, rest, steps);
                }
                if let Some(followed) = self.follow(from, names, steps) {
                    // What the module itself imports is no way through another.
                    return followed.map(|mut place| {
                        place.through.retain(|module| self.modules[*module].file != self.modules[from].file);
                        place
                    });
                }
                self.walk(*self.libraries.get(name)?, rest, steps)
            }
        }
    }

    /// Where a path leads that goes on in a module.
    fn walk(&self, mut module: usize, names: &[String], steps: usize) -> Option<Place> {
        let mut rest = names;
        while let Some((name, tail)) = rest.split_first() {
            let node = &self.modules[module];
            match (name.as_str(), node.children.get(name)) {
                ("super", _) => module = node.parent?,
                ("self", _) => {}
                (_, Some(child)) => module = *child,
                _ => {
                    if let Some(followed) = self.follow(module, rest, steps) {
                        return followed;
                    }
                    let module = node.macros.get(name).copied().unwrap_or(module);
                    return Some(Place { module, whole: false, through: Vec::new() });
                }
            }
            rest = tail;
        }
        Some(Place { module, whole: true, through: Vec::new() })
    }

    /// Where a path leads whose first name a module imports; `None`: it does not.
    fn follow(&self, module: usize, names: &[String], steps: usize) -> Option<Option<Place>> {
        let steps = steps.checked_sub(1)?;
        let (name, rest) = names.split_first()?;
        let node = &self.modules[module];
        if node.text.items.contains(name) {
            return None;
        }
        let whole = match node.names.get(name) {
            // `use name;` says that there is a crate of that name, or exports a macro.
            Some(of) if of.len() == 1 && of[0] == *name => return None,
            Some(of) => [of.as_slice(), rest].concat(),
            None => {
                let holds = |of: &&Vec<String>| {
                    let place = self.resolve(module, of, steps).filter(|place| place.whole);
                    place.is_some_and(|place| {
                        let node = &self.modules[place.module];
                        place.module != module
                            && (node.children.contains_key(name)
                                || node.names.contains_key(name)
                                || node.text.items.contains(name))
                    })
                };
                [node.all_of.iter().find(holds)?.as_slice(), names].concat()
            }
        };
        Some(self.resolve(module, &whole, steps).map(|mut place| {
            place.through.insert(0, module);
            place
        }))
    }
}

/// What reads the modules of crates.
struct Reader<'a> {
    texts: BTreeMap<&'a str, &'a Source>,
    graph: Graph,
}

impl Reader<'_> {
    /// Reads the crates of a manifest.
    fn targets(&mut self, manifest: &Source) {
        let (folder, _) = manifest.path.rsplit_once('/').unwrap_or(("", ""));
        // What is no TOML is told by the rule of edges between crates.
        let table = manifest.text.parse::<Table>().unwrap_or_default();
        let word = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).map(String::from);
        let Some(package) = table.get("package").and_then(|package| word(package, "name")) else { return };
        let library = table.get("lib");
        let name = library.and_then(|library| word(library, "name")).unwrap_or(package.clone()).replace('-', "_");
        let path = library.and_then(|library| word(library, "path")).unwrap_or("src/lib.rs".into());
        let mut all = vec![(name, joined(folder, &path), true)];
        for program in table.get("bin").and_then(Value::as_array).into_iter().flatten() {
            let name = word(program, "name").unwrap_or_default();
            let path = word(program, "path").unwrap_or_else(|| format!("src/bin/{name}.rs"));
            all.push((name, joined(folder, &path), false));
        }
        all.push((package, format!("{folder}/src/main.rs"), false));
        let mut seen = BTreeSet::new();
        for (name, path, library) in all {
            if self.texts.contains_key(path.as_str()) && seen.insert(path.clone()) {
                let root = self.graph.modules.len();
                if library {
                    self.graph.libraries.insert(name.clone(), root);
                }
                self.graph.roots.push((name.clone(), root));
                self.file(&name, &path, None);
            }
        }
    }

    /// Reads a file and what lies below it.
    fn file(&mut self, name: &str, path: &str, parent: Option<usize>) {
        let Some(source) = self.texts.get(path) else { return };
        let text = modules::parse(&source.text);
        let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = last.trim_end_matches(".rs");
        let below = if parent.is_none() || stem == "mod" { folder.to_string() } else { format!("{folder}/{stem}") };
        let file = self.graph.files.len();
        self.graph.files.push(path.to_string());
        self.module(name, text, parent, file, [folder, &below]);
    }

    /// Takes in a module. `folders`: where its file lies, and where its children's do.
    fn module(&mut self, name: &str, mut text: Module, parent: Option<usize>, file: usize, folders: [&str; 2]) {
        let modules = &mut self.graph.modules;
        let at = modules.len();
        let root = parent.map_or(at, |parent| modules[parent].root);
        let (mut names, mut all_of) = (BTreeMap::new(), Vec::new());
        for import in &text.imports {
            match &import.brings {
                Brings::Name(name) => {
                    names.entry(name.clone()).or_insert_with(|| import.of.names.clone());
                }
                Brings::All => all_of.push(import.of.names.clone()),
                Brings::Nothing => {}
            }
        }
        let (inline, children, macros) = (take(&mut text.inline), take(&mut text.files), take(&mut text.macros));
        let (children_of, macros_of) = Default::default();
        modules.push(Node { parent, file, root, children: children_of, names, all_of, macros: macros_of, text });
        modules[root].macros.extend(macros.into_iter().map(|name| (name, at)));
        if let Some(parent) = parent {
            modules[parent].children.entry(name.to_string()).or_insert(at);
        }
        let [folder, below] = folders;
        for (name, inner) in inline {
            let below = format!("{below}/{name}");
            self.module(&name, inner, Some(at), file, [&below, &below]);
        }
        for child in children {
            let tries = match &child.path {
                Some(path) => vec![joined(folder, path)],
                None => vec![format!("{below}/{}.rs", child.name), format!("{below}/{}/mod.rs", child.name)],
            };
            match tries.iter().find(|path| self.texts.contains_key(path.as_str())) {
                Some(path) => self.file(&child.name, path, Some(at)),
                None => self.graph.broken.push(Violation {
                    path: self.graph.files[file].clone(),
                    line: child.line,
                    what: format!("mod {}: expected {}, got no such file", child.name, tries.join(" or ")),
                }),
            }
        }
    }
}

/// A path from a folder on, its `..` taken back.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::made_up::graph;

    /// The edges of made-up files, each as `from -> to: line path`, without the folder `a/src/`.
    fn edges(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(String, &str)> = files.iter().map(|(path, text)| (format!("a/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let graph = graph(&files);
        assert!(graph.broken.is_empty(), "{:?}", graph.broken);
        let short = |module: usize| graph.path(module).trim_start_matches("a/src/").trim_end_matches(".rs").to_string();
        let text =
            |edge: &super::Edge| format!("{} -> {}: {} {}", short(edge.from), short(edge.to), edge.line, edge.path);
        graph.edges.iter().map(text).collect()
    }

    #[test]
    fn nested_imports_are_taken_apart() {
        let lib = ("lib.rs", "mod b;\nmod c;\nmod d;\n");
        let b = ("b.rs", "use crate::{\n    c::{self, C, inner::Deep as D},\n    d::*,\n};\nuse std::fmt;\n");
        let c = ("c.rs", "pub mod inner;\npub struct C;\n");
        assert_eq!(
            edges(&[lib, b, c, ("c/inner.rs", "pub struct Deep;\n"), ("d.rs", "")]),
            [
                "b -> c: 2 crate::c",
                "b -> c: 2 crate::c::C",
                "b -> c/inner: 2 crate::c::inner::Deep",
                "b -> d: 3 crate::d::*"
            ]
        );
    }

    #[test]
    fn supers_lead_upward() {
        let lib = ("lib.rs", "mod room;\nmod other;\n");
        let room = ("room/mod.rs", "mod child;\npub struct Own;\nmod cells { use super::super::other::X; }\n");
        let child = ("room/child.rs", "use super::Own;\nfn f() { super::super::other::g(); self::h() }\nfn h() {}\n");
        assert_eq!(
            edges(&[lib, room, child, ("other.rs", "")]),
            [
                "room/mod -> other: 3 super::super::other::X",
                "room/child -> room/mod: 1 super::Own",
                "room/child -> other: 2 super::super::other::g",
            ]
        );
    }

    #[test]
    fn a_parent_names_a_child_where_it_uses_it() {
        let lib = ("lib.rs", "mod child;\nmod idle;\nfn f() -> u8 { child::g() + x.child::<u8>() }\n");
        assert_eq!(edges(&[lib, ("child.rs", ""), ("idle.rs", "")]), ["lib -> child: 3 child::g"]);
    }

    #[test]
    fn a_module_that_is_imported_is_a_way_to_its_children() {
        let lib = ("lib.rs", "mod room;\nmod b;\nmod c;\n");
        let b = ("b.rs", "use crate::room;\nfn f() { room::child::g() }\n");
        let c = ("c.rs", "use crate::room as r;\nfn f() { 0..r::LAST }\n");
        assert_eq!(
            edges(&[lib, ("room.rs", "pub mod child;\n"), ("room/child.rs", ""), b, c]),
            ["b -> room/child: 2 room::child::g", "c -> room: 2 r::LAST"]
        );
    }

    #[test]
    fn re_exports_are_followed() {
        let lib = ("lib.rs", "mod b;\nmod c;\nmod d;\npub use c::C;\npub use d::*;\npub struct Own;\n");
        let b = ("b.rs", "use crate::{C, D, Own};\n");
        let c = ("c.rs", "pub struct C;\n");
        let d = ("d.rs", "pub struct D;\n#[macro_export]\nmacro_rules! each { () => { $crate::C } }\n");
        let e = ("c/e.rs", "crate::each!();\n");
        assert_eq!(
            edges(&[lib, b, ("c.rs", &format!("mod e;\n{}", c.1)), d, e]),
            [
                "lib -> c: 4 c::C",
                "lib -> d: 5 d::*",
                "b -> c: 1 crate::C",
                "b -> d: 1 crate::D",
                "b -> lib: 1 crate::Own",
                "c/e -> d: 1 crate::each",
                "d -> c: 3 crate::C",
            ]
        );
    }

    #[test]
    fn other_crates_are_followed_into() {
        let graph = graph(&[
            ("a/src/lib.rs", "pub use b_c::room::Item;\nmod x;\nmod y;\n"),
            ("a/src/x.rs", "use b_c::Whole;\n"),
            ("a/src/y.rs", "use crate::Item;\nfn f() { std::mem::take(); }\n"),
            ("b-c/src/lib.rs", "pub mod room;\npub struct Whole;\n"),
            ("b-c/src/room.rs", "pub struct Item;\n"),
        ]);
        let short: Vec<[&str; 2]> =
            graph.edges.iter().map(|edge| [edge.from, edge.to].map(|at| graph.path(at))).collect();
        assert_eq!(
            short,
            [["a/src/lib.rs", "b-c/src/room.rs"], ["a/src/x.rs", "b-c/src/lib.rs"], ["a/src/y.rs", "b-c/src/room.rs"],]
        );
        assert_eq!(graph.path(graph.edges[2].through[0]), "a/src/lib.rs");
        assert_eq!(graph.module("b_c::room").map(|room| graph.path(room)), Some("b-c/src/room.rs"));
        assert_eq!(graph.module("b_c::rooms"), None);
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        let lib = ("lib.rs", "//! [`b`](crate::b::B)\nmod b;\nmod c;\n");
        let c = "/// See [`crate::b::B`].\n// use crate::b::B;\n/* crate::b::f() /* use crate::b; */ */\n\
                 const A: &str = \"use crate::b::B; \\\" crate::b::f()\";\n\
                 const B: &str = r#\"use crate::b::B; \" crate::b::f()\"#;\n\
                 #[doc = \"crate::b\"]\nfn f<'a>(c: &'a char) -> &'static str { '\"'; '\\''; crate::b::g() }\n";
        assert_eq!(edges(&[lib, ("b.rs", ""), ("c.rs", c)]), ["c -> b: 7 crate::b::g"]);
    }

    #[test]
    fn tests_are_left_out() {
        let lib = ("lib.rs", "mod b;\nmod c;\n#[cfg(all(test, unix))]\nmod only;\n");
        let c = "#[cfg(test)]\nuse crate::b::A;\n\
                 #[cfg(test)]\n#[must_use]\npub(crate) fn f(a: [u8; 2], b: u8) -> u8 { crate::b::f(); 1 }\n\
                 struct S { #[cfg(test)] b: crate::b::B, c: crate::b::C }\n\
                 #[cfg(test)]\nconst fn g() { crate::b::g() }\n\
                 #[cfg(test)]\nconst H: [u8; 2] = { crate::b::H };\n\
                 #[cfg(not(test))]\nuse crate::b::I;\n#[cfg(any(test, unix))]\nuse crate::b::J;\n\
                 #[cfg(test)]\nmod tests { use super::*; use crate::b::K; }\nuse crate::b::L;\n";
        assert_eq!(
            edges(&[lib, ("b.rs", ""), ("c.rs", c), ("only.rs", "use crate::b::B;\n")]),
            ["12 crate::b::I", "14 crate::b::J", "17 crate::b::L", "6 crate::b::C"]
                .map(|named| format!("c -> b: {named}"))
        );
    }

    #[test]
    fn macros_name_for_the_crate_they_stand_in() {
        let lib = ("lib.rs", "mod b;\nmod c;\n");
        let c = "fn f() { quote! { crate::b::A; #x }; }\n\
                 macro_rules! m { ($n:ident) => { mod $n { use super::super::b::$n; pub(in crate::b) fn g() {} } } }\n\
                 fn g() { $crate::b::B; $n::b::C; <u8 as crate::b::T>::x(); Vec::<crate::b::U>::new() }\n";
        assert_eq!(
            edges(&[lib, ("b.rs", ""), ("c.rs", c)]),
            ["c -> b: 3 crate::b::B", "c -> b: 3 crate::b::T", "c -> b: 3 crate::b::U", "c -> b: 2 super::super::b"]
        );
    }

    #[test]
    fn a_path_attribute_says_where_a_file_is() {
        let lib = ("lib.rs", "#[path = \"sub/../extra/b.rs\"]\npub(crate) mod b;\nmod c;\n");
        assert_eq!(edges(&[lib, ("extra/b.rs", ""), ("c.rs", "use crate::b::B;\n")]), ["c -> extra/b: 1 crate::b::B"]);
    }

    #[test]
    fn a_module_without_its_file_is_told() {
        let graph = graph(&[("a/src/lib.rs", "mod b;\n")]);
        let told: Vec<String> = graph.broken.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["a/src/lib.rs:1: mod b: expected a/src/b.rs or a/src/b/mod.rs, got no such file"]);
    }
}
