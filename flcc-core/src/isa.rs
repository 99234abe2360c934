//! Instruction sets of CPUs: the one list of their names, and what it takes to compile for each.
//!
//! flcc-macros reads it while it expands bodies, and the question whether a processor has one of them.

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

/// What the kernels of an instruction set multiply, and the register blocks of their bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// Floats: `f32` and `f64`.
    Floats {
        /// The blocks of those in `f32`.
        single: FloatBlocks,
        /// The blocks of those in `f64`.
        double: FloatBlocks,
    },
    /// Bytes, and nothing else, in vectors: sums of four products.
    Bytes {
        /// Rows of a block, one vector wide.
        rows: usize,
        /// Vectors of a block of one row.
        line_vectors: usize,
    },
    /// Bytes, and nothing else, in tiles. Their body is written, not emitted.
    Tiles {
        /// Outputs that the body computes at least, side by side.
        lanes: usize,
    },
}

/// The register blocks of the bodies for one type of floats: how many rows and vectors of outputs they compute at once.
///
/// They are sized to stay in registers: AVX-512 and NEON have 32 of them, AVX2 and SSE2 16. A tap of each row is held
/// beside the sums, and a vector of samples. Of blocks with 24 sums, 4 rows of 6 vectors read less that neighbours
/// below read again than 6 rows of 4 do, and longer runs of lines. Of blocks with 12 sums, 2 rows of 6 vectors leave
/// one register of 16 free; 4 rows of 3 leave none, and the compiler keeps a sum in memory, where each addition waits
/// for the one before (AVX2, f32, microseconds for 256x192 results, the least of many runs in turns):
///
/// | | 3x3 | 5x5 | 8x8 | 12x12 | 16x16 | 32x32 |
/// |---|---|---|---|---|---|---|
/// | 4 rows of 3 | 23 | 47 | 136 | 228 | 630 | 2480 |
/// | 6 rows of 2 | 26 | 43 | 84 | 205 | 360 | 1210 |
/// | 2 rows of 6 | 20 | 37 | 77 | 174 | 293 | 1110 |
///
/// What writing out the rows and taps of squares gains was measured (AVX-512, f32, in cache, 1e9 multiply-adds a
/// second, the best of five runs in turns): written out, rows in a loop with taps written out, and both in loops, as
/// one function for all widths:
///
/// | | written out | taps | one for all |
/// |---|---|---|---|
/// | 3x3 | 17.8 | 17.6 | |
/// | 5x5 | 31.3 | 28.7 | |
/// | 8x8 | 35.5 | 40.4 | 35.2 |
/// | 3x3x3 | 14.8 | 13.4 | |
/// | 5x5x5 | 31.6 | 28.4 | |
/// | 8x8x8 | 37.4 | 34.4 | 26.8 |
///
/// Beyond, the loops lose nothing (12x12: 50.8, 16x16: 56.3, where the processor gives 66 to a block that reads from
/// the nearest cache). These figures are of blocks of 6 rows of 4 vectors. By AVX2 the 256x192 results of a 5x5 take 37
/// us written out and 45 by the loops, of an 8x8 77 and 91, of a 9x9 105 and 108. Each width written out costs some
/// seconds of build time, so widths up to 8 are. Of f64 by AVX2 widths up to 6 are: 1000x1000 results take 4.4 ms
/// written out and 5.0 by the loops for a 6x6, 6.3 and 5.5 for a 7x7, 7.0 and 6.2 for an 8x8. NEON was not measured: it
/// has the blocks of AVX-512, which has as many registers, and nothing written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatBlocks {
    /// Rows of a block of correlations.
    pub rows: usize,
    /// Vectors of each of them.
    pub vectors: usize,
    /// Vectors of a block of one row.
    pub line_vectors: usize,
    /// Rows of a block of sums of absolute differences.
    pub sad_rows: usize,
    /// Vectors of each of them.
    pub sad_vectors: usize,
    /// The widest square whose rows and taps are written out; 0 for none.
    pub unroll: usize,
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
    /// Its kernels.
    pub kernels: Kernels,
}

/// The table of instruction sets, in the order of [`Isa`]: that in which kernels are preferred.
pub const TABLE: [Row; 7] = [
    x86(Isa::Amx, "amx", "avx512f", 64, Kernels::Tiles { lanes: 16 }),
    x86(Isa::Avx512Vnni, "avx512vnni", "avx512f,avx512vnni", 64, SUMS_OF_FOUR),
    x86(Isa::Avx512, "avx512", "avx512f", 64, Kernels::Floats { single: IN_32, double: IN_32 }),
    x86(
        Isa::Avx2,
        "avx2",
        "avx2,fma",
        32,
        Kernels::Floats { single: IN_16, double: FloatBlocks { unroll: 6, ..IN_16 } },
    ),
    arm(Isa::NeonDot, "neondot", "neon,dotprod", SUMS_OF_FOUR),
    arm(Isa::Neon, "neon", "neon", Kernels::Floats { single: IN_LOOPS, double: IN_LOOPS }),
    Row {
        isa: Isa::Portable,
        name: "portable",
        arch: None,
        features: None,
        vector_bytes: 32,
        kernels: Kernels::Floats { single: PLAIN, double: PLAIN },
    },
];

/// In 32 registers.
const IN_32: FloatBlocks =
    FloatBlocks { rows: 4, vectors: 6, line_vectors: 16, sad_rows: 4, sad_vectors: 4, unroll: 8 };
/// In 32 registers, nothing written out.
const IN_LOOPS: FloatBlocks = FloatBlocks { unroll: 0, ..IN_32 };
/// In 16 registers.
const IN_16: FloatBlocks = FloatBlocks { rows: 2, vectors: 6, line_vectors: 8, sad_rows: 4, sad_vectors: 2, unroll: 8 };
/// In what the compiler makes of arrays.
const PLAIN: FloatBlocks = FloatBlocks { rows: 4, vectors: 1, line_vectors: 4, sad_rows: 2, sad_vectors: 1, unroll: 0 };
/// Of bytes in 32 registers.
const SUMS_OF_FOUR: Kernels = Kernels::Bytes { rows: 6, line_vectors: 4 };

const fn x86(isa: Isa, name: &'static str, features: &'static str, vector_bytes: usize, kernels: Kernels) -> Row {
    Row { isa, name, arch: Some("x86_64"), features: Some(features), vector_bytes, kernels }
}

const fn arm(isa: Isa, name: &'static str, features: &'static str, kernels: Kernels) -> Row {
    Row { isa, name, arch: Some("aarch64"), features: Some(features), vector_bytes: 16, kernels }
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
        matches!(self.row().kernels, Kernels::Floats { .. })
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
