//! Who imports whom, read from every Cargo.toml, and what the data crate may hold.

use toml::{Table, Value};

use super::violation::{Source, Violation};

/// What a crate of ours may depend on, whatever the kind of dependency.
struct Edges {
    name: &'static str,
    /// Crates of ours.
    ours: &'static [&'static str],
    /// Crates of others that it must not name; `*`: any.
    never: &'static [&'static str],
}

const EDGES: &[Edges] = &[
    Edges { name: "flcc-core", ours: &[], never: &["rayon", "cudarc", "tera"] },
    Edges { name: "flcc-macros", ours: &["flcc-core"], never: &["rayon", "cudarc", "tera"] },
    Edges { name: "flcc-codegen", ours: &["flcc-core"], never: &["rayon", "cudarc", "libloading"] },
    Edges { name: "flcc-generated", ours: &["flcc-macros"], never: &["*"] },
    Edges { name: "flcc-runtime", ours: &["flcc-core", "flcc-macros", "flcc-generated"], never: &["tera"] },
    Edges { name: "flcc-cli", ours: &["flcc-core", "flcc-runtime"], never: &["rayon", "tera"] },
    Edges { name: "flcc-capi", ours: &["flcc-core", "flcc-runtime"], never: &["rayon", "tera"] },
    Edges { name: "flcc-py", ours: &["flcc-core", "flcc-runtime"], never: &["rayon", "tera"] },
    Edges { name: "flcc-benches", ours: &["flcc-core", "flcc-runtime"], never: &["tera"] },
    Edges { name: "xtask", ours: &["flcc-core", "flcc-codegen"], never: &["cudarc"] },
];

/// Checks the manifests among `sources`.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    sources
        .iter()
        .filter(|source| source.path == "Cargo.toml" || source.path.ends_with("/Cargo.toml"))
        .flat_map(manifest)
        .collect()
}

fn manifest(source: &Source) -> Vec<Violation> {
    let table = match source.text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => return vec![Violation::new(source, 1, format!("not TOML: {}", error.message()))],
    };
    let Some(name) = table.get("package").and_then(|package| package.get("name")).and_then(Value::as_str) else {
        return Vec::new(); // the workspace
    };
    let Some(edges) = EDGES.iter().find(|edges| edges.name == name) else {
        return vec![Violation::new(source, 1, format!("crate {name} has no row in xtask's table of edges"))];
    };
    let mut violations = Vec::new();
    for dependency in dependencies(&table) {
        let line = line_of(&source.text, &dependency);
        let ours = dependency.starts_with("flcc") || dependency == "xtask";
        if ours && !edges.ours.contains(&dependency.as_str()) {
            violations.push(Violation::new(source, line, format!("{name} must not import {dependency}")));
        }
        if !ours && edges.never.iter().any(|never| *never == "*" || *never == dependency) {
            violations.push(Violation::new(source, line, format!("{name} must not depend on {dependency}")));
        }
    }
    violations
}

/// The packages named in every table of dependencies, those under `target` too; renamed ones by their own name.
fn dependencies(table: &Table) -> Vec<String> {
    let mut names = Vec::new();
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (key, value) in table.get(kind).and_then(Value::as_table).into_iter().flatten() {
            names.push(value.get("package").and_then(Value::as_str).unwrap_or(key).to_string());
        }
    }
    for platform in
        table.get("target").and_then(Value::as_table).into_iter().flatten().filter_map(|(_, value)| value.as_table())
    {
        names.extend(dependencies(platform));
    }
    names
}

/// The first line that names a dependency.
fn line_of(text: &str, name: &str) -> usize {
    let at = text.lines().position(|line| {
        line.trim_start().trim_start_matches('"').starts_with(name) || line.contains(&format!("\"{name}\""))
    });
    at.map_or(1, |line| line + 1)
}

/// The crate flcc-generated: its manifest, three sources and the rendered kernels; no build script, no other code.
pub fn generated_holds_data(paths: &[String]) -> Vec<Violation> {
    let allowed = |path: &str| {
        matches!(path, "Cargo.toml" | "src/lib.rs" | "src/entry.rs" | "src/registry.rs" | "PROVEN")
            || matches!(path, "LICENSE-MIT" | "LICENSE-APACHE")
            || path.strip_prefix("cuda/").is_some_and(|name| name.ends_with(".cu") && !name.contains('/'))
    };
    let inside = paths.iter().filter_map(|path| path.strip_prefix("generated/").map(|below| (path, below)));
    inside
        .filter(|(_, below)| !allowed(below))
        .map(|(path, _)| Violation { path: path.clone(), line: 1, what: "flcc-generated holds data only".into() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let source = Source { path: "x/Cargo.toml".into(), text: text.into() };
        check(&[source]).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn allowed_edges_pass() {
        assert!(
            found("[package]\nname = \"flcc-macros\"\n[dependencies]\nflcc-core.workspace = true\nsyn = \"2\"\n")
                .is_empty()
        );
        assert!(found("[workspace]\nmembers = []\n[workspace.dependencies]\nflcc-core = \"1\"\n").is_empty());
    }

    #[test]
    fn core_imports_none_of_ours() {
        let text = "[package]\nname = \"flcc-core\"\n[dev-dependencies]\nflcc-runtime.workspace = true\n";
        assert_eq!(found(text), ["x/Cargo.toml:4: flcc-core must not import flcc-runtime"]);
    }

    #[test]
    fn the_runtime_renders_nothing() {
        let text = "[package]\nname = \"flcc-runtime\"\n[target.'cfg(unix)'.dependencies]\n\
                    engine = { package = \"tera\", version = \"2\" }\n";
        assert_eq!(found(text), ["x/Cargo.toml:4: flcc-runtime must not depend on tera"]);
        let text = "[package]\nname = \"flcc-runtime\"\n[build-dependencies]\nflcc-codegen = { path = \"..\" }\n";
        assert_eq!(found(text), ["x/Cargo.toml:4: flcc-runtime must not import flcc-codegen"]);
    }

    #[test]
    fn the_data_crate_depends_on_no_code_of_others() {
        let text = "[package]\nname = \"flcc-generated\"\n[dependencies]\nserde = \"1\"\n";
        assert_eq!(found(text), ["x/Cargo.toml:4: flcc-generated must not depend on serde"]);
    }

    #[test]
    fn xtask_links_neither_runtime_nor_generated() {
        let text = "[package]\nname = \"xtask\"\n[dependencies]\nflcc-generated = \"0.1\"\n";
        assert_eq!(found(text), ["x/Cargo.toml:4: xtask must not import flcc-generated"]);
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        assert_eq!(
            found("[package]\nname = \"flcc-new\"\n"),
            ["x/Cargo.toml:1: crate flcc-new has no row in xtask's table of edges"]
        );
    }

    #[test]
    fn generated_files_are_data() {
        let paths = [
            "generated/src/lib.rs",
            "generated/cuda/a.cu",
            "generated/build.rs",
            "generated/src/more.rs",
            "xtask/src/more.rs",
        ];
        let found: Vec<String> =
            generated_holds_data(&paths.map(String::from)).iter().map(|v| v.path.clone()).collect();
        assert_eq!(found, ["generated/build.rs", "generated/src/more.rs"]);
    }
}
