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
#![forbid(unsafe_code)]

mod bytes;
mod parse;
mod table;
mod unroll;

/// Emits the bodies of every listed kernel and `static KERNELS: &[Kernel]`, the table of them.
///
/// One braced row for each instruction set and type:
///
/// ```text
/// direct_kernels! {
///     { isa = avx512, dtype = f32, rows = 6, vectors = 4, line_vectors = 8, sad_rows = 4, sad_vectors = 4,
///       unroll = 8 }
///     { isa = avx512vnni, dtype = u8, rows = 6, line_vectors = 4 }
///     { isa = amx, dtype = u8, body = correlate_tiles, lanes = 16 }
/// }
/// ```
///
/// - `isa`: `avx512`, `avx2`, `neon` or `portable`; `dtype`: `f32` or `f64`
/// - `rows`, `vectors`: the register block of the correlation bodies; `line_vectors`: the width of the one-row bodies
/// - `sad_rows`, `sad_vectors`: the register block of the sums of absolute differences
/// - `unroll`: the widest square whose rows and taps are written out. Kernels of wider rows, and of one row, share a
///   function that loops over the taps around the written-out register block, as do templates that are no squares
///
/// Bytes (`dtype = u8`) have their products from `avx512vnni` or `neondot` and two bodies, `corr_u8_any_ISA` and
/// `corr_u8_anyline_ISA`, of `rows` rows and of one row of as many outputs as `line_vectors` vectors have bytes. A row
/// with a `body` emits nothing but its line of the table and its test, `corr_u8_any_ISA`: that function of the invoking
/// module serves every template and rounds widths up to `lanes`.
///
/// Emitted for each: `corr_T_wN_ISA` for the widths of [`flcc_core::sizes::row_widths`], `corr_T_nN_ISA` for those of
/// [`flcc_core::sizes::line_widths`], and `corr_T_any_ISA`, `corr_T_anyline_ISA`, `sad_T_any_ISA`, `sad_T_anyline_ISA`.
/// Two kernels of one name do not compile. The module that invokes it has `Kernel` of `crate::cpu::kernels::kernel` in
/// scope.
#[proc_macro]
pub fn direct_kernels(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    match syn::parse::<parse::Families>(input) {
        Ok(families) => table::table(&families).into(),
        Err(error) => error.to_compile_error().into(),
    }
}
