//! The name of a CUDA kernel in typed parts: what the matrix is made of.
//!
//! `op _ pixel type _ size _ target`: `corr_f32_7x7_b32x8`, `zncc_u8_any_b32x8_sm80`. It is a part of the names of
//! `flcc_core::key`, which only says what a name looks like; here the numbers in it count.

use std::fmt;
use std::str::FromStr;

use flcc_core::dtype::DType;
use flcc_core::error::SpecError;

/// What tells one kernel from every other. Its text form is the kernel's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelKey {
    op: String,
    dtype: DType,
    size: KernelSize,
    target: Target,
}

/// Which templates a kernel serves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelSize {
    /// One shape, slowest axis first: `7x7`, `3x3x3`, and `64` for 1D.
    Exact(Vec<usize>),
    /// Every template whose innermost row has this width: `w7`.
    Row(usize),
    /// Every template: `any`.
    Any,
}

/// What a kernel runs on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// A CPU instruction set by its name: `avx512`, `portable`.
    Isa(String),
    /// A CUDA thread block, in CUDA's order: `b32x8` has 32 threads along a row and 8 rows of them.
    Block {
        /// Threads along a row.
        x: usize,
        /// Rows of threads.
        y: usize,
        /// The lowest architecture, where the template needs one: `_sm80`.
        arch: Option<u32>,
    },
}

impl KernelKey {
    /// A key whose text form parses back to it.
    ///
    /// # Errors
    ///
    /// `op` and an instruction set are lowercase words (letters, then digits too), an exact size has 1 to 3 axes, and no
    /// number is 0. An instruction set must not read as a block.
    pub fn new(op: &str, dtype: DType, size: KernelSize, target: Target) -> Result<KernelKey, SpecError> {
        let key = KernelKey { op: op.into(), dtype, size, target };
        let name = key.to_string();
        match name.parse::<KernelKey>() {
            Ok(parsed) if parsed == key => Ok(key),
            _ => Err(bad(&name)),
        }
    }

    /// The operation's word: `corr`, or a measure's name.
    pub fn op(&self) -> &str {
        &self.op
    }

    /// The type of image and template.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Which templates it serves.
    pub fn size(&self) -> &KernelSize {
        &self.size
    }

    /// What it runs on.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

impl fmt::Display for KernelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}_{}_{}", self.op, self.dtype, self.size, self.target)
    }
}

impl fmt::Display for KernelSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelSize::Exact(sides) => {
                let sides: Vec<String> = sides.iter().map(usize::to_string).collect();
                f.write_str(&sides.join("x"))
            }
            KernelSize::Row(width) => write!(f, "w{width}"),
            KernelSize::Any => f.write_str("any"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Isa(name) => f.write_str(name),
            Target::Block { x, y, arch: None } => write!(f, "b{x}x{y}"),
            Target::Block { x, y, arch: Some(arch) } => write!(f, "b{x}x{y}_sm{arch}"),
        }
    }
}

impl FromStr for KernelKey {
    type Err = SpecError;

    fn from_str(name: &str) -> Result<KernelKey, SpecError> {
        parse(name).ok_or_else(|| bad(name))
    }
}

fn bad(name: &str) -> SpecError {
    SpecError::new("kernel name", "op_type_size_target such as corr_f32_7x7_b32x8", name)
}

fn parse(name: &str) -> Option<KernelKey> {
    let mut parts = name.split('_');
    let op = parts.next().filter(|op| is_word(op))?;
    let dtype = parts.next()?.parse().ok()?;
    let size = parse_size(parts.next()?)?;
    let target = parts.next()?;
    let arch = match parts.next() {
        Some(part) => Some(u32::try_from(number(part.strip_prefix("sm")?)?).ok()?),
        None => None,
    };
    if parts.next().is_some() {
        return None;
    }
    let target = match (parse_block(target), arch) {
        (Some((x, y)), arch) => Target::Block { x, y, arch },
        (None, None) if is_word(target) => Target::Isa(target.into()),
        _ => return None,
    };
    Some(KernelKey { op: op.into(), dtype, size, target })
}

fn parse_size(text: &str) -> Option<KernelSize> {
    if text == "any" {
        return Some(KernelSize::Any);
    }
    if let Some(width) = text.strip_prefix('w') {
        return number(width).map(KernelSize::Row);
    }
    let sides: Vec<usize> = text.split('x').map(number).collect::<Option<_>>()?;
    (sides.len() <= 3).then_some(KernelSize::Exact(sides))
}

fn parse_block(text: &str) -> Option<(usize, usize)> {
    let (x, y) = text.strip_prefix('b')?.split_once('x')?;
    Some((number(x)?, number(y)?))
}

/// A positive number in its one spelling: no sign, no leading zero.
fn number(text: &str) -> Option<usize> {
    text.parse().ok().filter(|value: &usize| *value > 0 && value.to_string() == text)
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_are_one() {
        for name in [
            "corr_f32_7x7_b32x8",
            "corr_f32_7x7_avx512",
            "corr_u8_w16_portable",
            "zncc_u8_any_b32x8_sm80",
            "corr_f64_64_avx2",
            "corr_f32_3x3x3_b8x8",
        ] {
            assert_eq!(name.parse::<KernelKey>().unwrap().to_string(), name);
            assert_eq!(name.parse::<flcc_core::key::KernelKey>().unwrap().to_string(), name, "and a name in core");
        }
    }

    #[test]
    fn a_key_holds_what_its_name_says() {
        let key: KernelKey = "zncc_u16_5x9_b32x8_sm80".parse().unwrap();
        let target = Target::Block { x: 32, y: 8, arch: Some(80) };
        assert_eq!(key, KernelKey::new("zncc", DType::U16, KernelSize::Exact(vec![5, 9]), target).unwrap());
    }

    #[test]
    fn a_second_spelling_is_an_error() {
        for name in [
            "corr_f32_07x7_b32x8",
            "corr_f32_0_avx2",
            "corr_f32_7x7",
            "Corr_f32_7x7_avx2",
            "corr_f32_1x1x1x1_avx2",
            "corr_f32_7x7_avx2_sm80",
            "",
        ] {
            assert!(name.parse::<KernelKey>().is_err(), "{name}");
        }
        assert!(KernelKey::new("corr", DType::F32, KernelSize::Any, Target::Isa("b32x8".into())).is_err());
        assert!(KernelKey::new("co_rr", DType::F32, KernelSize::Any, Target::Isa("avx2".into())).is_err());
        assert!(KernelKey::new("corr", DType::F32, KernelSize::Exact(vec![]), Target::Isa("avx2".into())).is_err());
    }
}
