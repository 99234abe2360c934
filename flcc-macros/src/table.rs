//! Which kernels there are: their names, their modules and the static table.

use flcc_core::sizes;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::parse::Family;
use crate::unroll::{self, Body, Op, Taps};

/// A kernel of the table: its body, and its `Width` there.
struct Entry {
    body: Body,
    width: TokenStream,
}

/// The modules of bodies, one for each family, and `static KERNELS`.
pub fn table(families: &[Family]) -> TokenStream {
    let (mut modules, mut rows) = (TokenStream::new(), TokenStream::new());
    for family in families {
        let entries = entries(family);
        modules.extend(module(family, &entries));
        rows.extend(entries.iter().map(|entry| row(family, entry)));
    }
    quote! {
        #modules
        /// Every kernel of this target.
        static KERNELS: &[Kernel] = &[#rows];
    }
}

/// Every kernel of a family.
fn entries(family: &Family) -> Vec<Entry> {
    let entry = |op: Op, label: String, width: TokenStream, taps: Taps, rows: usize, vectors: usize| {
        let short = match op {
            Op::Correlate => "corr",
            Op::AbsDiff => "sad",
        };
        let name = format!("{short}_{}_{label}_{}", family.dtype.name(), family.isa.name());
        Entry { body: Body { name, isa: family.isa, dtype: family.dtype, op, taps, rows, vectors }, width }
    };
    let taps = |width: usize| {
        if width <= family.unroll {
            Taps::Unrolled { width, ragged: width <= family.unroll_ragged }
        } else {
            Taps::Rolled(width)
        }
    };
    let mut entries = Vec::new();
    for width in sizes::row_widths() {
        let count = Literal::usize_unsuffixed(width);
        entries.push(entry(Op::Correlate, format!("w{width}"), quote!(Row(#count)), taps(width), family.rows, family.vectors));
    }
    for width in sizes::line_widths() {
        let count = Literal::usize_unsuffixed(width);
        entries.push(entry(Op::Correlate, format!("n{width}"), quote!(Line(#count)), taps(width), 1, family.line_vectors));
    }
    entries.push(entry(Op::Correlate, "any".into(), quote!(Any), Taps::Any, family.rows, family.vectors));
    entries.push(entry(Op::Correlate, "anyline".into(), quote!(AnyLine), Taps::Any, 1, family.line_vectors));
    entries.push(entry(Op::AbsDiff, "any".into(), quote!(Any), Taps::Any, family.sad_rows, family.sad_vectors));
    entries.push(entry(Op::AbsDiff, "anyline".into(), quote!(AnyLine), Taps::Any, 1, family.sad_rows * family.sad_vectors));
    entries
}

/// The module of a family's bodies.
fn module(family: &Family, entries: &[Entry]) -> TokenStream {
    let cfg = cfg(family);
    let name = module_name(family);
    let bodies: TokenStream = entries.iter().map(|entry| unroll::kernel(&entry.body)).collect();
    quote! {
        #cfg
        mod #name {
            use crate::cpu::isa::{self, #name as isa, head, head_mut};
            use crate::cpu::kernel::Tile;
            #bodies
        }
    }
}

/// A kernel's row of the static table.
fn row(family: &Family, entry: &Entry) -> TokenStream {
    let cfg = cfg(family);
    let module = module_name(family);
    let (name, width) = (&entry.body.name, &entry.width);
    let function = format_ident!("{name}");
    let op = match entry.body.op {
        Op::Correlate => quote!(Correlate),
        Op::AbsDiff => quote!(AbsDiff),
    };
    let (isa, entry_type) = (format_ident!("{}", family.isa.variant()), format_ident!("{}", family.dtype.variant()));
    let (block_rows, lanes) = (Literal::usize_unsuffixed(entry.body.rows), Literal::usize_unsuffixed(family.lanes()));
    quote! {
        #cfg
        Kernel {
            name: #name,
            op: KernelOp::#op,
            dtype: DType::#entry_type,
            width: Width::#width,
            isa: Isa::#isa,
            block_rows: #block_rows,
            lanes: #lanes,
            entry: Entry::#entry_type(#module::#function),
        },
    }
}

fn module_name(family: &Family) -> proc_macro2::Ident {
    format_ident!("{}_{}", family.isa.name(), family.dtype.name())
}

fn cfg(family: &Family) -> TokenStream {
    match family.isa.target_arch() {
        Some(arch) => quote!(#[cfg(target_arch = #arch)]),
        None => quote!(),
    }
}
