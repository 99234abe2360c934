//! What offers are made of, and what it costs: amounts of work, and nanoseconds for one of each.
//!
//! A solver states the work of an offer in the [`Term`]s of one table. What a term costs stands in [`Costs`], which
//! `flcc tune` fits to times measured on a machine. No solver knows a nanosecond.

use std::fmt;

use flcc_core::error::SpecError;

use crate::isa::{Isa, IsaSet};

macro_rules! terms {
    ($($(#[doc = $doc:literal])+ $term:ident $name:literal [$avx512:literal $avx2:literal $portable:literal])+) => {
        /// A kind of work that offers are made of.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Term {
            $($(#[doc = $doc])+ $term,)+
        }

        /// Every kind of work.
        pub const TERMS: [Term; [$($name),+].len()] = [$(Term::$term),+];

        impl Term {
            /// The term's name in tables of costs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Term::$term => $name,)+
                }
            }

            /// Whether a GPU does it.
            pub fn of_device(self) -> bool {
                self.name().starts_with("device_")
            }

            /// What one of it costs where nothing was measured, in nanoseconds: with AVX-512, AVX2 and neither.
            fn usual(self) -> [f64; 3] {
                match self {
                    $(Term::$term => [$avx512, $avx2, $portable],)+
                }
            }
        }
    };
}

terms! {
    /// A call: what an execution takes whatever its size.
    Call "call" [737.0 800.0 800.0]
    /// Sharing a call among threads: waking them, and waiting for the last.
    Share "share" [9000.0 9000.0 9000.0]
    /// A tile of any method.
    Tile "tile" [335.0 300.0 400.0]
    /// A multiply-add of a direct kernel in f32, those of rounded-up blocks counted.
    TapSingle "tap_f32" [0.00981 0.024 0.055]
    /// What a multiply-add of a direct kernel in f32 costs more where templates have more than eight planes.
    TapDeep "tap_deep" [0.00891 0.01 0.0]
    /// A multiply-add of a direct kernel in f64.
    TapDouble "tap_f64" [0.0209 0.05 0.16]
    /// A row of taps over a block of a direct kernel in f64.
    TapRow "tap_row" [0.564 0.8 1.6]
    /// A row of taps over a block of a direct kernel in f32.
    TapRowSingle "tap_row_f32" [0.15 0.8 1.6]
    /// An absolute difference in f32.
    DifferenceSingle "difference_f32" [0.0188 0.05 0.105]
    /// An absolute difference in f64.
    DifferenceDouble "difference_f64" [0.0371 0.09 0.25]
    /// A product of bytes, those with the zeros that fill groups and blocks counted.
    TapByte "tap_u8" [0.0023 0.0025 0.0025]
    /// Interleaving and writing a sum of bytes.
    StoreByte "store_u8" [0.0472 0.05 0.05]
    /// A cycle of the unit that multiplies tiles of bytes.
    UnitCycle "unit_cycle" [0.36 0.36 0.36]
    /// Writing a sum of that unit, and what begins with a tile of it.
    UnitStore "unit_store" [0.75 0.75 0.75]
    /// A product of a tap along one axis, of a separable template, in f32.
    LineSingle "line_f32" [0.0111 0.05 0.2]
    /// A product of a tap along one axis, of a separable template, in f64.
    LineDouble "line_f64" [0.0476 0.06 0.3]
    /// A sample that a pass along an axis of a separable template reads or writes.
    LinePass "line_pass" [0.289 0.25 0.2]
    /// A sample of a library's transform in f32, times the logarithm of the transform's length to base 2.
    LibrarySingle "library_f32" [0.0524 0.06 0.06]
    /// A sample of a library's transform in f64, times the logarithm of the transform's length to base 2.
    LibraryDouble "library_f64" [0.126 0.14 0.14]
    /// A sample of a library's transform beyond the second-level cache, there or back, times the logarithm of how many
    /// times larger it is than what stays near, to base 2.
    LibraryFar "library_far" [0.606 0.7 0.6]
    /// A line that a library transforms.
    LibraryLine "library_line" [3.49 4.0 4.0]
    /// A library's transform of a tile, whatever its size.
    LibraryCall "library_call" [272.0 300.0 300.0]
    /// A product of two spectra.
    Product "product" [0.606 0.6 0.6]
    /// A sample of two tiles by transforms of our own, times the logarithm of the transform's samples to base 2.
    Pair "pair" [0.0586 0.11 0.11]
    /// A sample of one tile that a whole result fits in, by a transform of our own, times the logarithm of the
    /// transform's samples to base 2.
    Single "single" [0.0131 0.047 0.047]
    /// A sample of two lines by transforms of our own, times the logarithm of the transform's samples to base 2.
    Lines "lines" [0.0686 0.14 0.14]
    /// A sample of two planes of a volume by transforms of our own, times the logarithm of the transform's samples to
    /// base 2.
    Planes "planes" [0.0809 0.16 0.16]
    /// A sample of columns by transforms of our own, times the logarithm of a transform's samples to base 2.
    Columns "columns" [0.0334 0.083 0.083]
    /// A sample of a transform of our own of more than 128 samples a side, times the logarithm of its samples and how
    /// many times longer than 256 it is.
    OwnFar "own_far" [0.012 0.02 0.02]
    /// What is computed again of promised scores by transforms of our own of more than 128 samples a side, in units of
    /// `OwnFar`: the larger a tile, the more of it is faint.
    OwnDoubt "own_doubt" [0.0033 0.01 0.01]
    /// A multiply-add of a tap along rows of frequencies of columns.
    TapColumn "tap_column" [0.0108 0.018 0.018]
    /// A multiply-add of a plane's frequencies.
    TapPlane "tap_plane" [0.00977 0.02 0.02]
    /// Gathering a sample of the type that is computed in.
    Copy "copy" [0.338 0.25 0.45]
    /// Gathering a sample of another type.
    Convert "convert" [0.373 0.35 1.0]
    /// Gathering a sample as a byte.
    CopyByte "copy_u8" [0.0626 0.06 0.06]
    /// Looking at a sample where it lies.
    Look "look" [0.194 0.15 0.15]
    /// Writing a result where it belongs, row by row of a direct kernel, and looking at its samples.
    InPlace "in_place" [0.0913 0.15 0.4]
    /// Writing a sum that is the result.
    Write "write" [0.0931 0.2 0.5]
    /// A score made in vectors, window sums included.
    ScoreVector "score_vector" [0.604 1.35 6.0]
    /// A score made in f64.
    ScoreDouble "score_f64" [1.06 1.5 4.5]
    /// A score made of integers.
    ScoreInteger "score_integer" [2.18 3.5 3.5]
    /// A sample of window sums in f64 or integers, once for sums and once for squares.
    WindowSum "window_sum" [2.25 1.5 1.2]
    /// A score that is likely to be computed again, since a transform leaves it in doubt.
    Again "again" [3.37 5.0 5.0]
    /// A byte of an image and its results that no second-level cache holds.
    Memory "memory" [0.00635 0.03 0.05]
    /// A multiply-add of a GPU in f32, times its multiprocessors.
    DeviceTapSingle "device_tap_f32" [0.008457 0.008457 0.008457]
    /// A multiply-add of a direct kernel in f64 on a GPU, times its multiprocessors.
    DeviceTapDouble "device_tap_f64" [0.01417 0.01417 0.01417]
    /// A product of bytes on a GPU, times its multiprocessors.
    DeviceTapByte "device_tap_u8" [0.003072 0.003072 0.003072]
    /// What a multiply-add in f32 costs more by a kernel for templates of any size, times its multiprocessors.
    DeviceTapAny "device_tap_any" [0.003317 0.003317 0.003317]
    /// What a product of bytes costs more by a kernel for templates of any size, times its multiprocessors.
    DeviceTapAnyByte "device_tap_any_u8" [0.001285 0.001285 0.001285]
    /// What a multiply-add in f64 costs more by a kernel for templates of any size, times its multiprocessors.
    DeviceTapAnyDouble "device_tap_any_f64" [0.01241 0.01241 0.01241]
    /// A product of bytes on a GPU's tensor cores, times its multiprocessors.
    DeviceTapTensor "device_tap_tensor" [0.0003091 0.0003091 0.0003091]
    /// A multiply-add of a GPU's kernel of products of lines in f32: of the blocks that a multiprocessor computes.
    DeviceFactor "device_factor" [0.0085 0.0085 0.0085]
    /// The same in f64.
    DeviceFactorDouble "device_factor_f64" [0.0136 0.0136 0.0136]
    /// A sample that a block of such a kernel takes: of the blocks that a multiprocessor computes.
    DeviceFactorSample "device_factor_sample" [0.5 0.5 0.5]
    /// What a multiply-add costs more where templates have several planes, times a GPU's multiprocessors.
    DeviceTapVolume "device_tap_volume" [0.003157 0.003157 0.003157]
    /// An absolute difference in f64 on a GPU, times its multiprocessors.
    DeviceDifference "device_difference" [0.04954 0.04954 0.04954]
    /// A byte that a GPU's transforms move, times its multiprocessors.
    DeviceTransform "device_transform" [0.04768 0.04768 0.04768]
    /// A byte copied to or from a GPU.
    DeviceCopy "device_copy" [0.0831 0.0831 0.0831]
    /// A call of a GPU, beside its kernels and the bytes that it copies.
    DeviceTrip "device_trip" [22000.0 22000.0 22000.0]
    /// A launch of a kernel of a GPU's pipeline, or a piece of memory that it clears.
    DeviceLaunch "device_launch" [3817.0 3817.0 3817.0]
    /// A launch of a kernel from the image to the result.
    DeviceStraight "device_straight" [5680.0 5680.0 5680.0]
    /// A launch of a GPU's transform along an axis by the library.
    DeviceLibrary "device_library" [2965.0 2965.0 2965.0]
    /// A sample of a window whose score a GPU computes again, since a transform leaves it in doubt, times its
    /// multiprocessors.
    DeviceAgain "device_again" [2.515 2.515 2.515]
    /// Binding a template to a plan on a GPU.
    DeviceBind "device_bind" [45000.0 45000.0 45000.0]
    /// Loading a kernel of a GPU that has a template's values in its code.
    DeviceBindTaps "device_bind_taps" [260000.0 260000.0 260000.0]
    /// A sample of a template's spectrum for a GPU's transforms of our own, times the logarithm of the samples to base
    /// 2.
    DeviceBindSpectrum "device_bind_spectrum" [10.0 10.0 10.0]
    /// Binding a template to a GPU's transforms by the library.
    DeviceBindLibrary "device_bind_library" [700000.0 700000.0 700000.0]
    /// A sample of a template's spectrum for these, times the logarithm of the samples to base 2.
    DeviceBindTransform "device_bind_transform" [5.0 5.0 5.0]
    /// A sample of two tiles by a GPU's transforms of tiles, times the logarithm of a tile's samples to base 2: of the
    /// blocks that a multiprocessor computes.
    DeviceTile "device_tile" [0.04917 0.04917 0.04917]
    /// The same where scores are made of its results.
    DeviceTileScores "device_tile_scores" [0.1113 0.1113 0.1113]
    /// A sample of two tiles by a GPU's transforms of tiles that no block has room for, times the logarithm of a tile's
    /// samples to base 2, idle places of blocks counted.
    DeviceLarge "device_large" [0.00065 0.00065 0.00065]
    /// The same where scores are made of its results.
    DeviceLargeScores "device_large_scores" [0.00115 0.00115 0.00115]
    /// A sample of two parts of volumes by a GPU's transforms, times the logarithm of a part's samples to base 2: of
    /// the blocks that a multiprocessor computes.
    DeviceVolume "device_volume" [0.04669 0.04669 0.04669]
    /// The same where scores are made of its results.
    DeviceVolumeScores "device_volume_scores" [0.04896 0.04896 0.04896]
    /// A sample of two stretches of signals by a GPU's transforms, times the logarithm of a stretch's samples to base
    /// 2: of the blocks that a multiprocessor computes.
    DeviceLine "device_line" [0.03746 0.03746 0.03746]
    /// The same of stretches that no first-level cache holds.
    DeviceLineLong "device_line_long" [0.06311 0.06311 0.06311]
    /// A sample of a line of an image with a template of its own by a GPU's transforms, times the logarithm of its
    /// samples to base 2 and the multiprocessors.
    DevicePairLine "device_pair_line" [0.0598 0.0598 0.0598]
    /// A product of frequencies of such lines, times the multiprocessors.
    DevicePairProduct "device_pair_product" [0.019 0.019 0.019]
    /// A row of samples that a warp of a GPU takes into or out of the window sums of a plane, after the one before.
    DeviceWindowStep "device_window_step" [485.0 485.0 485.0]
    /// A row of samples that a warp of a GPU takes into or out of the window sums of a plane.
    DeviceWindowRow "device_window_row" [0.2794 0.2794 0.2794]
    /// A sample that a GPU's pipeline gathers, or looks at.
    DeviceGather "device_gather" [0.0009735 0.0009735 0.0009735]
    /// A sample about which a GPU's pipeline finds the panels of extraordinary ones.
    DeviceHits "device_hits" [0.004493 0.004493 0.004493]
    /// A sample of window sums on a GPU, once for squares and once for samples.
    DeviceSum "device_sum" [0.01199 0.01199 0.01199]
    /// A sample, or an output, of which a GPU takes the figures of tiles.
    DeviceFigures "device_figures" [0.008681 0.008681 0.008681]
    /// Window sums of an output of a volume on a GPU, and its score.
    DeviceWindow "device_window" [0.02315 0.02315 0.02315]
    /// An output that a GPU's pipeline finishes.
    DeviceOutput "device_output" [0.00913 0.00913 0.00913]
    /// What it takes more for a score.
    DeviceScore "device_score" [0.007669 0.007669 0.007669]
    /// A score in the kernel of the cross term.
    DeviceFused "device_fused" [0.007387 0.007387 0.007387]
    /// A score of bytes that tensor cores make.
    DeviceFusedTensor "device_fused_tensor" [0.0044 0.0044 0.0044]
}

/// What of a GPU's work its kernels do not do.
const BESIDE_KERNELS: [Term; 2] = [Term::DeviceCopy, Term::DeviceTrip];

/// Terms that the work of one offer has room for before it grows.
const USUAL: usize = 12;

/// What counts of work that goes on beside something slower.
const HIDDEN: f64 = 0.1;

/// Amounts of work, by term, in pieces that threads share.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Those that are not zero, in the order of terms: work is of some ten of them.
    amounts: Vec<(Term, f64)>,
    pieces: usize,
    /// What the largest piece is of the whole.
    largest: f64,
    /// Images that share what it costs to wake threads.
    images: f64,
    /// Whether copies to and from a GPU go on while other images are computed.
    overlaps: bool,
}

impl Default for Work {
    fn default() -> Work {
        Work { amounts: Vec::with_capacity(USUAL), pieces: 1, largest: 1.0, images: 1.0, overlaps: false }
    }
}

impl Work {
    /// The work with some more of a term.
    #[must_use]
    pub fn and(mut self, term: Term, amount: f64) -> Work {
        match self.amounts.binary_search_by_key(&(term as usize), |(other, _)| *other as usize) {
            Ok(place) => self.amounts[place].1 += amount,
            Err(place) if amount != 0.0 => self.amounts.insert(place, (term, amount)),
            Err(_) => {}
        }
        self
    }

    /// The work in so many pieces, each of which one thread does alone. `largest` is what the largest is of the whole;
    /// most are of its size.
    #[must_use]
    pub fn in_pieces(self, pieces: usize, largest: f64) -> Work {
        let pieces = pieces.max(1);
        Work { pieces, largest: largest.clamp(1.0 / pieces as f64, 1.0), ..self }
    }

    /// The work in a call of so many images, of one of which this is the work.
    #[must_use]
    pub fn of_images(self, images: usize) -> Work {
        Work { images: images.max(1) as f64, ..self }
    }

    /// The work where copies to and from a GPU go on while other images are computed: the slower of both counts, and of
    /// the other a tenth, since both take memory and the first image and the last overlap with nothing.
    #[must_use]
    pub fn overlapped(self) -> Work {
        Work { overlaps: true, ..self }
    }

    /// What a GPU's kernels do of the work: neither copies nor the rest of a call.
    #[must_use]
    pub fn of_kernels(&self) -> Work {
        self.of_terms(|term| !BESIDE_KERNELS.contains(term))
    }

    /// What of the work a GPU's kernels do not do: copies and the rest of a call.
    #[must_use]
    pub fn beside_kernels(&self) -> Work {
        self.of_terms(|term| BESIDE_KERNELS.contains(term))
    }

    /// What the work has of some terms, none of which goes on beside others.
    fn of_terms(&self, keep: impl Fn(&Term) -> bool) -> Work {
        let mut work = Work { overlaps: false, ..self.clone() };
        work.amounts.retain(|(term, _)| keep(term));
        work
    }

    /// Whether copies go on while other images are computed.
    pub fn overlaps(&self) -> bool {
        self.overlaps
    }

    /// How much of a term the time consists of: a tenth of what goes on beside something slower.
    pub fn counted(&self, term: Term, costs: &Costs) -> f64 {
        let copies = self.of(Term::DeviceCopy) * costs.of(Term::DeviceCopy);
        let copying = 2.0 * copies > self.ns(costs);
        let hidden = self.overlaps && copying != (term == Term::DeviceCopy);
        self.of(term) * if hidden { HIDDEN } else { 1.0 }
    }

    /// How much there is of a term.
    pub fn of(&self, term: Term) -> f64 {
        self.amounts.iter().find(|(other, _)| *other == term).map_or(0.0, |(_, amount)| *amount)
    }

    /// Into how many pieces threads can share it.
    pub fn pieces(&self) -> usize {
        self.pieces
    }

    /// What it costs on one thread, in nanoseconds.
    pub fn ns(&self, costs: &Costs) -> f64 {
        self.amounts.iter().map(|&(term, amount)| amount * costs.of(term)).sum()
    }

    /// What it costs on so many threads, in nanoseconds: the call, and the pieces of the thread that has the most.
    pub fn ns_on(&self, costs: &Costs, threads: usize) -> f64 {
        if self.overlaps {
            let copies = self.of(Term::DeviceCopy) * costs.of(Term::DeviceCopy);
            let others = self.ns(costs) - copies;
            return copies.max(others) + HIDDEN * copies.min(others);
        }
        let threads = threads.clamp(1, self.pieces);
        if threads == 1 {
            return self.ns(costs);
        }
        let alone = self.of(Term::Call) * costs.of(Term::Call);
        // So many of the largest make the whole; a little less than a whole number of them is one.
        let most = (1.0 / self.largest / threads as f64 - 1e-6).ceil() * self.largest;
        alone + costs.of(Term::Share) / self.images + (self.ns(costs) - alone) * most.min(1.0)
    }

    /// How many of so many threads take the least time: one, where sharing costs more than it saves, or all that have a
    /// piece.
    pub fn threads(&self, costs: &Costs, most: usize) -> usize {
        let all = most.clamp(1, self.pieces);
        if self.ns_on(costs, all) < self.ns(costs) { all } else { 1 }
    }
}

/// What one of each term costs on a machine, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs([f64; TERMS.len()]);

impl Costs {
    /// The usual ones of these instruction sets.
    ///
    /// Those of NEON are not measured. They are AVX2's: four units for vectors of 16 bytes, as many processors have, do
    /// as much in a cycle as AVX2's two. Bytes are VNNI's, whose vectors are four times as wide, at four times the
    /// cost.
    pub fn usual(isas: &IsaSet) -> Costs {
        let neon = isas.has(Isa::Neon) && !isas.has(Isa::Avx2);
        let columns = [isas.has(Isa::Avx512), isas.has(Isa::Avx2) || neon, true];
        let column = columns.into_iter().position(|has| has).unwrap_or(2);
        let costs = Costs(TERMS.map(|term| term.usual()[column]));
        let bytes = [Term::TapByte, Term::StoreByte];
        if neon { bytes.into_iter().fold(costs, |costs, term| costs.with(term, 4.0 * costs.of(term))) } else { costs }
    }

    /// What one of a term costs.
    pub fn of(&self, term: Term) -> f64 {
        self.0[term as usize]
    }

    /// The costs with another cost of a term.
    #[must_use]
    pub fn with(mut self, term: Term, ns: f64) -> Costs {
        self.0[term as usize] = ns;
        self
    }

    /// The costs with what a text says: `NAME = NANOSECONDS`, a term a line; `#` begins a comment.
    ///
    /// # Errors
    /// A name that no term has, or a cost that is no number of nanoseconds.
    pub fn read(mut self, text: &str) -> Result<Costs, SpecError> {
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let argument = || format!("costs, line {}", number + 1);
            let (name, value) =
                line.split_once('=').ok_or_else(|| SpecError::new(argument(), "NAME = NANOSECONDS", line))?;
            let term = TERMS.into_iter().find(|term| term.name() == name.trim());
            let term = term.ok_or_else(|| SpecError::new(argument(), "the name of a term", name.trim()))?;
            let ns = value.trim().parse().ok().filter(|ns: &f64| (0.0..1e12).contains(ns));
            let ns = ns.ok_or_else(|| SpecError::new(argument(), "nanoseconds from 0 to 1e12", value.trim()))?;
            self = self.with(term, ns);
        }
        Ok(self)
    }
}

/// A term a line, as [`Costs::read`] takes them.
impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TERMS.iter().try_for_each(|term| writeln!(f, "{} = {}", term.name(), self.of(*term)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_read_as_they_are_written() {
        let costs = Costs::usual(&IsaSet::of(&[Isa::Avx2])).with(Term::Tile, 12.5);
        assert_eq!(Costs::usual(&IsaSet::of(&[])).read(&costs.to_string()), Ok(costs));
        let text = "# of a machine\n\ntap_f32 = 0.5 # measured\n";
        assert_eq!(costs.read(text).unwrap(), costs.with(Term::TapSingle, 0.5));
        for (text, expected) in [
            ("tile", "NAME = NANOSECONDS"),
            ("tiles = 1", "the name of a term"),
            ("tile = 1\ntile = -1", "line 2"),
            ("tile = nan", "nanoseconds from 0 to 1e12"),
        ] {
            let error = costs.read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn work_costs_what_its_terms_do() {
        let costs = Costs::usual(&IsaSet::of(&[])).with(Term::Tile, 10.0).with(Term::Call, 100.0);
        let work = Work::default().and(Term::Tile, 2.0).and(Term::Call, 1.0).and(Term::Tile, 1.0);
        assert_eq!((work.of(Term::Tile), work.of(Term::Copy), work.ns(&costs)), (3.0, 0.0, 130.0));
    }

    #[test]
    fn a_gpus_work_falls_apart_into_kernels_and_the_rest() {
        let costs = Costs::usual(&IsaSet::of(&[])).with(Term::DeviceCopy, 2.0).with(Term::DeviceTrip, 30.0);
        let work = Work::default().and(Term::DeviceCopy, 10.0).and(Term::DeviceTrip, 1.0).and(Term::DeviceLaunch, 1.0);
        let kernels = work.clone().overlapped().of_kernels();
        assert_eq!((kernels.ns_on(&costs, 1), kernels.overlaps()), (costs.of(Term::DeviceLaunch), false));
        assert_eq!(work.clone().overlapped().beside_kernels().ns_on(&costs, 1), 50.0);
        assert_eq!(kernels.ns(&costs) + work.beside_kernels().ns(&costs), work.ns(&costs));
    }

    #[test]
    fn copies_that_overlap_cost_what_is_slower() {
        let costs = Costs::usual(&IsaSet::of(&[])).with(Term::DeviceCopy, 2.0).with(Term::DeviceLaunch, 100.0);
        let work = |bytes| Work::default().and(Term::DeviceCopy, bytes).and(Term::DeviceLaunch, 1.0);
        assert_eq!([10.0, 500.0].map(|bytes| work(bytes).ns_on(&costs, 1)), [120.0, 1100.0]);
        assert_eq!([10.0, 500.0].map(|bytes| work(bytes).overlapped().ns_on(&costs, 1)), [102.0, 1010.0]);
        for (bytes, counted) in [(10.0, [1.0, 1.0]), (500.0, [500.0, 0.1])] {
            let terms = [Term::DeviceCopy, Term::DeviceLaunch];
            assert_eq!(terms.map(|term| work(bytes).overlapped().counted(term, &costs)), counted);
            assert_eq!(terms.map(|term| work(bytes).counted(term, &costs)), [bytes, 1.0]);
        }
    }

    #[test]
    fn threads_share_pieces_where_that_saves_more_than_it_costs() {
        let costs =
            Costs::usual(&IsaSet::of(&[])).with(Term::Tile, 10.0).with(Term::Call, 100.0).with(Term::Share, 1000.0);
        let work = Work::default().and(Term::Call, 1.0).and(Term::Tile, 300.0);
        // In one piece it is one thread's.
        assert_eq!((work.ns_on(&costs, 8), work.threads(&costs, 8)), (3100.0, 1));
        // Three pieces on two threads take as long as two of them.
        let work = work.in_pieces(3, 1.0 / 3.0);
        assert_eq!((work.ns_on(&costs, 1), work.ns_on(&costs, 2).round()), (3100.0, 3100.0));
        assert_eq!((work.threads(&costs, 1), work.threads(&costs, 2), work.threads(&costs, 8)), (1, 1, 3));
        assert_eq!(work.ns_on(&costs, 8).round(), 2100.0);
        // One thread waits for the one that has the largest.
        let uneven = work.clone().in_pieces(2, 0.8);
        assert_eq!(uneven.ns_on(&costs, 2).round(), 3500.0);
        assert_eq!(work.threads(&costs.with(Term::Share, 2000.0), 8), 1);
    }
}
