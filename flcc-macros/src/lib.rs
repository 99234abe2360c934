//! Emits FLCC's unrolled CPU kernels and their table.
//!
//! It knows the syntax of a kernel (a register block of accumulators, the taps of one template row written out) and the
//! lists of sizes and of instruction sets, [`flcc_core::sizes`] and [`flcc_core::isa`], which it reads while it
//! expands. It never looks at the machine it runs on: an instruction set's bodies are emitted under
//! `#[cfg(target_arch)]`, so that cross compiling works.
//!
//! - `parse`: the small syntax of [`direct_kernels!`]
//! - `unroll`: the bodies in floats
//! - `bytes`: the bodies of bytes
//! - `table`: the modules and the static table
//! - `detect`: what [`features_detected!`] asks the processor
//! - `paragraphs`: the text of [`paragraphs!`]
#![forbid(unsafe_code)]

mod bytes;
mod detect;
mod paragraphs;
mod parse;
mod table;
mod unroll;

use flcc_core::isa::TABLE;

/// Emits the bodies of every listed kernel and `static KERNELS: &[Kernel]`, the table of them.
///
/// The instruction sets and the register blocks of their bodies are those of [`flcc_core::isa::TABLE`]. Those whose
/// body is written and not emitted get its name here:
///
/// ```text
/// direct_kernels! { amx = correlate_tiles }
/// ```
///
/// Sets with floats have kernels in `f32` and `f64`. Emitted for each: `corr_T_wN_ISA` for the widths of
/// [`flcc_core::sizes::row_widths`], `corr_T_nN_ISA` for those of [`flcc_core::sizes::line_widths`], and
/// `corr_T_any_ISA`, `corr_T_anyline_ISA`, `sad_T_any_ISA`, `sad_T_anyline_ISA`. Rows and taps of squares are written
/// out up to the width `unroll`. Kernels of wider rows, and of one row, share a function that loops over the taps
/// around the written-out register block, as do templates that are no squares.
///
/// Sets with bytes have two bodies, `corr_u8_any_ISA` and `corr_u8_anyline_ISA`, of `rows` rows and of one row of as
/// many outputs as `line_vectors` vectors have bytes. A written body gets its line of the table and its test,
/// `corr_u8_any_ISA`: that function of the invoking module serves every template and rounds widths up to `lanes`.
///
/// Two kernels of one name do not compile. The module that invokes it has `Kernel` of `crate::cpu::kernels::kernel` in
/// scope.
#[proc_macro]
pub fn direct_kernels(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    match syn::parse::<parse::Bodies>(input).and_then(|bodies| parse::Families::of(&TABLE, &bodies)) {
        Ok(families) => table::table(&families).into(),
        Err(error) => error.to_compile_error().into(),
    }
}

/// Whether the processor that this runs on has the features of an instruction set: `features_detected!(isa)` with any
/// expression for an [`Isa`](flcc_core::isa::Isa).
///
/// It asks for those that [`flcc_core::isa::TABLE`] names. Where another architecture has the set, it is false.
#[proc_macro]
pub fn features_detected(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    detect::features(&TABLE, &input.into()).into()
}

/// The paragraphs of text files, file by file, `&[&[&str]]`, each with the empty line behind it:
/// `paragraphs!("cuda/kernel.cu", "cuda/rest.cu")`, from the folder of the invoking package on.
///
/// Paragraphs that texts share are in a program once, where `include_str!` holds each text whole, and so are the lists
/// of a file that is named more than once.
#[proc_macro]
pub fn paragraphs(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    paragraphs::of_files(root.as_ref(), input.into()).unwrap_or_else(|error| error.to_compile_error()).into()
}
