//! From a kernel to the values its template names. All arithmetic of a rendering is here and in words.rs.

use flcc_core::dtype::DType;
use serde::Serialize;
use tera::Context;

use crate::banner;
use crate::matrix::{Kernel, Op};
use crate::words::Words;

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
    let dtype = kernel.dtype;
    let [block_h, block_w] = kernel.block;
    let [patch_h, patch_w] = kernel.patch;
    let listed = kernel.size();
    let [chunk_h, chunk_w] = kernel.chunk();
    let [depth, height, width] = listed.unwrap_or([1, chunk_h, chunk_w]);
    let words = Words::of(dtype).ok_or_else(|| tera::Error::message(format!("no CUDA words for {dtype}")))?;
    let copy = words.copy(patch_w);

    let mut context = Context::new();
    context.insert("banner", &banner::of(kernel.template().unwrap_or_default()));
    context.insert("name", &kernel.name());
    context.insert("op", kernel.op.name());
    context.insert("dtype", dtype.name());
    context.insert("c_pixel", dtype.row().c_name);
    context.insert("c_out", kernel.c_out());
    context.insert("c_cell", words.c_cell);
    context.insert("c_acc", words.c_cell);
    context.insert("c_fma", if dtype == DType::F32 { "fmaf" } else { "fma" });
    context.insert("piece", &words.piece);
    context.insert("piece_cells", &words.piece_cells);
    context.insert("piece_bytes", &words.piece_bytes);
    context.insert("copy", &copy);
    context.insert("copy_bytes", &(copy * words.piece_bytes));
    context.insert("copy_cache", if copy * words.piece_bytes == 16 { "cg" } else { "ca" });
    context.insert("block_h", &block_h);
    context.insert("block_w", &block_w);
    context.insert("patch_h", &patch_h);
    context.insert("patch_w", &patch_w);
    context.insert("listed", &listed.is_some());
    context.insert("tensor", &kernel.op.is_tensor());
    // Left to itself, the compiler spills some f64 kernels for the sake of one more block a multiprocessor.
    context.insert("bounds", if dtype == DType::F64 { "THREADS, 1" } else { "THREADS" });
    context.insert("rows_held", &height);
    context.insert("input_extra", &words.extra(width));
    context.insert("formula", &formula(kernel.op, kernel.sides.len()));
    if kernel.op.is_line() {
        let length = kernel.tile()[1];
        context.insert("length", &length);
        context.insert("outer", &patch_w);
        context.insert("middle", &(length / patch_w / patch_w));
        context.insert("blocks", &if kernel.op == Op::Line4096 { 3 } else { 1 });
    } else if kernel.op.is_pairs() {
        let turn = |at: usize| (std::f64::consts::TAU * at as f64 / block_w as f64).sin_cos();
        // What is 0 but for rounding is 0.
        let word = |value: f64| format!("{:?}f", if value.abs() < 1e-9 { 0.0 } else { value as f32 });
        let turns = (0..block_w).map(turn).map(|(sin, cos)| format!("{{{}, {}}}", word(cos), word(-sin)));
        context.insert("length", &block_w);
        context.insert("groups", &block_h);
        context.insert("rows", &patch_h);
        context.insert("turns", &turns.collect::<Vec<_>>());
        // Of a multiprocessor, as its shared memory has room for.
        context.insert("blocks", &if kernel.op == Op::Pairs64 { 4 } else { 2 });
    } else if kernel.op.is_large() {
        context.insert("length", &kernel.tile()[1]);
        context.insert("values", &patch_w);
        context.insert("lanes", &block_w);
        context.insert("threads", &(block_h * block_w));
        // Of a multiprocessor, as registers allow.
        context.insert("blocks", &2);
    } else if kernel.op == Op::Separable {
        context.insert("real", &(dtype as usize));
        // Of a multiprocessor, as registers allow.
        context.insert("blocks", &2);
    } else if kernel.op.transforms() {
        context.insert("length", &kernel.tile()[0]);
        context.insert("outer_x", &patch_w);
        context.insert("outer_y", &patch_h);
        context.insert("middle_x", &(block_w / patch_w));
        context.insert("middle_y", &(block_h / patch_h));
        // Of a multiprocessor; their registers are what a block of the larger transform takes all of.
        let blocks = match kernel.op {
            Op::Tile64 => 4,
            Op::Zncc64 => 3,
            _ => 1,
        };
        context.insert("blocks", &blocks);
        let volume = matches!(kernel.op, Op::Volume | Op::Zncc32);
        let [length, width] = kernel.tile();
        context.insert("volume", &volume);
        context.insert("samples", &if volume { format!("16x{length}x{width}") } else { format!("{length}x{width}") });
    }
    if kernel.op.is_tensor() {
        // Samples are copied by 4 bytes, the template's table by 16.
        context.insert("copy_bytes", "BYTES");
    }
    if let (Some(rows), Some(stride)) = (kernel.unrolled_rows(), kernel.taps_stride()) {
        context.insert("window_extra", &words.extra(width));
        context.insert("size", &kernel.key().size);
        context.insert("depth", &depth);
        context.insert("height", &height);
        context.insert("width", &width);
        context.insert("taps_cells", &(stride / words.cell));
        context.insert("parts", &parts(height, rows, patch_h));
        context.insert("unroll_note", &unroll_note([depth, height], rows));
        let together = kernel.together().unwrap_or_default();
        context.insert("run", &together.run);
        context.insert("rows_together", &together.rows);
        context.insert("totals", &together.subtotals());
    } else {
        context.insert("run", &kernel.run());
        context.insert("window_extra", &words.extra(patch_w));
        context.insert("title", title(kernel.op));
        context.insert("flat", &(chunk_h == 1));
        context.insert("chunk_h", &chunk_h);
        context.insert("chunk_w", &chunk_w);
        context.insert("c_total", kernel.c_out());
        context.insert("weighted", &(kernel.op != Op::Corr));
        context.insert("outs", if kernel.op == Op::Masked { &["cross", "sum", "square"][..] } else { &["cross"] });
    }
    Ok(context)
}

/// The sum that a kernel makes, with the axes it has; 0: all of them.
fn formula(op: Op, axes: usize) -> String {
    let (place, tap) = match axes {
        1 => ("x", "j"),
        2 => ("y, x", "i, j"),
        _ => ("z, y, x", "d, i, j"),
    };
    let shifted: Vec<String> =
        place.split(", ").zip(tap.split(", ")).map(|(place, tap)| format!("{place} + {tap}")).collect();
    let (p, t) = (format!("samples({})", shifted.join(", ")), format!("taps({tap})"));
    let w = format!("weights({tap})");
    match op {
        Op::Corr
        | Op::Zncc
        | Op::Separable
        | Op::Tile64
        | Op::Tile128
        | Op::Tile256
        | Op::Tile512
        | Op::Tile1024
        | Op::Volume
        | Op::Zncc32
        | Op::Line4096
        | Op::Line16384
        | Op::Pairs64
        | Op::Pairs128
        | Op::Zncc64
        | Op::Zncc128
        | Op::Zncc256
        | Op::Zncc512
        | Op::Zncc1024
        | Op::ZnccMma
        | Op::Whole => {
            format!("cross({place}) = sum of {p} * {t}")
        }
        Op::Sad => format!("cross({place}) = sum of {w} * |{p} - {t}|"),
        Op::Masked => {
            format!("with P = {p},\n// cross = sum of P * {t}, sum = sum of P * {w}, square = sum of P * P * {w}")
        }
    }
}

fn title(op: Op) -> &'static str {
    match op {
        Op::Corr | Op::Zncc => "Direct correlation",
        Op::Separable => "Correlation by products of lines",
        Op::ZnccMma => "Correlation on tensor cores",
        Op::Sad => "Absolute differences",
        Op::Masked => "Masked correlation and window sums",
        _ => "Correlation by transforms",
    }
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
        (0..patch_h)
            .filter(move |patch| (*patch..patch + rows).contains(&row))
            .map(move |patch| Pair { patch, tap: row - patch })
    };
    (0..rows + patch_h - 1).map(|row| Line { row, pairs: pairs(row).collect() }).collect()
}

fn unroll_note([depth, height]: [usize; 2], rows: usize) -> String {
    let planes = if depth > 1 { "Planes are taken one after another. " } else { "" };
    if rows == height {
        format!("{planes}All template rows{} are unrolled.", if depth > 1 { " of a plane" } else { "" })
    } else {
        format!(
            "{planes}Template rows are taken in a loop, {rows} unrolled at a time, \
             so that the loop stays in the instruction cache."
        )
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
}
