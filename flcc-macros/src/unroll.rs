//! The bodies in floats: a register block of accumulators, and the taps of one template row, written out or in a loop.
//!
//! `out[z, y, x] = sum_{dz, i, j} in[z + dz, y + i, x + j] · t[dz, i, j]`. A block computes `rows x vectors` vectors of
//! outputs. It walks the input rows under its outputs; input row `i` feeds accumulator row `r` with template row `i - r`, so
//! all of them only where `rows - 1 <= i < height`, the steady rows. The others feed `first..=last`, and each such span has
//! an arm of its own: a loop over input rows, a `match` on the span, straight code inside.
//!
//! Whatever the span, the block and the loop, one output adds its products in one order (dz, then i, then j, ascending) in
//! one accumulator, so its bits do not depend on where it lies.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::parse::{Float, Isa};

/// What a body adds for one tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `in · t`
    Correlate,
    /// `weight · |in - t|`
    AbsDiff,
}

/// The taps of a template row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taps {
    /// In a loop: one function for every width.
    Rolled,
    /// Written out.
    Unrolled(usize),
}

/// One function: a kernel, or what the kernels of several widths share.
#[derive(Clone, Debug)]
pub struct Body {
    pub name: String,
    pub isa: Isa,
    pub dtype: Float,
    pub op: Op,
    pub taps: Taps,
    pub rows: usize,
    pub vectors: usize,
}

impl Body {
    fn lanes(&self) -> usize {
        self.isa.vector_bytes() / self.dtype.size()
    }
}

/// The kernel `name` where it is the shared function `of`.
pub fn instance(name: &str, of: &Body) -> TokenStream {
    let (name, shared) = (format_ident!("{name}"), format_ident!("{}", of.name));
    let float = format_ident!("{}", of.dtype.name());
    let features = features(of.isa);
    quote! {
        #features
        pub(super) fn #name(tile: &mut Tile<'_, #float>) {
            #shared(tile);
        }
    }
}

/// The function of a body: walks the tile in blocks of `rows x vectors`, then of `rows x 1` vectors.
///
/// A block of one vector takes more than half the time of one of four: its loads and its few sums keep the multipliers waiting. So
/// where two vectors or more are left over, a wide block ends with them and computes some outputs again, the same bits.
pub fn kernel(body: &Body) -> TokenStream {
    let name = format_ident!("{}", body.name);
    let doc = doc(body);
    let features = features(body.isa);
    let float = format_ident!("{}", body.dtype.name());
    let rows = number(body.rows);
    let lanes = number(body.lanes());
    let wide_columns = number(body.lanes() * body.vectors);
    let two = number(2 * body.lanes());
    let narrow = block(body, &format_ident!("narrow"), 1);
    let (wide, wide_loop) = if body.vectors > 1 {
        let wide = block(body, &format_ident!("wide"), body.vectors);
        let wide_loop = quote! {
            while x + #wide_columns <= columns {
                wide(tile, z, y, x);
                x += #wide_columns;
            }
            if columns - x >= #two && columns >= #wide_columns && !tile.accumulate {
                wide(tile, z, y, columns - #wide_columns);
                x = columns;
            }
        };
        (wide, wide_loop)
    } else {
        (TokenStream::new(), TokenStream::new())
    };
    quote! {
        #[doc = #doc]
        #[inline(never)]
        #features
        pub(super) fn #name(tile: &mut Tile<'_, #float>) {
            #wide
            #narrow
            let [depth, height, width] = tile.out_shape;
            let columns = width.next_multiple_of(#lanes);
            for z in 0..depth {
                for y in (0..height).step_by(#rows) {
                    let mut x = 0;
                    #wide_loop
                    while x < columns {
                        narrow(tile, z, y, x);
                        x += #lanes;
                    }
                }
            }
        }
    }
}

/// The function of one register block: its outputs start at `(z, y, x)`.
fn block(body: &Body, name: &Ident, vectors: usize) -> TokenStream {
    let features = features(body.isa);
    let float = format_ident!("{}", body.dtype.name());
    let (rows, lanes) = (body.rows, body.lanes());
    let span = number(lanes * vectors);
    let width = match body.taps {
        Taps::Rolled => quote!(tile.kernel_shape[2]),
        Taps::Unrolled(width) => {
            let width = number(width);
            quote!(#width)
        }
    };
    let zero: TokenStream =
        (0..rows).flat_map(|r| (0..vectors).map(move |c| acc(r, c))).map(|acc| quote!(let mut #acc = isa::zero();)).collect();
    let start: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            let loads: TokenStream = (0..vectors)
                .map(|c| {
                    let (acc, at) = (acc(r, c), number(c * lanes));
                    quote!(#acc = isa::load(row, #at);)
                })
                .collect();
            quote! {
                let row: &[#float; #span] = head(&out[#at * tile.out_row..]);
                #loads
            }
        })
        .collect();
    let finish: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            let stores: TokenStream = (0..vectors)
                .map(|c| {
                    let (acc, at) = (acc(r, c), number(c * lanes));
                    quote!(isa::store(row, #at, #acc);)
                })
                .collect();
            quote! {
                let row: &mut [#float; #span] = head_mut(&mut out[#at * tile.out_row..]);
                #stores
            }
        })
        .collect();
    let weights = match body.op {
        Op::Correlate => quote!(),
        Op::AbsDiff => quote!(let weights = &tile.weights[dz * height * width..][..height * width];),
    };
    let bytes = number(lanes * vectors * body.dtype.size());
    let ahead: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            quote!(ask::<_, #bytes, true>(tile.out, z * tile.out_plane + (y + #at) * tile.out_row + x + #span);)
        })
        .collect();
    let steady = span_arm(body, vectors, 0, rows - 1);
    let input_rows = if rows == 1 {
        quote! {
            for i in 0..height {
                let line = &plane[i * tile.in_row..];
                ask::<_, #bytes, false>(line, #span + width - 1);
                #steady
            }
        }
    } else {
        let last_row = number(rows - 1);
        let row_count = number(rows);
        let all = number(rows - 1);
        let arms: TokenStream = (0..rows)
            .flat_map(|first| (first..rows).map(move |last| (first, last)))
            .filter(|&span| span != (0, rows - 1))
            .map(|(first, last)| {
                let key = number(first * rows + last);
                let arm = span_arm(body, vectors, first, last);
                quote!(#key => { #arm })
            })
            .collect();
        quote! {
            for i in 0..height + #last_row {
                let line = &plane[i * tile.in_row..];
                ask::<_, #bytes, false>(line, #span + width - 1);
                let first = (i + 1).saturating_sub(height);
                let last = i.min(#last_row);
                match first * #row_count + last {
                    #all => { #steady }
                    #arms
                    _ => unreachable!("an input row feeds at least one row of the block"),
                }
            }
        }
    };
    quote! {
        #features
        fn #name(tile: &mut Tile<'_, #float>, z: usize, y: usize, x: usize) {
            let [depth, height, _] = tile.kernel_shape;
            let width = #width;
            #ahead
            #zero
            if tile.accumulate {
                let out = &tile.out[z * tile.out_plane + y * tile.out_row + x..];
                #start
            }
            for dz in 0..depth {
                let plane = &tile.input[(z + dz) * tile.in_plane + y * tile.in_row + x..];
                let template = &tile.template[dz * height * width..][..height * width];
                #weights
                #input_rows
            }
            let out = &mut tile.out[z * tile.out_plane + y * tile.out_row + x..];
            #finish
        }
    }
}

/// One input row, `line`, into the accumulator rows `first..=last`.
fn span_arm(body: &Body, vectors: usize, first: usize, last: usize) -> TokenStream {
    let float = format_ident!("{}", body.dtype.name());
    let lanes = body.lanes();
    let span = lanes * vectors;
    match body.taps {
        Taps::Unrolled(width) => {
            let reach = number(span + width - 1);
            let width_token = number(width);
            let template_rows: TokenStream = (first..=last)
                .map(|r| {
                    let back = number(r);
                    let template = format_ident!("t_{r}");
                    let weight = format_ident!("w_{r}");
                    let mut rows = quote!(let #template: &[#float; #width_token] = head(&template[(i - #back) * #width_token..]););
                    if body.op == Op::AbsDiff {
                        rows.extend(quote!(let #weight: &[#float; #width_token] = head(&weights[(i - #back) * #width_token..]);));
                    }
                    rows
                })
                .collect();
            let taps: TokenStream = (0..width)
                .map(|j| {
                    let at = number(j);
                    tap(body, vectors, first, last, &quote!(#at), j)
                })
                .collect();
            quote! {
                let line: &[#float; #reach] = head(line);
                #template_rows
                #taps
            }
        }
        Taps::Rolled => {
            let span = number(span);
            let template_rows: TokenStream = (first..=last)
                .map(|r| {
                    let back = number(r);
                    let template = format_ident!("t_{r}");
                    let weight = format_ident!("w_{r}");
                    let mut rows = quote!(let #template = &template[(i - #back) * width..][..width];);
                    if body.op == Op::AbsDiff {
                        rows.extend(quote!(let #weight = &weights[(i - #back) * width..][..width];));
                    }
                    rows
                })
                .collect();
            let tap = tap(body, vectors, first, last, &quote!(j), 0);
            quote! {
                #template_rows
                for (j, line) in (0..width).zip(line.windows(#span)) {
                    let line: &[#float; #span] = head(line);
                    #tap
                }
            }
        }
    }
}

/// One tap `j` of the accumulator rows `first..=last`: the vectors of `line` from `offset`, each used by every row.
fn tap(body: &Body, vectors: usize, first: usize, last: usize, j: &TokenStream, offset: usize) -> TokenStream {
    let lanes = body.lanes();
    let mut tokens = TokenStream::new();
    for c in 0..vectors {
        let (value, at) = (format_ident!("v_{c}"), number(offset + c * lanes));
        tokens.extend(quote!(let #value = isa::load(line, #at);));
    }
    for r in first..=last {
        let (template, weight) = (format_ident!("t_{r}"), format_ident!("w_{r}"));
        tokens.extend(quote!(let t = isa::splat(#template[#j]);));
        if body.op == Op::AbsDiff {
            tokens.extend(quote!(let w = isa::splat(#weight[#j]);));
        }
        for c in 0..vectors {
            let (acc, value) = (acc(r, c), format_ident!("v_{c}"));
            tokens.extend(match body.op {
                Op::Correlate => quote!(#acc = isa::mul_add(#value, t, #acc);),
                Op::AbsDiff => quote!(#acc = isa::mul_add(w, isa::abs_diff(#value, t), #acc);),
            });
        }
    }
    tokens
}

fn acc(r: usize, c: usize) -> Ident {
    format_ident!("acc_{r}_{c}")
}

/// The attribute that lets a function use an instruction set.
pub fn features(isa: Isa) -> TokenStream {
    match isa.features() {
        Some(features) => quote!(#[target_feature(enable = #features)]),
        None => quote!(),
    }
}

fn doc(body: &Body) -> String {
    let formula = match body.op {
        Op::Correlate => "sum in[z+dz, y+i, x+j] * t[dz, i, j]",
        Op::AbsDiff => "sum w[dz, i, j] * |in[z+dz, y+i, x+j] - t[dz, i, j]|",
    };
    let width = match body.taps {
        Taps::Rolled => "template rows of any width".to_string(),
        Taps::Unrolled(width) => format!("template rows of {width} taps"),
    };
    format!("`out[z, y, x] = {formula}`; {width}; blocks of {} rows x {} vectors.", body.rows, body.vectors)
}

/// A number as it stands in code.
pub fn number(value: usize) -> Literal {
    Literal::usize_unsuffixed(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens, one statement a line.
    fn lines(tokens: TokenStream) -> String {
        let text = tokens.to_string();
        text.replace(" ; ", ";\n").replace(" { ", " {\n").replace(" } ", "\n}\n")
    }

    fn body(name: &str, isa: Isa, op: Op, taps: Taps, rows: usize, vectors: usize) -> Body {
        Body { name: name.to_string(), isa, dtype: Float::F32, op, taps, rows, vectors }
    }

    #[test]
    fn written_out_taps() {
        insta::assert_snapshot!(lines(kernel(&body("corr_f32_w2_avx2", Isa::Avx2, Op::Correlate, Taps::Unrolled(2), 2, 2))));
    }

    #[test]
    fn a_loop_over_taps() {
        insta::assert_snapshot!(lines(kernel(&body("sad_f32_rows_portable", Isa::Portable, Op::AbsDiff, Taps::Rolled, 2, 1))));
    }

    #[test]
    fn a_kernel_that_shares_a_loop() {
        let line = body("corr_f32_line_avx512", Isa::Avx512, Op::Correlate, Taps::Rolled, 1, 8);
        insta::assert_snapshot!(lines(instance("corr_f32_n9_avx512", &line)));
    }

    /// A steady row multiplies each of `rows x vectors` accumulators once for each tap.
    #[test]
    fn the_steady_row_has_rows_x_vectors_x_taps_products() {
        let body = body("corr_f32_w5_avx512", Isa::Avx512, Op::Correlate, Taps::Unrolled(5), 6, 4);
        let text = span_arm(&body, 4, 0, 5).to_string();
        assert_eq!(text.matches("mul_add").count(), 6 * 4 * 5);
        assert_eq!(text.matches("isa :: load").count(), 4 * 5);
    }
}
