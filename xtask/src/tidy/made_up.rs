//! Small crates that tests make up.

use super::graph::Graph;
use super::violation::Source;

/// The sources of crates: each file's path and text, a manifest for each folder before `/src/`, named as that is.
pub fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let source = |path: &str, text: String| Source { path: path.into(), text };
    let mut folders: Vec<&str> = files.iter().filter_map(|(path, _)| Some(path.split_once("/src/")?.0)).collect();
    folders.dedup();
    let manifests =
        folders.iter().map(|name| source(&format!("{name}/Cargo.toml"), format!("[package]\nname = \"{name}\"\n")));
    manifests.chain(files.iter().map(|(path, text)| source(path, text.to_string()))).collect()
}

/// The graph of made-up modules.
pub fn graph(files: &[(&str, &str)]) -> Graph {
    Graph::of(&sources(files))
}
