//! Which kernels there are: their names, their modules and the static table.

use flcc_core::isa::Isa;
use flcc_core::sizes;
use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};

use crate::bytes;
use crate::parse::{ByteFamily, Families, Family, Written};
use crate::unroll::{self, Body, Op, Taps};

/// A kernel of the table.
struct Emitted {
    name: String,
    op: Op,
    /// Its variant of the runtime's `Widths`.
    width: TokenStream,
    block_rows: usize,
    /// Its function, if that is emitted.
    code: TokenStream,
    /// What its function is called from the table.
    path: TokenStream,
}

/// The modules of bodies, one for each family, and `static KERNELS`.
pub fn table(families: &Families) -> TokenStream {
    let (mut modules, mut rows, mut tests) = (TokenStream::new(), TokenStream::new(), TokenStream::new());
    for family in &families.floats {
        let shared = Shared::new(family);
        let entries = entries(family, &shared);
        modules.extend(module(family, &shared, &entries));
        let of =
            Of { isa: family.isa, dtype: family.dtype.name(), variant: family.dtype.variant(), lanes: family.lanes() };
        rows.extend(entries.iter().map(|entry| row(&of, entry)));
        tests.extend(entries.iter().map(|entry| test(&of, entry)));
    }
    for family in &families.bytes {
        let entries = byte_entries(family);
        let of = Of { isa: family.isa, dtype: "u8", variant: "U8", lanes: bytes::span(family.isa) };
        modules.extend(byte_module(&of, &entries));
        rows.extend(entries.iter().map(|entry| row(&of, entry)));
        tests.extend(entries.iter().map(|entry| test(&of, entry)));
    }
    for kernel in &families.written {
        let of = Of { isa: kernel.isa, dtype: "u8", variant: "U8", lanes: kernel.lanes };
        let entry = written_entry(kernel);
        rows.extend(row(&of, &entry));
        tests.extend(test(&of, &entry));
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
            rows: body(Op::Correlate, "rows", family.blocks.rows, family.blocks.vectors),
            line: body(Op::Correlate, "line", 1, family.blocks.line_vectors),
            sad: body(Op::AbsDiff, "rows", family.blocks.sad_rows, family.blocks.sad_vectors),
            sad_line: body(Op::AbsDiff, "line", 1, family.blocks.line_vectors),
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
fn entries(family: &Family, shared: &Shared) -> Vec<Emitted> {
    let entry = |of: &Body, label: String, width: TokenStream, taps: usize| {
        let name = name(family, of.op, &label);
        let code = if of.op == Op::Correlate && of.rows > 1 && (1..=family.blocks.unroll).contains(&taps) {
            unroll::kernel(&Body { name: name.clone(), taps: Taps::Unrolled(taps), ..of.clone() }, Some(of))
        } else {
            unroll::instance(&name, of)
        };
        let path = path(family.isa, family.dtype.name(), &name);
        Emitted { name, op: of.op, width, block_rows: of.rows, code, path }
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

/// Every kernel of bytes.
fn byte_entries(family: &ByteFamily) -> Vec<Emitted> {
    let entry = |label: &str, width: TokenStream, rows, vectors| {
        let name = format!("corr_u8_{label}_{}", family.isa.name());
        let code = bytes::kernel(&bytes::Body { name: name.clone(), isa: family.isa, rows, vectors });
        let path = path(family.isa, "u8", &name);
        Emitted { name, op: Op::Correlate, width, block_rows: rows, code, path }
    };
    vec![entry("any", quote!(Any), family.rows, 1), entry("anyline", quote!(AnyLine), 1, family.line_vectors)]
}

/// A kernel that serves every template and whose body stands elsewhere.
fn written_entry(kernel: &Written) -> Emitted {
    let (name, path) = (format!("corr_u8_any_{}", kernel.isa.name()), &kernel.body);
    Emitted {
        name,
        op: Op::Correlate,
        width: quote!(Any),
        block_rows: 1,
        code: TokenStream::new(),
        path: quote!(#path),
    }
}

/// A function of a module of bodies.
fn path(isa: Isa, dtype: &str, name: &str) -> TokenStream {
    let (module, function) = (module_name(isa, dtype), format_ident!("{name}"));
    quote!(#module::#function)
}

/// What the kernels of a family have in common.
struct Of {
    isa: Isa,
    dtype: &'static str,
    /// The type's variant of `DType` and of the runtime's `Function`.
    variant: &'static str,
    lanes: usize,
}

/// The module of a family's bodies.
fn module(family: &Family, shared: &Shared, entries: &[Emitted]) -> TokenStream {
    let cfg = cfg(family.isa);
    let name = module_name(family.isa, family.dtype.name());
    let Shared { rows, line, sad, sad_line } = shared;
    let mut bodies: TokenStream =
        [rows, line, sad, sad_line].into_iter().map(|body| unroll::kernel(body, None)).collect();
    bodies.extend(entries.iter().map(|entry| entry.code.clone()));
    quote! {
        #cfg
        mod #name {
            use std::hint::black_box;

            use crate::isa::{#name as isa, ask, head, head_mut};
            use crate::cpu::aligned::OnLine;
            use crate::cpu::kernels::kernel::Tile;
            #bodies
        }
    }
}

/// The module of bodies of bytes.
fn byte_module(of: &Of, entries: &[Emitted]) -> TokenStream {
    let cfg = cfg(of.isa);
    let name = module_name(of.isa, of.dtype);
    let bodies: TokenStream = entries.iter().map(|entry| entry.code.clone()).collect();
    quote! {
        #cfg
        mod #name {
            use crate::cpu::kernels::operands::ByteTile;
            use crate::isa::{#name as isa, ask, head};
            #bodies
        }
    }
}

/// A kernel's row of the static table.
fn row(of: &Of, entry: &Emitted) -> TokenStream {
    let cfg = cfg(of.isa);
    let (name, width, path) = (&entry.name, &entry.width, &entry.path);
    let op = match entry.op {
        Op::Correlate => quote!(Correlate),
        Op::AbsDiff => quote!(AbsDiff),
    };
    let (isa, entry_type) = (format_ident!("{}", format!("{:?}", of.isa)), format_ident!("{}", of.variant));
    let (block_rows, lanes) = (Literal::usize_unsuffixed(entry.block_rows), Literal::usize_unsuffixed(of.lanes));
    quote! {
        #cfg
        Kernel {
            name: #name,
            op: KernelOp::#op,
            dtype: DType::#entry_type,
            width: Widths::#width,
            isa: Isa::#isa,
            block_rows: #block_rows,
            lanes: #lanes,
            function: Function::#entry_type(#path),
        },
    }
}

/// The test of a kernel.
fn test(of: &Of, entry: &Emitted) -> TokenStream {
    let cfg = cfg(of.isa);
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

fn module_name(isa: Isa, dtype: &str) -> proc_macro2::Ident {
    format_ident!("{}_{dtype}", isa.name())
}

fn cfg(isa: Isa) -> TokenStream {
    match isa.row().arch {
        Some(arch) => quote!(#[cfg(target_arch = #arch)]),
        None => quote!(),
    }
}
