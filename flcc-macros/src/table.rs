//! Which kernels there are: their names, their modules and the static table.

use flcc_core::sizes;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::parse::Family;
use crate::unroll::{self, Body, Op, Taps};

/// A kernel of the table.
struct Entry {
    name: String,
    op: Op,
    /// Its `Width` in the runtime.
    width: TokenStream,
    block_rows: usize,
    /// Its function.
    code: TokenStream,
}

/// The modules of bodies, one for each family, and `static KERNELS`.
pub fn table(families: &[Family]) -> TokenStream {
    let (mut modules, mut rows, mut tests) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
    for family in families {
        let shared = Shared::new(family);
        let entries = entries(family, &shared);
        modules.extend(module(family, &shared, &entries));
        rows.extend(entries.iter().map(|entry| row(family, entry)));
        tests.extend(entries.iter().map(|entry| test(family, entry)));
    }
    quote! {
        #modules
        /// Every kernel of this target.
        static KERNELS: &[Kernel] = &[#rows];

        /// A test for each row, by the kernel's name.
        #[cfg(test)]
        mod conformance {
            #tests
        }
    }
}

/// The functions that kernels of a family share.
struct Shared {
    rows: Body,
    line: Body,
    sad: Body,
    sad_line: Body,
}

impl Shared {
    fn new(family: &Family) -> Shared {
        let body = |op, label: &str, rows, vectors| Body {
            name: name(family, op, label),
            isa: family.isa,
            dtype: family.dtype,
            op,
            taps: Taps::Rolled,
            rows,
            vectors,
        };
        Shared {
            rows: body(Op::Correlate, "rows", family.rows, family.vectors),
            line: body(Op::Correlate, "line", 1, family.line_vectors),
            sad: body(Op::AbsDiff, "rows", family.sad_rows, family.sad_vectors),
            sad_line: body(Op::AbsDiff, "line", 1, family.line_vectors),
        }
    }
}

/// The kernel's one name.
fn name(family: &Family, op: Op, label: &str) -> String {
    let op = match op {
        Op::Correlate => "corr",
        Op::AbsDiff => "sad",
    };
    format!("{op}_{}_{label}_{}", family.dtype.name(), family.isa.name())
}

/// Every kernel of a family.
fn entries(family: &Family, shared: &Shared) -> Vec<Entry> {
    let entry = |of: &Body, label: String, width: TokenStream, taps: usize| {
        let name = name(family, of.op, &label);
        let code = if of.op == Op::Correlate && of.rows > 1 && (1..=family.unroll).contains(&taps) {
            unroll::kernel(&Body { name: name.clone(), taps: Taps::Unrolled(taps), ..of.clone() }, Some(of))
        } else {
            unroll::instance(&name, of)
        };
        Entry { name, op: of.op, width, block_rows: of.rows, code }
    };
    let mut entries = Vec::new();
    for width in sizes::row_widths() {
        let count = Literal::usize_unsuffixed(width);
        entries.push(entry(&shared.rows, format!("w{width}"), quote!(Row(#count)), width));
    }
    for width in sizes::line_widths() {
        let count = Literal::usize_unsuffixed(width);
        entries.push(entry(&shared.line, format!("n{width}"), quote!(Line(#count)), width));
    }
    for (rows, line) in [(&shared.rows, &shared.line), (&shared.sad, &shared.sad_line)] {
        entries.push(entry(rows, "any".into(), quote!(Any), 0));
        entries.push(entry(line, "anyline".into(), quote!(AnyLine), 0));
    }
    entries
}

/// The module of a family's bodies.
fn module(family: &Family, shared: &Shared, entries: &[Entry]) -> TokenStream {
    let cfg = cfg(family);
    let name = module_name(family);
    let Shared { rows, line, sad, sad_line } = shared;
    let mut bodies: TokenStream = [rows, line, sad, sad_line].into_iter().map(|body| unroll::kernel(body, None)).collect();
    bodies.extend(entries.iter().map(|entry| entry.code.clone()));
    quote! {
        #cfg
        mod #name {
            use std::hint::black_box;

            use crate::cpu::isa::{#name as isa, ask, head, head_mut};
            use crate::cpu::kernel::Tile;
            #bodies
        }
    }
}

/// A kernel's row of the static table.
fn row(family: &Family, entry: &Entry) -> TokenStream {
    let cfg = cfg(family);
    let module = module_name(family);
    let (name, width) = (&entry.name, &entry.width);
    let function = format_ident!("{name}");
    let op = match entry.op {
        Op::Correlate => quote!(Correlate),
        Op::AbsDiff => quote!(AbsDiff),
    };
    let (isa, entry_type) = (format_ident!("{}", family.isa.variant()), format_ident!("{}", family.dtype.variant()));
    let (block_rows, lanes) = (Literal::usize_unsuffixed(entry.block_rows), Literal::usize_unsuffixed(family.lanes()));
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

/// The test of a kernel.
fn test(family: &Family, entry: &Entry) -> TokenStream {
    let cfg = cfg(family);
    let name = &entry.name;
    let function = format_ident!("{name}");
    quote! {
        #cfg
        #[test]
        #[cfg_attr(miri, ignore = "hours; miri runs portable_kernels_under_miri")]
        fn #function() {
            super::tests::kernel_conforms(#name);
        }
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
