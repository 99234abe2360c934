//! Renders FLCC's CUDA sources: [`render`] turns a [`Matrix`] of kernels into the text of files.
//!
//! It is pure. It never reads or writes a disk, never calls CUDA, and knows nothing of the runtime: the templates are
//! part of this crate, `cargo xtask gen` writes what comes out. Logic stands here, shape stands in `templates/cuda`.
#![forbid(unsafe_code)]

pub mod banner;
mod context;
pub mod matrix;
mod registry;
mod templates;
mod words;

pub use matrix::{Kernel, Matrix, Op};
pub use templates::{TEMPLATES, Template};

use templates::WHOLE;

/// A file of the crate flcc-generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Its path below the folder `generated`, with `/`.
    pub path: String,
    /// All of it.
    pub text: String,
}

/// Why a matrix could not be rendered: a mistake in a template or in the matrix.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// Tera refused a template.
    #[error("template: {0}")]
    Template(#[from] tera::Error),
    /// Two kernels of one name.
    #[error("kernel name: expected each once, got {0} twice")]
    Duplicate(String),
}

/// The files of all kernels of `matrix`, those that are the same for every matrix, and the registry, sorted by path.
/// The same matrix gives the same bytes.
///
/// # Errors
///
/// A template that does not parse or names an unknown value; a kernel name that comes twice.
pub fn render(matrix: &Matrix) -> Result<Vec<File>, RenderError> {
    let mut engine = tera::Tera::new();
    engine.autoescape_on([""; 0]);
    engine.add_raw_templates(TEMPLATES.map(|template| (template.name, template.text)))?;

    let mut kernels: Vec<&Kernel> = matrix.kernels.iter().collect();
    kernels.sort_by_cached_key(|kernel| kernel.name());
    if let Some(pair) = kernels.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        return Err(RenderError::Duplicate(pair[0].name()));
    }
    let mut files = Vec::with_capacity(kernels.len() + WHOLE.len() + 1);
    for kernel in &kernels {
        let Some(template) = kernel.template() else { continue };
        let text = engine.render(template, &context::of(kernel)?)?;
        files.push(File { path: format!("cuda/{}.cu", kernel.name()), text: tidy(&text) });
    }
    for name in WHOLE {
        let mut context = tera::Context::new();
        context.insert("banner", &banner::of(name));
        files.push(File {
            path: format!("cuda/{}", name.trim_end_matches(".tera")),
            text: tidy(&engine.render(name, &context)?),
        });
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files.push(File { path: "src/registry.rs".into(), text: registry::text(&kernels) });
    Ok(files)
}

/// No blank at a line's end, one newline at the text's end, never two empty lines in a row.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines().map(str::trim_end) {
        if !(line.is_empty() && (out.is_empty() || out.ends_with("\n\n"))) {
            out.push_str(line);
            out.push('\n');
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_its_file_and_its_row() {
        let matrix = Matrix::committed();
        let files = render(&matrix).unwrap();
        let own = matrix.kernels.iter().filter(|kernel| kernel.template().is_some()).count();
        assert_eq!(files.len(), own + WHOLE.len() + 1);
        assert!(["cuda/pipeline.cu", "cuda/zncc.cu"].iter().all(|path| files.iter().any(|file| file.path == *path)));
        let registry = &files.last().unwrap().text;
        for kernel in &matrix.kernels {
            let name = kernel.name();
            let text = |file: &String| &files.iter().find(|other| other.path == format!("cuda/{file}")).unwrap().text;
            assert!(
                kernel.files().iter().any(|file| text(file).contains(&format!(" {}(", kernel.function()))),
                "{name}"
            );
            assert!(registry.contains(&format!("name: {name:?}")), "{name}");
        }
    }

    #[test]
    fn the_same_matrix_gives_the_same_bytes_in_any_order() {
        let matrix = Matrix::committed();
        let mut turned = matrix.clone();
        turned.kernels.reverse();
        assert_eq!(render(&matrix).unwrap(), render(&turned).unwrap());
    }

    #[test]
    fn a_name_that_comes_twice_is_an_error() {
        let mut matrix = Matrix::committed();
        matrix.kernels.push(matrix.kernels[0].clone());
        assert!(matches!(render(&matrix), Err(RenderError::Duplicate(name)) if name == matrix.kernels[0].name()));
    }

    #[test]
    fn text_is_tidied() {
        assert_eq!(tidy("\n\na  \n\n\n\nb\n\n"), "a\n\nb\n");
    }
}
