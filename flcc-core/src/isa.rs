//! Instruction sets of CPUs: the one list of their names, and what it takes to compile for each.
//!
//! flcc-macros reads it while it expands bodies. Whether a processor has one of them is asked in the runtime.

use std::fmt;
use std::str::FromStr;

/// An instruction set that kernels exist for, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isa {
    /// AVX-512F with AMX-INT8: products of tiles of bytes, where the operating system grants them.
    Amx,
    /// AVX-512F with AVX-512 VNNI: sums of four products of bytes at once.
    Avx512Vnni,
    /// AVX-512F: vectors of 64 bytes, 32 registers.
    Avx512,
    /// AVX2 and FMA: vectors of 32 bytes, 16 registers.
    Avx2,
    /// NEON with the dot product (FEAT_DotProd, `asimddp`): sums of four products of bytes at once.
    NeonDot,
    /// NEON (Advanced SIMD of 64-bit Arm): vectors of 16 bytes, 32 registers.
    Neon,
    /// Plain Rust that the compiler vectorises for whatever the target has. Every machine has it.
    Portable,
}

/// What the kernels of an instruction set multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Floats: f32 and f64.
    Floats,
    /// Bytes, and nothing else, in vectors: sums of four products.
    Bytes,
    /// Bytes, and nothing else, in tiles.
    Tiles,
}

/// What the rest of the program asks about an instruction set.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The instruction set.
    pub isa: Isa,
    /// Its name in kernels, modules, `FLCC_ISA` and `FLCC_REQUIRE`.
    pub name: &'static str,
    /// The only architecture that has it, as Rust calls that; `None` where every target has it.
    pub arch: Option<&'static str>,
    /// The features of the target that its functions enable, with commas; `None` where every target has them.
    pub features: Option<&'static str>,
    /// Bytes of one vector.
    pub vector_bytes: usize,
    /// What its kernels multiply.
    pub operands: Operands,
}

/// The table of instruction sets, in the order of [`Isa`]: that in which kernels are preferred.
pub const TABLE: [Row; 7] = [
    x86(Isa::Amx, "amx", "avx512f", 64, Operands::Tiles),
    x86(Isa::Avx512Vnni, "avx512vnni", "avx512f,avx512vnni", 64, Operands::Bytes),
    x86(Isa::Avx512, "avx512", "avx512f", 64, Operands::Floats),
    x86(Isa::Avx2, "avx2", "avx2,fma", 32, Operands::Floats),
    arm(Isa::NeonDot, "neondot", "neon,dotprod", Operands::Bytes),
    arm(Isa::Neon, "neon", "neon", Operands::Floats),
    Row {
        isa: Isa::Portable,
        name: "portable",
        arch: None,
        features: None,
        vector_bytes: 32,
        operands: Operands::Floats,
    },
];

const fn x86(isa: Isa, name: &'static str, features: &'static str, vector_bytes: usize, operands: Operands) -> Row {
    Row { isa, name, arch: Some("x86_64"), features: Some(features), vector_bytes, operands }
}

const fn arm(isa: Isa, name: &'static str, features: &'static str, operands: Operands) -> Row {
    Row { isa, name, arch: Some("aarch64"), features: Some(features), vector_bytes: 16, operands }
}

/// Every instruction set, in the order in which kernels are preferred.
pub const ISAS: [Isa; TABLE.len()] = {
    let mut isas = [Isa::Portable; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        isas[at] = TABLE[at].isa;
        at += 1;
    }
    isas
};

impl Isa {
    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Its name in kernels, in `FLCC_ISA` and in `FLCC_REQUIRE`: `amx`, `avx512vnni`, `avx512`, `avx2`, `neondot`,
    /// `neon` or `portable`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether its kernels compute in f32 and f64, and not in bytes alone.
    pub fn has_floats(self) -> bool {
        self.row().operands == Operands::Floats
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no instruction set's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an instruction set ({}), got {got:?}", ISAS.map(Isa::name).join(", "))]
pub struct UnknownIsa {
    /// What was given.
    pub got: String,
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(text: &str) -> Result<Isa, UnknownIsa> {
        ISAS.into_iter().find(|isa| isa.name() == text).ok_or_else(|| UnknownIsa { got: text.to_string() })
    }
}

/// The instruction sets that may be used. Always holds [`Isa::Portable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IsaSet([bool; ISAS.len()]);

impl IsaSet {
    /// The instruction sets of a described machine. Planning for it needs no such processor; to bind a kernel does.
    pub fn of(isas: &[Isa]) -> IsaSet {
        IsaSet(ISAS.map(|isa| isa == Isa::Portable || isas.contains(&isa)))
    }

    /// The set without what is preferred to `isa`: `restrict(avx512)` leaves out `amx` and `avx512vnni`.
    pub fn restrict(self, isa: Isa) -> IsaSet {
        let mut set = self;
        for better in ISAS.into_iter().take_while(|&other| other != isa) {
            set.0[better as usize] = false;
        }
        set
    }

    /// The members of the set that `keep` holds for; it is asked about no others, and not about [`Isa::Portable`].
    pub fn filter(self, keep: impl Fn(Isa) -> bool) -> IsaSet {
        IsaSet(ISAS.map(|isa| isa == Isa::Portable || self.has(isa) && keep(isa)))
    }

    /// Whether `isa` may be used.
    pub fn has(&self, isa: Isa) -> bool {
        self.0[isa as usize]
    }

    /// The instruction sets that may be used, the best first.
    pub fn iter(&self) -> impl Iterator<Item = Isa> + '_ {
        ISAS.into_iter().filter(|&isa| self.has(isa))
    }
}

/// The names, best first, with commas.
impl fmt::Display for IsaSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, isa) in self.iter().enumerate() {
            write!(f, "{}{isa}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for isa in ISAS {
            assert_eq!(isa.to_string().parse(), Ok(isa));
            assert_eq!(isa.row().isa, isa);
        }
        assert_eq!(
            "sse9".parse::<Isa>().unwrap_err().to_string(),
            "expected an instruction set (amx, avx512vnni, avx512, avx2, neondot, neon, portable), got \"sse9\""
        );
    }

    #[test]
    fn a_restriction_leaves_out_what_is_better() {
        let all = IsaSet::of(&ISAS);
        assert_eq!(all.to_string(), "amx,avx512vnni,avx512,avx2,neondot,neon,portable");
        assert_eq!(all.restrict(Isa::Amx), all);
        assert_eq!(all.restrict(Isa::Avx512Vnni).to_string(), "avx512vnni,avx512,avx2,neondot,neon,portable");
        assert_eq!(all.restrict(Isa::Avx512).to_string(), "avx512,avx2,neondot,neon,portable");
        assert_eq!(all.restrict(Isa::Avx2).to_string(), "avx2,neondot,neon,portable");
        assert_eq!(all.restrict(Isa::Neon).to_string(), "neon,portable");
        assert_eq!(all.restrict(Isa::Portable), IsaSet::of(&[]));
        assert_eq!(IsaSet::of(&[]).restrict(Isa::Avx2).to_string(), "portable");
    }

    #[test]
    fn each_row_says_what_compiling_takes() {
        for row in TABLE {
            assert_eq!(row.arch.is_some(), row.features.is_some(), "{}", row.name);
            assert!(row.vector_bytes.is_power_of_two(), "{}", row.name);
        }
    }
}
