//! The syntax of `direct_kernels!`: braced rows of `key = value`, every key once.

use flcc_core::isa::{ISAS, Isa, Operands, TABLE};
use proc_macro2::Ident;
use syn::parse::{Parse, ParseStream};
use syn::{LitInt, Token, braced};

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

/// All kernels of one instruction set and type: one row of the invocation.
#[derive(Clone, Debug)]
pub struct Family {
    pub isa: Isa,
    pub dtype: Float,
    pub rows: usize,
    pub vectors: usize,
    pub line_vectors: usize,
    pub sad_rows: usize,
    pub sad_vectors: usize,
    pub unroll: usize,
}

impl Family {
    /// Values of one vector.
    pub fn lanes(&self) -> usize {
        self.isa.row().vector_bytes / self.dtype.size()
    }
}

/// The kernels of bytes of one instruction set: a row of the invocation with `dtype = u8`.
#[derive(Clone, Debug)]
pub struct ByteFamily {
    pub isa: Isa,
    pub rows: usize,
    pub line_vectors: usize,
}

/// A kernel whose body is not emitted: a row of the invocation with a `body`.
#[derive(Clone, Debug)]
pub struct Written {
    pub isa: Isa,
    /// Its function.
    pub body: Ident,
    /// Outputs that it computes at least, side by side.
    pub lanes: usize,
}

/// One row of the invocation.
enum Row {
    Floats(Family),
    Bytes(ByteFamily),
    Written(Written),
}

/// What kernels take: floats or bytes.
#[derive(Clone, Copy)]
enum Operand {
    Float(Float),
    Byte,
}

impl Operand {
    fn name(self) -> &'static str {
        match self {
            Operand::Float(float) => float.name(),
            Operand::Byte => "u8",
        }
    }
}

const OPERANDS: [Operand; 3] = [Operand::Float(Float::F32), Operand::Float(Float::F64), Operand::Byte];
const NUMBERS: [&str; 7] = ["rows", "vectors", "line_vectors", "sad_rows", "sad_vectors", "unroll", "lanes"];

impl Parse for Row {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let fields;
        let brace = braced!(fields in input);
        let (mut isa, mut dtype, mut body, mut numbers) = (None, None, None, [None; NUMBERS.len()]);
        while !fields.is_empty() {
            let key: Ident = fields.parse()?;
            fields.parse::<Token![=]>()?;
            let again = if key == "isa" {
                isa.replace(one_of(&fields.parse()?, &ISAS, Isa::name)?).is_some()
            } else if key == "dtype" {
                dtype.replace(one_of(&fields.parse()?, &OPERANDS, Operand::name)?).is_some()
            } else if key == "body" {
                body.replace(fields.parse::<Ident>()?).is_some()
            } else if let Some(at) = NUMBERS.iter().position(|name| key == name) {
                let number: LitInt = fields.parse()?;
                let value: usize = number.base10_parse()?;
                if value == 0 && key != "unroll" {
                    return Err(syn::Error::new(number.span(), format!("{key} is at least 1")));
                }
                numbers[at].replace(value).is_some()
            } else {
                return Err(syn::Error::new(
                    key.span(),
                    format!("expected isa, dtype, body, {}; got {key}", NUMBERS.join(", ")),
                ));
            };
            if again {
                return Err(syn::Error::new(key.span(), format!("{key} is given twice")));
            }
            if !fields.is_empty() {
                fields.parse::<Token![,]>()?;
            }
        }
        let error = |text: String| syn::Error::new(brace.span.join(), text);
        let missing = |name: &str| error(format!("{name} is missing"));
        let number =
            |name: &str| NUMBERS.iter().zip(numbers).find(|(known, _)| **known == name).and_then(|(_, number)| number);
        let needed = |name: &str| number(name).ok_or_else(|| missing(name));
        // Every number that a row of the kind does not have is an error.
        let only = |known: &[&str], row: Row| match NUMBERS
            .into_iter()
            .find(|name| number(name).is_some() && !known.contains(name))
        {
            Some(name) => Err(error(format!(
                "{} have no {name}",
                if body.is_some() { "written bodies" } else { "kernels of u8" }
            ))),
            None => Ok(row),
        };
        let isa = isa.ok_or_else(|| missing("isa"))?;
        if let Some(body) = body.clone() {
            let row = Written { isa, body, lanes: needed("lanes")? };
            return match dtype.ok_or_else(|| missing("dtype"))? {
                Operand::Byte => only(&["lanes"], Row::Written(row)),
                Operand::Float(_) => Err(error("written bodies are of u8".into())),
            };
        }
        let (rows, line_vectors) = (needed("rows")?, needed("line_vectors")?);
        match dtype.ok_or_else(|| missing("dtype"))? {
            Operand::Byte if isa.row().operands == Operands::Bytes => {
                only(&["rows", "line_vectors"], Row::Bytes(ByteFamily { isa, rows, line_vectors }))
            }
            Operand::Byte => {
                let of_bytes = TABLE.iter().filter(|row| row.operands == Operands::Bytes);
                let names: Vec<_> = of_bytes.map(|row| row.name).collect();
                Err(error(format!("kernels of u8 need the products of {}, or a body; got {isa}", names.join(" or "))))
            }
            Operand::Float(_) if !isa.has_floats() => Err(error(format!("kernels of {isa} are of u8"))),
            Operand::Float(dtype) => Ok(Row::Floats(Family {
                isa,
                dtype,
                rows,
                vectors: needed("vectors")?,
                line_vectors,
                sad_rows: needed("sad_rows")?,
                sad_vectors: needed("sad_vectors")?,
                unroll: needed("unroll")?,
            })),
        }
    }
}

fn one_of<T: Copy>(got: &Ident, known: &[T], name: impl Fn(T) -> &'static str) -> syn::Result<T> {
    known.iter().copied().find(|&value| got == name(value)).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|&value| name(value)).collect();
        syn::Error::new(got.span(), format!("expected {}; got {got}", names.join(", ")))
    })
}

/// The whole invocation.
#[derive(Default)]
pub struct Families {
    pub floats: Vec<Family>,
    pub bytes: Vec<ByteFamily>,
    pub written: Vec<Written>,
}

impl Parse for Families {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut families = Families::default();
        while !input.is_empty() {
            match input.parse()? {
                Row::Floats(family) => families.floats.push(family),
                Row::Bytes(family) => families.bytes.push(family),
                Row::Written(kernel) => families.written.push(kernel),
            }
        }
        Ok(families)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        syn::parse_str::<Families>(text).err().expect("an error").to_string()
    }

    #[test]
    fn a_row_is_read() {
        let text = "{ isa = avx2, dtype = f64, rows = 6, vectors = 2, line_vectors = 8, sad_rows = 4, sad_vectors = 2,
            unroll = 9 }";
        let families = syn::parse_str::<Families>(text).unwrap().floats;
        assert_eq!(families.len(), 1);
        let family = &families[0];
        assert_eq!((family.isa, family.dtype, family.lanes()), (Isa::Avx2, Float::F64, 4));
        assert_eq!((family.rows, family.vectors, family.line_vectors, family.unroll), (6, 2, 8, 9));
    }

    #[test]
    fn a_row_of_bytes_is_read() {
        let families =
            syn::parse_str::<Families>("{ isa = avx512vnni, dtype = u8, rows = 6, line_vectors = 4 }").unwrap();
        assert!(families.floats.is_empty());
        assert_eq!((families.bytes[0].rows, families.bytes[0].line_vectors), (6, 4));
    }

    #[test]
    fn an_error_says_what_was_expected() {
        assert_eq!(
            error("{ isa = sse9 }"),
            "expected amx, avx512vnni, avx512, avx2, neondot, neon, portable; got sse9"
        );
        assert_eq!(error("{ isa = avx2, isa = avx2 }"), "isa is given twice");
        assert_eq!(error("{ isa = avx2, rows = 0 }"), "rows is at least 1");
        assert_eq!(error("{ isa = avx2 }"), "rows is missing");
        assert_eq!(
            error("{ isa = avx2, dtype = u8, rows = 6, line_vectors = 4 }"),
            "kernels of u8 need the products of avx512vnni or neondot, or a body; got avx2"
        );
        assert_eq!(
            error("{ isa = avx512vnni, dtype = u8, rows = 6, line_vectors = 4, unroll = 2 }"),
            "kernels of u8 have no unroll"
        );
        assert_eq!(
            error("{ isa = avx512vnni, dtype = f32, rows = 6, line_vectors = 4 }"),
            "kernels of avx512vnni are of u8"
        );
        assert_eq!(error("{ isa = amx, dtype = u8, body = correlate_tiles }"), "lanes is missing");
        assert_eq!(error("{ isa = amx, dtype = f32, body = correlate_tiles, lanes = 16 }"), "written bodies are of u8");
        assert_eq!(
            error("{ isa = amx, dtype = u8, body = correlate_tiles, lanes = 16, rows = 6 }"),
            "written bodies have no rows"
        );
    }

    #[test]
    fn a_row_with_a_body_is_read() {
        let families =
            syn::parse_str::<Families>("{ isa = amx, dtype = u8, body = correlate_tiles, lanes = 16 }").unwrap();
        assert_eq!((families.written[0].isa, families.written[0].lanes), (Isa::Amx, 16));
    }
}
