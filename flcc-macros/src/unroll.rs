//! The bodies in floats: a register block of accumulators, and the taps of one template row, written out or in a loop.
//!
//! `out[z, y, x] = sum_{dz, i, j} in[z + dz, y + i, x + j] · t[dz, i, j]`. A block computes `rows x vectors` vectors of
//! outputs. It walks the input rows under its outputs; input row `i` feeds accumulator row `r` with template row
//! `i - r`, so all of them only where `rows - 1 <= i < height`, the steady rows. The others feed `first..=last`, and
//! each such span has code of its own. For squares of a written-out width the rows follow each other straight. Other
//! templates of at least as many rows as the block go straight up to the steady rows, around a loop of these, and down
//! again; lower ones loop over all input rows, with a `match` on the span.
//!
//! Whatever the span, the register block and the loop, one output adds its products in one order (dz, then i, then j,
//! ascending; bodies of one row take taps a vector apart together), so its bits do not depend on where it lies. It does
//! so in blocks of products (`flcc_core::blocks`): after each, an accumulator goes to its subtotal and begins again
//! with zero, and full subtotals go to the total. Where a block ends depends on the template row, not on the input row:
//! accumulator rows of one register block end theirs at different times.

use flcc_core::blocks::Blocks;
use flcc_core::isa::Isa;
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

use crate::parse::Float;

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
    /// Written out, as the rows are, for squares (in 3D: planes) of that width.
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
        self.isa.row().vector_bytes / self.dtype.size()
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

/// The function of a body: walks the tile in blocks of `rows x vectors`, then of half as many and of one vector. A body
/// of written-out taps leaves templates that are not square, or whose products are not added up in the blocks of even
/// taps, to `of`, the function that all widths share. Planes come last: a block needs one new plane of samples where
/// the block before was the same of the plane before, and the others are in the cache.
///
/// A block of one vector takes more than half the time of one of four: its loads and its few sums keep the multipliers
/// waiting. So where more is left over than the next smaller block has, a block ends with it and computes some outputs
/// again, the same bits. A tile that must stay within its outputs ends so in all directions.
pub fn kernel(body: &Body, of: Option<&Body>) -> TokenStream {
    let name = format_ident!("{}", body.name);
    let others = match (body.taps, of) {
        (Taps::Unrolled(width), Some(of)) => {
            let (rows, of) = (number(rows_together(width)), format_ident!("{}", of.name));
            let width = number(width);
            quote! {
                let subtotals = tile.blocks.count(tile.kernel_shape) > tile.blocks.blocks();
                if tile.kernel_shape[1] != #width || tile.blocks.rows() != #rows || subtotals {
                    return #of(tile);
                }
            }
        }
        _ => TokenStream::new(),
    };
    let doc = doc(body);
    let features = features(body.isa);
    let float = format_ident!("{}", body.dtype.name());
    let rows = number(body.rows);
    let lanes = number(body.lanes());
    let (largest, told) = match body.op {
        Op::Correlate => {
            let told = quote! {
                let mut lanes = [0.0; #lanes];
                isa::store(&mut lanes, 0, largest);
                let larger =
                    |most: #float, value: &#float| if most.to_bits() < value.to_bits() { *value } else { most };
                tile.largest = lanes.iter().fold(0.0, larger);
            };
            (quote!(let mut largest = isa::zero();), told)
        }
        Op::AbsDiff => (quote!(let mut largest = ();), quote!()),
    };
    // The widest first; each ends a row of which no more is left than it has columns, and more than the next has.
    let mut blocks = vec![("wide", body.vectors), ("half", body.vectors / 2)];
    blocks.retain(|(_, vectors)| *vectors > 1);
    let room = number(2 * body.rows * body.lanes() * body.vectors);
    let functions: TokenStream = blocks
        .iter()
        .chain(&[("narrow", 1)])
        .map(|(name, vectors)| block(body, &format_ident!("{name}"), *vectors))
        .collect();
    let nexts = blocks.iter().skip(1).map(|(_, vectors)| *vectors).chain([1]);
    let loops: TokenStream = blocks
        .iter()
        .zip(nexts)
        .map(|((name, vectors), next)| {
            let (name, span, less) =
                (format_ident!("{name}"), number(body.lanes() * vectors), number(body.lanes() * next));
            quote! {
                while x + #span <= columns {
                    for z in 0..depth {
                        #name(tile, room, &mut largest, z, y, x);
                    }
                    x += #span;
                }
                if columns > x + #less && columns >= #span && !tile.accumulate {
                    for z in 0..depth {
                        #name(tile, room, &mut largest, z, y, columns - #span);
                    }
                    x = columns;
                }
            }
        })
        .collect();
    quote! {
        #[doc = #doc]
        #[inline(never)]
        #features
        pub(super) fn #name(tile: &mut Tile<'_, #float>) {
            #functions
            #others
            let [depth, height, width] = tile.out_shape;
            let columns = if tile.within { width } else { width.next_multiple_of(#lanes) };
            let end = if tile.within { height - #rows } else { height };
            // Subtotals and totals of a register block, in memory: registers are for sums.
            let mut room = OnLine([0.0; #room]);
            let OnLine(room) = black_box(&mut room);
            let room: &mut [#float; #room] = room;
            #largest
            for y in (0..height).step_by(#rows) {
                let y = y.min(end);
                let mut x = 0;
                #loops
                while x < columns {
                    let place = x.min(columns - #lanes);
                    for z in 0..depth {
                        narrow(tile, room, &mut largest, z, y, place);
                    }
                    x += #lanes;
                }
            }
            #told
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
    let zero: TokenStream = (0..rows)
        .flat_map(|r| (0..vectors).map(move |c| acc(r, c)))
        .map(|acc| quote!(let mut #acc = isa::zero();))
        .collect();
    let finish: TokenStream = (0..rows)
        .map(|r| {
            let at = number(r);
            let stores: TokenStream = (0..vectors)
                .map(|c| {
                    let (acc, at) = (acc(r, c), number(c * lanes));
                    match body.op {
                        Op::Correlate => quote!(isa::store(row, #at, #acc); *largest = isa::larger(#acc, *largest);),
                        Op::AbsDiff => quote!(isa::store(row, #at, #acc);),
                    }
                })
                .collect();
            let sums: TokenStream = (0..vectors)
                .map(|c| {
                    let (acc, at) = (acc(r, c), number(c * lanes));
                    quote!(#acc = isa::add(#acc, isa::load(row, #at));)
                })
                .collect();
            quote! {
                let row: &mut [#float; #span] = head_mut(&mut out[#at * tile.out_row..]);
                if tile.accumulate {
                    #sums
                }
                #stores
            }
        })
        .collect();
    let last: TokenStream = (0..rows).map(|r| last_block(body, vectors, r)).collect();
    let ended: TokenStream = (0..rows).map(|r| end_block(body, vectors, r, &of_planes(body))).collect();
    let rolled = |tokens: &dyn Fn(usize) -> TokenStream| -> TokenStream {
        if body.taps == Taps::Rolled { (0..rows).map(tokens).collect() } else { quote!() }
    };
    let counts = rolled(&|r| {
        let (blocks, subtotals) = (format_ident!("blocks_{r}"), format_ident!("subtotals_{r}"));
        quote!(let (mut #blocks, mut #subtotals) = (0, 0);)
    });
    let weights = match body.op {
        Op::Correlate => quote!(),
        Op::AbsDiff => quote!(let weights = &tile.weights[dz * height * width..][..height * width];),
    };
    let cut = match body.taps {
        Taps::Rolled => quote!(let cut = tile.blocks.taps();),
        Taps::Unrolled(_) => quote!(),
    };
    let rows_left = rolled(&|r| {
        let left = format_ident!("left_{r}");
        quote!(let mut #left = tile.blocks.rows();)
    });
    let bytes = number(lanes * vectors * body.dtype.size());
    let vector = if body.op == Op::Correlate { quote!(isa::Vector) } else { quote!(()) };
    // Asked for with the first rows of samples, a few at a time: results and new samples of the next plane, or of the
    // blocks below, which come when the whole row of blocks is done, late enough for lines from memory. Lines go on to
    // the right instead.
    let row_count = number(rows);
    let line = if rows == 1 {
        quote! {
            let line = &plane[i * tile.in_row..];
            if dz == 0 {
                ask::<_, #bytes, false>(line, coming);
            }
        }
    } else {
        quote! {
            let line = &plane[i * tile.in_row..];
            if dz == 0 && i < #row_count {
                ask::<_, #bytes, true>(tile.out, next + i * tile.out_row);
            }
            if dz == 0 && (planes || i < #row_count) {
                ask::<_, #bytes, false>(line, coming);
            }
        }
    };
    let at_once = if rows == 1 { quote!(ask::<_, #bytes, true>(tile.out, next);) } else { quote!() };
    let (coming, next) = if rows == 1 {
        (quote!(#span + width - 1), quote!(#span))
    } else {
        (quote!((height + #row_count - 1) * tile.in_row), quote!(#row_count * tile.out_row))
    };
    let input_rows = match body.taps {
        Taps::Unrolled(width) => square(body, vectors, width, &line),
        Taps::Rolled if rows == 1 => {
            let only = span_arm(body, vectors, 0, 0);
            quote! {
                for i in 0..height {
                    #line
                    #only
                }
            }
        }
        Taps::Rolled if vectors == 1 => walk(body, vectors, &line),
        Taps::Rolled => {
            let (tall, walk, least) = (tall(body, vectors, &line), walk(body, vectors, &line), number(rows));
            quote! {
                if height >= #least {
                    #tall
                } else {
                    #walk
                }
            }
        }
    };
    quote! {
        #features
        fn #name(
            tile: &mut Tile<'_, #float>, room: &mut [#float], largest: &mut #vector, z: usize, y: usize, x: usize
        ) {
            let [depth, height, _] = tile.kernel_shape;
            let width = #width;
            #cut
            #counts
            let mut planes_left = tile.blocks.planes();
            // From the samples and outputs of this block to those that are asked for.
            let planes = tile.out_shape[0] > 1;
            let (coming, next) = if planes { (depth * tile.in_plane, tile.out_plane) } else { (#coming, #next) };
            let next = z * tile.out_plane + y * tile.out_row + x + next;
            #at_once
            #zero
            for dz in 0..depth {
                let plane = &tile.input[(z + dz) * tile.in_plane + y * tile.in_row + x..];
                let template = &tile.template[dz * height * width..][..height * width];
                #weights
                #rows_left
                #input_rows
                planes_left -= 1;
                if planes_left == 0 && dz + 1 < depth {
                    planes_left = tile.blocks.planes();
                    #ended
                }
            }
            #last
            let out = &mut tile.out[z * tile.out_plane + y * tile.out_row + x..];
            #finish
        }
    }
}

/// The input rows of a block under a template of `height` rows, one after the other.
fn square(body: &Body, vectors: usize, height: usize, line: &TokenStream) -> TokenStream {
    let (last_row, together) = (body.rows - 1, rows_together(height));
    (0..height + last_row)
        .map(|i| {
            let (first, last) = ((i + 1).saturating_sub(height), i.min(last_row));
            let arm = span_arm(body, vectors, first, last);
            let ends = |r: &usize| (i + 1 - r).is_multiple_of(together) && i + 1 - r < height;
            let begins = |r: usize| if i + 1 - r == together { Begins::If(quote!(dz == 0)) } else { Begins::Never };
            let ended: TokenStream =
                (first..=last).filter(ends).map(|r| end_block(body, vectors, r, &begins(r))).collect();
            let i = number(i);
            quote! {
                {
                    let i: usize = #i;
                    #line
                    #arm
                    #ended
                }
            }
        })
        .collect()
}

/// Rows of a square's plane in one block.
fn rows_together(width: usize) -> usize {
    Blocks::even([1, width, width]).rows()
}

/// Whether a block is the first of its subtotal.
enum Begins {
    /// It is not.
    Never,
    /// If this holds.
    If(TokenStream),
    /// The count of blocks tells, and whether the subtotal is full.
    Counted,
}

/// That of blocks that end with planes.
fn of_planes(body: &Body) -> Begins {
    match body.taps {
        Taps::Rolled => Begins::Counted,
        Taps::Unrolled(width) if rows_together(width) < width => Begins::Never,
        Taps::Unrolled(_) => Begins::If(quote!(dz + 1 == tile.blocks.planes())),
    }
}

/// What ends the block of an accumulator row: it goes to its subtotal, and that, if it is full, to its total.
fn end_block(body: &Body, vectors: usize, r: usize, begins: &Begins) -> TokenStream {
    let (blocks, subtotals) = (format_ident!("blocks_{r}"), format_ident!("subtotals_{r}"));
    let (float, lanes) = (format_ident!("{}", body.dtype.name()), body.lanes());
    let (span, [sub, total]) = (number(lanes * vectors), places(body, vectors, r));
    let each = |tokens: &dyn Fn(Ident, Literal) -> TokenStream| -> TokenStream {
        (0..vectors).map(|c| tokens(acc(r, c), number(c * lanes))).collect()
    };
    let take = each(&|acc, at| quote!(isa::store(sub, #at, #acc);));
    let add = each(&|acc, at| quote!(isa::store(sub, #at, isa::add(#acc, isa::load(sub, #at)));));
    let zero = each(&|acc, _| quote!(#acc = isa::zero();));
    let add = match begins {
        Begins::Never => add,
        Begins::If(first) => quote!(if #first { #take } else { #add }),
        Begins::Counted => quote!(if #blocks == 0 { #take } else { #add }),
    };
    let take_all = each(&|_, at| quote!(isa::store(total, #at, isa::load(sub, #at));));
    let add_all = each(&|_, at| quote!(isa::store(total, #at, isa::add(isa::load(sub, #at), isa::load(total, #at)));));
    let full = match begins {
        Begins::Counted => quote! {
            #blocks += 1;
            if #blocks == tile.blocks.blocks() {
                let (subs, totals) = room.split_at_mut(#total);
                let (sub, total): (&[#float; #span], &mut [#float; #span]) = (head(&subs[#sub..]), head_mut(totals));
                if #subtotals == 0 {
                    #take_all
                } else {
                    #add_all
                }
                #blocks = 0;
                #subtotals += 1;
            }
        },
        _ => quote!(),
    };
    quote! {
        let sub: &mut [#float; #span] = head_mut(&mut room[#sub..]);
        #add
        #zero
        #full
    }
}

/// What ends the last block of an accumulator row: its subtotal and its total are added to it.
fn last_block(body: &Body, vectors: usize, r: usize) -> TokenStream {
    let (float, lanes) = (format_ident!("{}", body.dtype.name()), body.lanes());
    let span = number(lanes * vectors);
    let [sub, total] = places(body, vectors, r);
    let levels = match body.taps {
        Taps::Rolled => {
            let (blocks, subtotals) = (format_ident!("blocks_{r}"), format_ident!("subtotals_{r}"));
            vec![(quote!(#blocks > 0), sub), (quote!(#subtotals > 0), total)]
        }
        Taps::Unrolled(width) if rows_together(width) < width => vec![(quote!(true), sub)],
        Taps::Unrolled(_) => vec![(quote!(tile.blocks.planes() < depth), sub)],
    };
    let added = levels.into_iter().map(|(there, at)| {
        let sums = (0..vectors).map(|c| {
            let (acc, at) = (acc(r, c), number(c * lanes));
            quote!(#acc = isa::add(#acc, isa::load(part, #at));)
        });
        quote! {
            if #there {
                let part: &[#float; #span] = head(&room[#at..]);
                #(#sums)*
            }
        }
    });
    quote!(#(#added)*)
}

/// Where the subtotal and the total of an accumulator row lie.
fn places(body: &Body, vectors: usize, r: usize) -> [Literal; 2] {
    let span = body.lanes() * vectors;
    [number(r * span), number((body.rows + r) * span)]
}

/// The input rows of a block under a template of at least as many rows: up, steady, down.
fn tall(body: &Body, vectors: usize, line: &TokenStream) -> TokenStream {
    let last_row = body.rows - 1;
    let row = |first: usize, last: usize, i: &TokenStream| {
        let arm = span_arm(body, vectors, first, last);
        quote! {
            {
                let i: usize = #i;
                #line
                #arm
            }
        }
    };
    let up: TokenStream = (0..last_row)
        .map(|last| {
            let i = number(last);
            row(0, last, &quote!(#i))
        })
        .collect();
    let down: TokenStream = (1..=last_row)
        .map(|first| {
            let below = number(first - 1);
            row(first, last_row, &quote!(height + #below))
        })
        .collect();
    let (begin, steady) = (number(last_row), row(0, last_row, &quote!(i)));
    quote! {
        #up
        for i in #begin..height {
            #steady
        }
        #down
    }
}

/// The input rows of a block under a template of any height, in a loop.
fn walk(body: &Body, vectors: usize, line: &TokenStream) -> TokenStream {
    let rows = body.rows;
    let (last_row, row_count) = (number(rows - 1), number(rows));
    let arms: TokenStream = (0..rows)
        .flat_map(|first| (first..rows).map(move |last| (first, last)))
        .map(|(first, last)| {
            let key = number(first * rows + last);
            let arm = span_arm(body, vectors, first, last);
            quote!(#key => { #arm })
        })
        .collect();
    quote! {
        for i in 0..height + #last_row {
            #line
            let first = (i + 1).saturating_sub(height);
            let last = i.min(#last_row);
            match first * #row_count + last {
                #arms
                _ => unreachable!("an input row feeds at least one row of the block"),
            }
        }
    }
}

/// The ends of blocks after some taps of an input row, up to `begin` of its `width`: of all rows that it feeds where a
/// row of taps is cut, else of those that have `left` no template row of their block.
fn ends(body: &Body, vectors: usize, first: usize, last: usize) -> TokenStream {
    (first..=last)
        .map(|r| {
            let (left, back, ended) =
                (format_ident!("left_{r}"), number(r), end_block(body, vectors, r, &Begins::Counted));
            quote! {
                let ends = begin < width || {
                    #left -= 1;
                    #left == 0 && {
                        #left = tile.blocks.rows();
                        i + 1 - #back < height
                    }
                };
                if ends {
                    #ended
                }
            }
        })
        .collect()
}

/// One input row, `line`, into the accumulator rows `first..=last`.
fn span_arm(body: &Body, vectors: usize, first: usize, last: usize) -> TokenStream {
    let float = format_ident!("{}", body.dtype.name());
    let lanes = body.lanes();
    let span = lanes * vectors;
    match body.taps {
        Taps::Unrolled(width) => {
            let reach = number(span + width - 1);
            let (back, width_token, values) = (number(last), number(width), number((last - first + 1) * width));
            let template_rows: TokenStream = (first..=last)
                .map(|r| {
                    let (row, at) = (format_ident!("t_{r}"), number((last - r) * width));
                    quote!(let #row: &[#float; #width_token] = head(&rows[#at..]);)
                })
                .collect();
            let taps: TokenStream = (0..width)
                .map(|j| {
                    let at = number(j);
                    tap(body, vectors, first, last, &quote!(#at), j)
                })
                .collect();
            // Else the compiler loads what all input rows take, before it adds anything, and has nowhere to put it.
            let settled: TokenStream = (first..=last)
                .flat_map(|r| (0..vectors).map(move |c| acc(r, c)))
                .filter(|_| body.isa != Isa::Portable)
                .map(|acc| quote!(#acc = isa::settled(#acc);))
                .collect();
            quote! {
                let line: &[#float; #reach] = head(line);
                // Told anew for every input row: the compiler keeps taps that it knows again, more of them than there
                // are registers.
                let rows: &[#float; #values] = head(&black_box(template)[(i - #back) * #width_token..]);
                #template_rows
                #taps
                #settled
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
            let (tap, ends) = (tap(body, vectors, first, last, &quote!(j), 0), ends(body, vectors, first, last));
            let apart =
                if shares_vectors(body) { apart(body, vectors) } else { quote!(let (mut begin, mut taken) = (0, 0);) };
            quote! {
                #template_rows
                #apart
                loop {
                    let end = width.min(begin + cut - taken);
                    for (j, line) in (begin..end).zip(line[begin..].windows(#span)) {
                        let line: &[#float; #span] = head(line);
                        #tap
                    }
                    (begin, taken) = (end, 0);
                    #ends
                    if begin == width {
                        break;
                    }
                }
            }
        }
    }
}

/// Taps a vector apart that share their loads.
const APART: usize = 4;

/// Whether taps that lie a vector apart share their loads: in a block of one row, where nothing else does. Such a body
/// adds the products of the first taps of [`APART`] vectors, then those of the second taps, and so on, and what is left
/// at a row's end tap by tap.
fn shares_vectors(body: &Body) -> bool {
    body.rows == 1 && body.op == Op::Correlate && body.isa != Isa::Portable
}

/// Those taps of the only row, from `begin = 0` on, and how many of them were `taken` into the block at hand.
fn apart(body: &Body, vectors: usize) -> TokenStream {
    let float = format_ident!("{}", body.dtype.name());
    let lanes = body.lanes();
    let (all, step, reach) = (number(lanes * APART), number(lanes), number(lanes * (vectors + APART - 1)));
    let taps: TokenStream = (0..APART)
        .map(|m| {
            let (t, at) = (format_ident!("t_apart_{m}"), number(m * lanes));
            quote!(let #t = isa::splat(taps[j + #at]);)
        })
        .collect();
    let products: TokenStream = (0..vectors + APART - 1)
        .map(|v| {
            let at = number(v * lanes);
            let added: TokenStream = (0..APART)
                .filter(|m| (*m..*m + vectors).contains(&v))
                .map(|m| {
                    let (acc, t) = (acc(0, v - m), format_ident!("t_apart_{m}"));
                    quote!(#acc = isa::mul_add(value, #t, #acc);)
                })
                .collect();
            quote! {
                let value = isa::load(line, #at);
                #added
            }
        })
        .collect();
    let (apart, ended) = (number(APART), end_block(body, vectors, 0, &Begins::Counted));
    quote! {
        let (mut begin, mut taken) = (0, 0);
        // Columns of taps in a block: all of them, or a part, for a row is cut into pieces that these divide or that
        // divide these.
        let columns = cut.min(#all) / #apart;
        while begin + #all <= width {
            let taps: &[#float; #all] = head(&t_0[begin..]);
            let mut from = 0;
            while from < #step {
                let to = #step.min(from + columns);
                for (j, line) in (from..to).zip(line[begin + from..].windows(#reach)) {
                    let line: &[#float; #reach] = head(line);
                    #taps
                    #products
                }
                taken += (to - from) * #apart;
                from = to;
                if taken == cut && begin + #apart * from < width {
                    taken = 0;
                    #ended
                }
            }
            begin += #all;
        }
    }
}

/// One tap `j` of the accumulator rows `first..=last`: the vectors of `line` from `offset`, each used by every row. The
/// rows' taps, or the vectors, whichever are fewer, are loaded first and held; the others come one after the other.
fn tap(body: &Body, vectors: usize, first: usize, last: usize, j: &TokenStream, offset: usize) -> TokenStream {
    let value = |c: usize| {
        let (value, at) = (format_ident!("v_{c}"), number(offset + c * body.lanes()));
        quote!(let #value = isa::load(line, #at);)
    };
    let splat = |r: usize| {
        let (t, template, w, weights) =
            (format_ident!("tap_{r}"), format_ident!("t_{r}"), format_ident!("weight_{r}"), format_ident!("w_{r}"));
        let weight = match body.op {
            Op::Correlate => quote!(),
            Op::AbsDiff => quote!(let #w = isa::splat(#weights[#j]);),
        };
        quote!(let #t = isa::splat(#template[#j]); #weight)
    };
    let product = |r: usize, c: usize| {
        let (acc, value, t, w) =
            (acc(r, c), format_ident!("v_{c}"), format_ident!("tap_{r}"), format_ident!("weight_{r}"));
        match body.op {
            Op::Correlate => quote!(#acc = isa::mul_add(#value, #t, #acc);),
            Op::AbsDiff => quote!(#acc = isa::mul_add(#w, isa::abs_diff(#value, #t), #acc);),
        }
    };
    if body.rows < vectors {
        let held = (first..=last).map(splat);
        let columns = (0..vectors).map(|c| {
            let (value, products) = (value(c), (first..=last).map(|r| product(r, c)));
            quote!(#value #(#products)*)
        });
        quote!(#(#held)* #(#columns)*)
    } else {
        let held = (0..vectors).map(value);
        let rows = (first..=last).map(|r| {
            let (splat, products) = (splat(r), (0..vectors).map(|c| product(r, c)));
            quote!(#splat #(#products)*)
        });
        quote!(#(#held)* #(#rows)*)
    }
}

fn acc(r: usize, c: usize) -> Ident {
    format_ident!("acc_{r}_{c}")
}

/// The attribute that lets a function use an instruction set.
pub fn features(isa: Isa) -> TokenStream {
    match isa.row().features {
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
        let of = body("corr_f32_rows_avx2", Isa::Avx2, Op::Correlate, Taps::Rolled, 2, 2);
        let written = body("corr_f32_w2_avx2", Isa::Avx2, Op::Correlate, Taps::Unrolled(2), 2, 2);
        insta::assert_snapshot!(lines(kernel(&written, Some(&of))));
    }

    #[test]
    fn a_loop_over_taps() {
        insta::assert_snapshot!(lines(kernel(
            &body("sad_f32_rows_portable", Isa::Portable, Op::AbsDiff, Taps::Rolled, 2, 1),
            None
        )));
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
