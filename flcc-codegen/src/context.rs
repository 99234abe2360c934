//! From a kernel to the values its template names. All arithmetic of a rendering is here.

use flcc_core::dtype::DType;
use serde::Serialize;
use tera::Context;

use crate::banner;
use crate::matrix::{CHUNK, Kernel};

/// A stretch of template rows `start..end`, `rows` of them unrolled; `rolled`: as a loop.
#[derive(Debug, PartialEq, Serialize)]
struct Part {
    start: usize,
    end: usize,
    rows: usize,
    rolled: bool,
    lines: Vec<Line>,
}

/// One input row below the patch, and which template rows meet it in which rows of the patch.
#[derive(Debug, PartialEq, Serialize)]
struct Line {
    row: usize,
    pairs: Vec<Pair>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Pair {
    patch: usize,
    tap: usize,
}

/// The context of one kernel.
pub(crate) fn of(kernel: &Kernel) -> Result<Context, tera::Error> {
    let dtype = kernel.key.dtype();
    let [block_h, block_w] = kernel.block();
    let [patch_h, patch_w] = kernel.patch;
    let [height, width] = kernel.sides().unwrap_or([CHUNK, CHUNK]);
    let (c_quad, c_cell, c_acc, c_total, step) = match dtype {
        DType::F32 => ("float4", "float", "float", "float", 4),
        DType::U8 => ("unsigned", "unsigned", "unsigned", "unsigned long long", 1),
        other => return Err(tera::Error::message(format!("no CUDA words for {other}"))),
    };

    let mut context = Context::new();
    context.insert("banner", &banner::of(kernel.template()));
    context.insert("name", &kernel.key.to_string());
    context.insert("dtype", dtype.name());
    context.insert("c_pixel", dtype.row().c_name);
    context.insert("c_quad", c_quad);
    context.insert("c_cell", c_cell);
    context.insert("c_acc", c_acc);
    context.insert("c_total", c_total);
    context.insert("step", &step);
    context.insert("block_h", &block_h);
    context.insert("block_w", &block_w);
    context.insert("patch_h", &patch_h);
    context.insert("patch_w", &patch_w);
    context.insert("window_quads", &window_quads(dtype, width, patch_w));
    context.insert("rows_held", &height);
    context.insert("chunk", &CHUNK);
    if let (Some(rows), Some(stride)) = (kernel.unrolled_rows(), kernel.taps_stride()) {
        context.insert("template_h", &height);
        context.insert("template_w", &width);
        context.insert("taps_cells", &(stride * step / 4));
        context.insert("tap_quads", &tap_quads(width));
        context.insert("parts", &parts(height, rows, patch_h));
        context.insert("unroll_note", &unroll_note(height, rows));
    }
    Ok(context)
}

/// Quads a thread reads of one input row: its patch and the taps beyond it. Words of bytes are shifted in pairs.
fn window_quads(dtype: DType, width: usize, patch_w: usize) -> usize {
    match dtype {
        DType::U8 => width.div_ceil(4) + patch_w / 4,
        _ => (width + patch_w - 1).div_ceil(4),
    }
}

/// How many taps each quad of a row holds: four, and the rest in the last.
fn tap_quads(width: usize) -> Vec<usize> {
    (0..width).step_by(4).map(|first| (width - first).min(4)).collect()
}

/// The whole template as one unrolled part, or a loop over `rows` at a time and what is left behind it.
fn parts(height: usize, rows: usize, patch_h: usize) -> Vec<Part> {
    let looped = height / rows * rows;
    let mut parts = vec![Part { start: 0, end: looped, rows, rolled: looped > rows, lines: lines(rows, patch_h) }];
    if looped < height {
        let rest = height - looped;
        parts.push(Part { start: looped, end: height, rows: rest, rolled: false, lines: lines(rest, patch_h) });
    }
    parts
}

fn lines(rows: usize, patch_h: usize) -> Vec<Line> {
    let pairs = |row: usize| {
        (0..patch_h).filter(move |patch| (*patch..patch + rows).contains(&row)).map(move |patch| Pair { patch, tap: row - patch })
    };
    (0..rows + patch_h - 1).map(|row| Line { row, pairs: pairs(row).collect() }).collect()
}

fn unroll_note(height: usize, rows: usize) -> String {
    if rows == height {
        "All template rows are unrolled.".into()
    } else {
        format!("Template rows are taken in a loop, {rows} unrolled at a time, so that the loop stays in the instruction cache.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_row_meets_every_patch_row_once() {
        for (height, rows, patch_h) in [(7, 7, 4), (11, 2, 4), (32, 1, 4), (5, 2, 8), (2, 2, 1)] {
            let mut met = vec![vec![0; patch_h]; height];
            for part in parts(height, rows, patch_h) {
                for start in (part.start..part.end).step_by(part.rows) {
                    for line in &part.lines {
                        for pair in &line.pairs {
                            assert_eq!(line.row, pair.patch + pair.tap);
                            met[start + pair.tap][pair.patch] += 1;
                        }
                    }
                }
            }
            assert!(met.iter().flatten().all(|count| *count == 1), "{height} {rows} {patch_h}");
        }
    }

    #[test]
    fn a_row_of_taps_is_cut_into_quads() {
        assert_eq!(tap_quads(7), [4, 3]);
        assert_eq!(tap_quads(8), [4, 4]);
        assert_eq!(tap_quads(2), [2]);
    }

    #[test]
    fn a_window_covers_the_taps_of_the_whole_patch() {
        for width in 1..=32 {
            assert!(4 * window_quads(DType::F32, width, 8) >= width + 7);
            assert!(4 * window_quads(DType::U8, width, 4) >= width + 3);
        }
    }
}
