//! The syntax of `direct_kernels!`: `set = function` for each instruction set whose body is written, with commas; and
//! what the table of instruction sets makes of it.

use flcc_core::isa::{FloatBlocks, ISAS, Isa, Kernels, Row};
use proc_macro2::{Ident, Span};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Token};

/// A type that kernels compute in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Float {
    F32,
    F64,
}

impl Float {
    /// Its name in Rust and in kernels.
    pub fn name(self) -> &'static str {
        match self {
            Float::F32 => "f32",
            Float::F64 => "f64",
        }
    }

    /// Its variant of `DType` and of the runtime's `Function`.
    pub fn variant(self) -> &'static str {
        match self {
            Float::F32 => "F32",
            Float::F64 => "F64",
        }
    }

    /// Bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Float::F32 => 4,
            Float::F64 => 8,
        }
    }
}

/// All kernels of one instruction set and type.
#[derive(Clone, Debug)]
pub struct Family {
    pub isa: Isa,
    pub dtype: Float,
    pub blocks: FloatBlocks,
}

impl Family {
    /// Values of one vector.
    pub fn lanes(&self) -> usize {
        self.isa.row().vector_bytes / self.dtype.size()
    }
}

/// The kernels of bytes of one instruction set.
#[derive(Clone, Debug)]
pub struct ByteFamily {
    pub isa: Isa,
    pub rows: usize,
    pub line_vectors: usize,
}

/// A kernel whose body is not emitted.
#[derive(Clone, Debug)]
pub struct Written {
    pub isa: Isa,
    /// Its function.
    pub body: Ident,
    /// Outputs that it computes at least, side by side.
    pub lanes: usize,
}

/// The function of an instruction set: `amx = correlate_tiles`.
struct Body {
    isa: Isa,
    span: Span,
    function: Ident,
}

impl Parse for Body {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name: Ident = input.parse()?;
        let known = ISAS.into_iter().find(|isa| name == isa.name());
        let isa = known.ok_or_else(|| {
            Error::new(name.span(), format!("expected {}; got {name}", ISAS.map(Isa::name).join(", ")))
        })?;
        input.parse::<Token![=]>()?;
        Ok(Body { isa, span: name.span(), function: input.parse()? })
    }
}

/// The functions that the invocation names.
pub struct Bodies(Punctuated<Body, Token![,]>);

impl Parse for Bodies {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        Punctuated::parse_terminated(input).map(Bodies)
    }
}

/// The kernels of a table of instruction sets.
#[derive(Default)]
pub struct Families {
    pub floats: Vec<Family>,
    pub bytes: Vec<ByteFamily>,
    pub written: Vec<Written>,
}

impl Families {
    /// Those of the rows; the sets whose body is written take it from `bodies`, where each has one and no other set.
    pub fn of(rows: &[Row], bodies: &Bodies) -> syn::Result<Families> {
        let mut families = Families::default();
        for &Row { isa, kernels, .. } in rows {
            let mut given = bodies.0.iter().filter(|body| body.isa == isa);
            let body = given.next();
            if let Some(again) = given.next() {
                return Err(Error::new(again.span, format!("{isa} is given twice")));
            }
            match (kernels, body) {
                (Kernels::Floats { single, double }, None) => {
                    let of = |(dtype, blocks)| Family { isa, dtype, blocks };
                    families.floats.extend([(Float::F32, single), (Float::F64, double)].map(of));
                }
                (Kernels::Bytes { rows, line_vectors }, None) => {
                    families.bytes.push(ByteFamily { isa, rows, line_vectors });
                }
                (Kernels::Tiles { lanes }, Some(body)) => {
                    families.written.push(Written { isa, body: body.function.clone(), lanes });
                }
                (Kernels::Tiles { .. }, None) => {
                    return Err(Error::new(Span::call_site(), format!("expected {isa} = FUNCTION")));
                }
                (_, Some(body)) => {
                    return Err(Error::new(body.span, format!("the bodies of {isa} are emitted, not written")));
                }
            }
        }
        Ok(families)
    }
}

#[cfg(test)]
mod tests {
    use flcc_core::isa::TABLE;

    use super::*;

    fn families(text: &str) -> syn::Result<Families> {
        Families::of(&TABLE, &syn::parse_str(text)?)
    }

    #[test]
    fn each_set_of_the_table_has_kernels_of_one_kind() {
        let families = families("amx = correlate_tiles").unwrap();
        let floats: Vec<_> = families.floats.iter().map(|family| (family.isa.name(), family.dtype.name())).collect();
        let with_floats = ISAS.into_iter().filter(|isa| isa.has_floats());
        assert_eq!(floats, with_floats.flat_map(|isa| ["f32", "f64"].map(|t| (isa.name(), t))).collect::<Vec<_>>());
        assert_eq!(families.floats.iter().find(|family| family.isa == Isa::Avx2).unwrap().lanes(), 8);
        assert_eq!(families.floats.len() / 2 + families.bytes.len() + families.written.len(), TABLE.len());
        assert_eq!((families.written[0].isa, families.written[0].lanes), (Isa::Amx, 16));
        assert_eq!(families.written[0].body, "correlate_tiles");
    }

    #[test]
    fn an_error_says_what_was_expected() {
        let error = |text: &str| families(text).err().expect("an error").to_string();
        assert_eq!(error(""), "expected amx = FUNCTION");
        assert_eq!(error("amx = a, amx = b"), "amx is given twice");
        assert_eq!(error("amx = a, avx2 = b"), "the bodies of avx2 are emitted, not written");
        assert_eq!(error("sse9 = a"), "expected amx, avx512vnni, avx512, avx2, neondot, neon, portable; got sse9");
    }
}
