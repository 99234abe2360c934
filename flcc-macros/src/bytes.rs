//! The bodies of bytes: sums of four products at once, four taps of a template row with four neighbours of an image
//! row.
//!
//! `out[z, y, x] = bias + sum_{dz, i, j} in[z + dz, y + i, x + j] · t[dz, i, j]`, with signed samples and unsigned
//! taps, in integers of 32 bits. A lane takes four neighbouring samples, so the lanes of a vector are outputs four
//! columns apart, and four vectors, loaded one byte apart, are as many neighbouring outputs as a vector has bytes: the
//! phases. A block has `rows x vectors` times four phases of accumulators and walks the input rows as the bodies of
//! floats do (`unroll`). At its end the phases are interleaved.
//!
//! Integers: neither the block nor the order of the sums can be seen in an output.

use flcc_core::isa::Isa;
use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote};

use crate::unroll::{features, number};

/// Vectors whose loads lie one byte apart.
const PHASES: usize = 4;
/// Samples of a vector, and outputs of the four phases.
pub fn span(isa: Isa) -> usize {
    isa.row().vector_bytes
}

/// What one function for products of bytes is emitted from.
#[derive(Clone, Debug)]
pub struct Body {
    pub name: String,
    pub isa: Isa,
    pub rows: usize,
    pub vectors: usize,
}

/// The function of a body: walks the tile in blocks of `rows x vectors`, then of `rows x 1` vectors.
pub fn kernel(body: &Body) -> TokenStream {
    let name = format_ident!("{}", body.name);
    let doc = format!(
        "`out[z, y, x] = bias + sum in[z+dz, y+i, x+j] * t[dz, i, j]` of bytes; template rows of any width; \
         blocks of {} rows x {} vectors.",
        body.rows, body.vectors
    );
    let features = features(body.isa);
    let span = span(body.isa);
    let (rows, wide_span, span) = (number(body.rows), number(span * body.vectors), number(span));
    let narrow = block(body, &format_ident!("narrow"), 1);
    let (wide, wide_loop) = if body.vectors > 1 {
        let wide_loop = quote! {
            while x + #wide_span <= width {
                wide(tile, begin, z, y, x);
                x += #wide_span;
            }
        };
        (block(body, &format_ident!("wide"), body.vectors), wide_loop)
    } else {
        (TokenStream::new(), TokenStream::new())
    };
    quote! {
        #[doc = #doc]
        #[inline(never)]
        #features
        pub(super) fn #name(tile: &mut ByteTile<'_>) {
            #wide
            #narrow
            let begin = isa::begin(tile.bias, tile.template);
            let [depth, height, width] = tile.out_shape;
            for z in 0..depth {
                for y in (0..height).step_by(#rows) {
                    let mut x = 0;
                    #wide_loop
                    while x < width {
                        narrow(tile, begin, z, y, x);
                        x += #span;
                    }
                }
            }
        }
    }
}

/// The function of one register block: its outputs start at `(z, y, x)`; those past the tile are not stored.
fn block(body: &Body, name: &Ident, vectors: usize) -> TokenStream {
    let features = features(body.isa);
    let rows = body.rows;
    let start: TokenStream = accs(rows, vectors).map(|acc| quote!(let mut #acc = isa::splat(begin);)).collect();
    let lanes = span(body.isa);
    let (bytes, span) = (number(lanes * vectors), number(lanes * vectors));
    let (out_bytes, quads) = (number(4 * lanes * vectors), number(lanes / 4 * vectors));
    let ahead: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            quote!(ask::<_, #out_bytes, true>(tile.out, z * tile.out_plane + (y + #at) * tile.out_row + x + #span);)
        })
        .collect();
    let finish: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            let stores: TokenStream = (0..vectors)
                .map(|c| {
                    let (phases, from) = ((0..PHASES).map(|p| acc(r, c, p)), number(c * lanes));
                    quote!(isa::store(&mut row[#from.min(columns)..], [#(#phases),*], tile.bits);)
                })
                .collect();
            quote! {
                if #at < lines {
                    let row = &mut out[#at * tile.out_row..][..columns];
                    #stores
                }
            }
        })
        .collect();
    let last_row = number(rows - 1);
    let row_count = number(rows);
    let arms: TokenStream = (0..rows)
        .flat_map(|first| (first..rows).map(move |last| (first, last)))
        .map(|(first, last)| {
            let key = number(first * rows + last);
            let arm = span_arm(body.isa, vectors, first, last);
            quote!(#key => { #arm })
        })
        .collect();
    quote! {
        #features
        fn #name(tile: &mut ByteTile<'_>, begin: i32, z: usize, y: usize, x: usize) {
            let [depth, height, _] = tile.kernel_shape;
            let groups = tile.groups();
            #ahead
            #start
            for dz in 0..depth {
                let plane = &tile.input[(z + dz) * tile.in_plane + y * tile.in_row + x / 4..];
                let template = &tile.template[dz * height * groups..][..height * groups];
                for i in 0..height + #last_row {
                    let line = &plane[i * tile.in_row..];
                    ask::<_, #bytes, false>(line, #quads + groups);
                    let first = (i + 1).saturating_sub(height);
                    let last = i.min(#last_row);
                    match first * #row_count + last {
                        #arms
                        _ => unreachable!("an input row feeds at least one row of the block"),
                    }
                }
            }
            let [_, out_height, out_width] = tile.out_shape;
            let (lines, columns) = (out_height - y, (out_width - x).min(#span));
            let out = &mut tile.out[z * tile.out_plane + y * tile.out_row + x..];
            #finish
        }
    }
}

/// One input row, `line`, into the accumulator rows `first..=last`.
fn span_arm(isa: Isa, vectors: usize, first: usize, last: usize) -> TokenStream {
    // A phase reads up to three bytes past the quads of its vector.
    let quads = number(span(isa) / 4 * vectors + 1);
    let taps: TokenStream = (first..=last)
        .map(|r| {
            let (back, taps) = (number(r), format_ident!("t_{r}"));
            quote!(let #taps = &template[(i - #back) * groups..][..groups];)
        })
        .collect();
    let loads: TokenStream = phases(vectors)
        .map(|(c, p)| {
            let (value, at) = (format_ident!("v_{c}_{p}"), number(c * span(isa) + p));
            quote!(let #value = isa::load(line, #at);)
        })
        .collect();
    let products: TokenStream = (first..=last)
        .map(|r| {
            let taps = format_ident!("t_{r}");
            let products: TokenStream = phases(vectors)
                .map(|(c, p)| {
                    let (acc, value) = (acc(r, c, p), format_ident!("v_{c}_{p}"));
                    quote!(#acc = isa::add_products(#acc, t, #value);)
                })
                .collect();
            quote! {
                let t = isa::splat_group(#taps[g]);
                #products
            }
        })
        .collect();
    quote! {
        #taps
        for (g, line) in (0..groups).zip(line.windows(#quads)) {
            let line: &[[i8; 4]; #quads] = head(line);
            #loads
            #products
        }
    }
}

/// Every vector of a row of the block, by column and phase.
fn phases(vectors: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..vectors).flat_map(|c| (0..PHASES).map(move |p| (c, p)))
}

fn accs(rows: usize, vectors: usize) -> impl Iterator<Item = Ident> {
    (0..rows).flat_map(move |r| phases(vectors).map(move |(c, p)| acc(r, c, p)))
}

fn acc(r: usize, c: usize, p: usize) -> Ident {
    format_ident!("acc_{r}_{c}_{p}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(rows: usize, vectors: usize) -> Body {
        Body { name: "corr_u8_any_avx512vnni".into(), isa: Isa::Avx512Vnni, rows, vectors }
    }

    #[test]
    fn a_body_of_bytes() {
        let text = kernel(&body(2, 1)).to_string();
        insta::assert_snapshot!(text.replace(" ; ", ";\n").replace(" { ", " {\n").replace(" } ", "\n}\n"));
    }

    /// A steady row multiplies each of `rows x vectors x 4` accumulators once for each group of taps.
    #[test]
    fn the_steady_row_has_a_product_for_each_accumulator() {
        let text = span_arm(Isa::Avx512Vnni, 1, 0, 5).to_string();
        assert_eq!(text.matches("add_products").count(), 6 * PHASES);
        assert_eq!(text.matches("isa :: load").count(), PHASES);
    }

    #[test]
    fn a_line_has_blocks_of_several_vectors() {
        let text = kernel(&body(1, 4)).to_string();
        assert_eq!(text.matches("isa :: store").count(), 4 + 1);
    }
}
