//! Results reduced on the device to what a search needs of them: the kernels of templates/cuda/peaks, and their
//! buffers.

use std::sync::Arc;

use flcc_core::dtype::DType;
use flcc_core::peaks::apart::Sought;

use crate::cuda::driver::buffer::{Buffer, Pinned, bytes_of_mut};
use crate::cuda::driver::compile;
use crate::cuda::driver::launch::{
    Address, Argument, BestView, Function, Gpu, MOST_BLOCKS, PlaceView, SoughtView, Stream,
};
use crate::cuda::fault::Fault;

/// Threads of a block.
pub(crate) const THREADS: u32 = 256;
/// Blocks that search a result for its best score, at most.
const MOST_PARTS: usize = 256;
/// Blocks whose best peaks say what the best of all reach, at most.
const MOST_GROUPS: usize = 8192;
/// Positions of a cell at most, as sides of planes, rows and columns.
const LARGEST_CELLS: [[usize; 3]; 3] = [[1, 1, 1024], [1, 32, 32], [8, 8, 16]];
/// Positions of a cell that one thread takes; a warp takes more.
const OF_A_THREAD: usize = 16;
/// Peaks that the host is told of a group of images, for each result, and at least and at most of all; of more it
/// searches the results.
const ROOM: [usize; 3] = [1 << 12, 1 << 16, 1 << 20];
/// Positions of an axis at most.
const LONGEST: i32 = i32::MAX - (1 << 16);
/// Bytes of cells that are made at a time, if those of a result are not more.
const TOGETHER: usize = 64 << 20;

/// The loaded kernels.
pub(crate) struct Kernels {
    best: Function,
    best_of_parts: Function,
    cells: Function,
    survivors: Function,
    bar: Function,
    list: Function,
    pub windows: Function,
}

impl Kernels {
    /// Compiles and loads them for scores of a type.
    ///
    /// # Errors
    /// NVRTC's or the driver's.
    pub fn new(gpu: &Gpu, out: DType) -> Result<Kernels, Fault> {
        let options = [format!("-DFLCC_OUT={}", if out == DType::F64 { 3 } else { 2 })];
        let code = compile::compile("peaks", flcc_generated::PEAKS, &options, &gpu.device.target())?;
        let module = gpu.module(&code.cubin, Some(code.key))?;
        Ok(Kernels {
            best: module.function("flcc_best")?,
            best_of_parts: module.function("flcc_best_of_parts")?,
            cells: module.function("flcc_cells")?,
            survivors: module.function("flcc_survivors")?,
            bar: module.function("flcc_bar")?,
            list: module.function("flcc_list")?,
            windows: module.function("flcc_windows")?,
        })
    }
}

/// How results are reduced for a search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reduction {
    pub view: SoughtView,
    /// Bytes of a score, which are those of a key.
    pub size: usize,
    /// Whether the best score is wanted.
    pub best: bool,
    /// Whether peaks are.
    pub lists: bool,
    /// Whether the best of them are.
    ranks: bool,
    /// Results that are reduced at a time.
    step: usize,
    /// Results of a group.
    results: usize,
    parts: usize,
    groups: usize,
    blocks: usize,
}

impl Reduction {
    /// What is looked for in so many results of a type at most; `None` where numbers are too large for the kernels.
    pub fn new(sought: &Sought, out: DType, results: usize) -> Option<Reduction> {
        let (lengths, size) = (sought.lengths, out.row().size);
        let axes = lengths.iter().skip_while(|length| **length == 1).count().clamp(1, 3);
        let largest = LARGEST_CELLS[axes - 1];
        let reach = sought.distance.saturating_add(1);
        let side = [0, 1, 2].map(|axis| reach.min(largest[axis]).min(lengths[axis]));
        let counts = [0, 1, 2].map(|axis| lengths[axis].div_ceil(side[axis]));
        let (scores, cells) = (lengths.iter().product::<usize>(), counts.iter().product::<usize>());
        // Kernels count some positions beyond an end.
        let narrow = |sides: [usize; 3]| sides.map(|side| i32::try_from(side).ok().filter(|side| *side < LONGEST));
        let [lengths_of, sides, counts_of] = [lengths, side, counts].map(|sides| match narrow(sides) {
            [Some(z), Some(y), Some(x)] => Some([z, y, x]),
            _ => None,
        });
        let furthest = |value: usize| i32::try_from(value).unwrap_or(i32::MAX);
        let lanes = if side.iter().product::<usize>() <= OF_A_THREAD { 1 } else { 32 };
        let view = SoughtView {
            scores: scores as u64,
            cells: cells as u64,
            bar: sought.bar.map_or(0.0, |(bar, _)| bar),
            lengths: lengths_of?,
            side: sides?,
            counts: counts_of?,
            // Of an axis as long as that nothing is left.
            border: furthest(sought.border.min(lengths.into_iter().max().unwrap_or(0))),
            distance: furthest(sought.distance),
            turned: i32::from(sought.smallest),
            lanes,
            bar_kind: sought.bar.map_or(0, |(_, over)| if over { 2 } else { 1 }),
            top: furthest(sought.top.unwrap_or(0)),
        };
        let rows = lengths[0] * lengths[1] * lengths[2].div_ceil(512);
        let teams = THREADS as usize / lanes as usize;
        let lists = !sought.best_alone && sought.top != Some(0);
        Some(Reduction {
            view,
            size,
            best: sought.best_alone || sought.optimum,
            lists,
            ranks: lists && sought.top.is_some(),
            step: (TOGETHER / (cells * (2 * size + 4))).clamp(1, results.clamp(1, MOST_BLOCKS)),
            results,
            parts: rows.div_ceil(THREADS as usize / 32).min(MOST_PARTS),
            groups: cells.div_ceil(teams).min(MOST_GROUPS),
            blocks: cells.div_ceil(teams).min(1 << 20),
        })
    }

    /// Peaks that the host is told of.
    pub fn room(&self) -> usize {
        let [each, least, most] = ROOM;
        each.saturating_mul(self.results).clamp(least, most)
    }

    /// Bytes of the device that it takes beside results.
    pub fn bytes(&self) -> usize {
        self.sizes().iter().sum()
    }

    /// Bytes of each buffer: parts, cells' best keys and places, keys of survivors, groups, bars, count.
    fn sizes(&self) -> [usize; 7] {
        let when = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        let cells = self.step * self.view.cells as usize;
        [
            when(self.best, self.step * self.parts * size_of::<BestView>()),
            when(self.lists, cells * self.size),
            when(self.lists, cells * size_of::<u32>()),
            when(self.lists, cells * self.size),
            when(self.lists, self.step * self.groups * self.size),
            when(self.ranks, self.step * self.size),
            when(self.lists, size_of::<u32>()),
        ]
    }

    /// Puts the kernels for so many results into a queue.
    ///
    /// # Errors
    /// The driver's.
    pub fn submit(
        &self,
        kernels: &Kernels,
        work: &mut Work,
        stream: &Stream,
        results: Address,
        count: usize,
    ) -> Result<(), Fault> {
        let of = Argument::Sought(&self.view);
        let sizes = self.sizes();
        let [parts, best, place, alive, groups, bars, _] =
            [0, 1, 2, 3, 4, 5, 6].map(|number| (work.rooms[number].address(stream), sizes[number]));
        let room = |(address, bytes): (Address, usize)| Argument::Room(address, bytes);
        let whole = |pinned: Address| Argument::Room(pinned, pinned.bytes);
        if self.lists {
            work.rooms[6].clear(stream, size_of::<u32>())?;
        }
        let (told, list) = (work.best.address(), whole(work.list.address()));
        let each = self.view.scores as usize * self.size;
        for first in (0..count).step_by(self.step) {
            let some = self.step.min(count - first);
            let scores = Argument::Room(results.skip(first * each), some * each);
            let grid = |blocks: usize| [blocks as u32, some as u32, 1];
            let threads = [THREADS, 1];
            if self.best {
                stream.launch(&kernels.best, grid(self.parts), threads, &[scores, of, room(parts)])?;
                let told = told.skip(first * size_of::<BestView>());
                let told = Argument::Room(told, some * size_of::<BestView>());
                let arguments = [scores, of, room(parts), Argument::Int(self.parts as i32), told];
                stream.launch(&kernels.best_of_parts, grid(1), threads, &arguments)?;
            }
            if !self.lists {
                continue;
            }
            stream.launch(&kernels.cells, grid(self.blocks), threads, &[scores, of, room(best), room(place)])?;
            let arguments = [scores, of, room(best), room(place), room(alive), room(groups)];
            stream.launch(&kernels.survivors, grid(self.groups), threads, &arguments)?;
            if self.ranks {
                let arguments = [of, room(groups), Argument::Int(self.groups as i32), room(bars)];
                stream.launch(&kernels.bar, grid(1), threads, &arguments)?;
            }
            let bars = if self.ranks { room(bars) } else { Argument::Null };
            let counted = Argument::Room(work.rooms[6].address(stream), size_of::<u32>());
            let (first, most) = (Argument::Long(first as i64), Argument::Int(self.room() as i32));
            let arguments = [scores, of, room(place), room(alive), bars, first, list, most, counted];
            stream.launch(&kernels.list, grid(self.blocks), threads, &arguments)?;
        }
        if self.lists {
            work.rooms[6].download(stream, 0, bytes_of_mut(&mut work.count))?;
        }
        Ok(())
    }
}

/// The buffers of a reduction.
pub(crate) struct Work {
    pub made_for: Reduction,
    rooms: [Buffer; 7],
    /// The best of each result, which kernels write here.
    pub best: Pinned<BestView>,
    /// Peaks, likewise.
    pub list: Pinned<PlaceView>,
    /// How many there are.
    pub count: Pinned<u32>,
}

impl Work {
    /// Buffers of any content.
    ///
    /// # Errors
    /// The device, or the system, is out of memory.
    pub fn new(gpu: &Arc<Gpu>, stream: &Stream, reduction: &Reduction) -> Result<Work, Fault> {
        let [a, b, c, d, e, f, g] = reduction.sizes().map(|bytes| Buffer::new(stream, bytes));
        Ok(Work {
            made_for: *reduction,
            rooms: [a?, b?, c?, d?, e?, f?, g?],
            best: Pinned::new(gpu, if reduction.best { reduction.results } else { 0 })?,
            list: Pinned::new(gpu, if reduction.lists { reduction.room() } else { 0 })?,
            count: Pinned::new(gpu, 1)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flcc_core::peaks::{PeakOptions, Search};
    use flcc_core::spec::Spec;

    fn reduction(text: &str, options: PeakOptions, results: usize) -> Reduction {
        let spec: Spec = format!("{text}:full").parse().unwrap();
        Reduction::new(&Search::of(&spec, options).sought(DType::F32), DType::F32, results).unwrap()
    }

    #[test]
    fn a_cell_has_one_peak_at_most() {
        for text in ["corr:f32:100000*9", "corr:f32:1x5000*1x9", "corr:f32:900x700*9x9", "corr:f32:90x70x50*9x9x9"] {
            for distance in [0, 1, 2, 3, 7, 30, 31, 32, 500, usize::MAX] {
                let options =
                    PeakOptions { min_distance: Some(distance), exclude_border: distance, ..PeakOptions::default() };
                let Reduction { view, step, groups, blocks, .. } = reduction(text, options, 5);
                for axis in 0..3 {
                    let (length, side, count) = (view.lengths[axis], view.side[axis], view.counts[axis]);
                    assert!(side >= 1 && side as usize - 1 <= distance, "{text} {distance}");
                    assert!(count * side >= length && (count - 1) * side < length, "{text} {distance}");
                }
                let volume: i32 = view.side.iter().product();
                assert!(volume <= 1024 && (view.lanes == 1) == (volume <= 16), "{text} {distance}: {volume}");
                assert!((0..=100_100).contains(&view.border), "{text} {distance}");
                assert!(step >= 1 && groups >= 1 && blocks >= groups, "{text} {distance}");
            }
        }
    }

    #[test]
    fn memory_is_bounded_by_that_of_a_result_or_a_few_megabytes() {
        let options = PeakOptions { min_distance: Some(0), ..PeakOptions::default() };
        for (text, results) in [("corr:f32:300x300*4x4", 5000), ("corr:f32:9000x9000*4x4", 3)] {
            let reduction = reduction(text, options, results);
            let one = 3 * size_of::<f32>() * reduction.view.scores as usize;
            assert!(reduction.bytes() <= one + TOGETHER + (1 << 20), "{text}: {} bytes", reduction.bytes());
        }
    }

    #[test]
    fn what_is_asked_for_decides_what_is_made() {
        let asks = |options| {
            let Reduction { best, lists, ranks, .. } = reduction("zncc:f32:90x70*8x8", options, 1);
            (best, lists, ranks)
        };
        let all = PeakOptions::default();
        assert_eq!(asks(all), (false, true, false));
        assert_eq!(asks(PeakOptions { top: Some(1), ..all }), (true, false, false));
        assert_eq!(asks(PeakOptions { top: Some(1), exclude_border: 1, ..all }), (false, true, true));
        assert_eq!(asks(PeakOptions { top: Some(16), ..all }), (false, true, true));
        assert_eq!(asks(PeakOptions { top: Some(0), ..all }), (false, false, false));
    }

    #[test]
    fn axes_that_the_kernels_cannot_count_are_left_to_the_host() {
        for text in ["corr:u8:3000000000*4:valid", "corr:u8:2147483600*4:valid"] {
            let spec: Spec = text.parse().unwrap();
            let sought = Search::of(&spec, PeakOptions::default()).sought(DType::F32);
            assert!(Reduction::new(&sought, DType::F32, 1).is_none(), "{text}");
        }
    }
}
