//! The kernels of the tile pipeline: what each takes, and the grids they run on. docs in templates/cuda/pipeline.

use flcc_core::dtype::DType;
use flcc_core::spec::Spec;
use flcc_core::wide::Wide;
use flcc_generated::Entry;

use crate::cuda::driver::compile::{self, Code};
use crate::cuda::driver::launch::{
    Address, Argument, Constants, CrossLayout, Function, Gpu, ImageView, Layout, Module, ResultView, Stream,
    Thresholds, Tile, TileFigures,
};
use crate::cuda::fault::Fault;
use crate::cuda::rooms::{self, Places, Room};
use crate::cuda::types::Types;
use crate::problem::error_model::Strong;
use crate::problem::scheme::{Integers, Scheme};

/// Samples of a panel that `flcc_repair` keeps in shared memory; of a larger one it takes more threads.
const REMEMBERED: usize = 4096;

/// Tiles that a block has where each takes a warp.
const TILES_OF_WARPS: usize = 8;

/// The windows that `flcc_sum_groups` sums, from so many rows on, and below so many.
const GROUPED_FROM: usize = 32;
const GROUPED_TO: usize = 1040;

/// The options that specialise the pipeline's source.
pub(crate) fn options(spec: &Spec, scheme: &Scheme, types: Types) -> Vec<String> {
    let integers = match scheme.integers {
        None => 0,
        Some(Integers::Narrow) => 1,
        Some(Integers::Wide) => 2,
    };
    let mut options: Vec<String> = [
        ("PIXEL", types.pixel as usize),
        ("REAL", types.real as usize),
        ("CROSS", types.cross as usize),
        ("OUT", types.out as usize),
        ("BOUNDARY", spec.boundary().number()),
        ("MEASURE", scheme.measure as usize),
        ("INTEGERS", integers),
        ("ROUNDS", usize::from(scheme.rounds)),
        ("LARGE", usize::from(spec.template().len() > REMEMBERED)),
    ]
    .map(|(name, value)| format!("-DFLCC_{name}={value}"))
    .into();
    if integers > 0 {
        options.push("--fmad=false".into());
        options.push("--device-int128".into());
    }
    options
}

/// The options of a kernel that reads images and writes results itself: those of the pipeline that it depends on.
pub(crate) fn own_options(pipeline: &[String]) -> Vec<String> {
    let own = |option: &&String| {
        ["PIXEL", "REAL", "OUT", "BOUNDARY"].iter().any(|name| option.starts_with(&format!("-DFLCC_{name}=")))
    };
    pipeline.iter().filter(own).cloned().collect()
}

/// The options of a kernel that makes scores of images by the formula of the pipeline. What its source does not depend
/// on is left out, so that one compilation serves more plans.
pub(crate) fn score_options(pipeline: &[String]) -> Vec<String> {
    let foreign = |option: &&String| {
        ["CROSS", "MEASURE", "ROUNDS", "LARGE"].iter().any(|name| option.starts_with(&format!("-DFLCC_{name}=")))
    };
    pipeline.iter().filter(|option| !foreign(option)).cloned().collect()
}

/// The option of a kernel that sums windows up, where that is not in f64.
pub(crate) fn wide_option(wide: Wide) -> Option<String> {
    (wide == Wide::TwoSingles).then(|| "-DFLCC_SLOW_F64=1".into())
}

/// 1 / the root of a template's energy in integers.
pub(crate) fn integer_norm(constants: &Constants) -> f64 {
    let [low, high] = constants.exact_energy;
    1.0 / (high as f64 * 2f64.powi(64) + low as u64 as f64).sqrt()
}

/// A group of kernels that are compiled apart, so that threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Samples and marks.
    Gather = 1,
    /// Window sums.
    Sums = 2,
    /// What transforms need, and the figures that their doubt depends on.
    Fourier = 4,
    /// Scores.
    Finish = 8,
    /// Panels in doubt.
    Repair = 16,
}

/// Compiles a part of the pipeline.
///
/// # Errors
/// NVRTC's.
pub(crate) fn compile(part: Part, options: &[String], architecture: &str) -> Result<Code, Fault> {
    let mut options = options.to_vec();
    options.push(format!("-DFLCC_PARTS={}", part as usize));
    compile::compile("pipeline", flcc_generated::PIPELINE, &options, architecture)
}

macro_rules! steps {
    ($($part:ident: $($field:ident),+;)+) => {
        /// The loaded kernels; those of parts that were not compiled are absent.
        pub(crate) struct Steps {
            $($($field: Option<Function>,)+)+
        }

        impl Steps {
            /// Loads what was compiled.
            ///
            /// # Errors
            /// The driver's.
            pub fn new(gpu: &Gpu, codes: &[(Part, Code)], real: DType) -> Result<Steps, Fault> {
                let load = |part: Part| -> Result<Option<Module>, Fault> {
                    let code = codes.iter().find(|(of, _)| *of == part);
                    code.map(|(_, code)| gpu.module(&code.cubin, Some(code.key))).transpose()
                };
                $(let module = load(Part::$part)?;
                let find = |name: &str| match &module {
                    // Bytes are never NaN, infinite or of extraordinary magnitude.
                    Some(_) if real == DType::U8 && ["flcc_survey", "flcc_reload"].contains(&name) => Ok(None),
                    Some(module) => module.function(name).map(Some),
                    None => Ok(None),
                };
                $(let $field = find(concat!("flcc_", stringify!($field)))?;)+)+
                Ok(Steps { $($($field,)+)+ })
            }
        }
    };
}

steps! {
    Gather: offset, load, survey, reload, hits_x, hits_y, hits_z, hits_masked;
    Sums: sum_rows, sum_axis, sum_groups;
    Fourier: figures, cross_figures, fold, strong, doubt, noise, multiply, square;
    Finish: finish;
    Repair: repair;
}

fn blocks(count: usize, each: usize) -> u32 {
    count.div_ceil(each) as u32
}

fn volume(shape: [i32; 3]) -> usize {
    shape.iter().map(|&side| side as usize).product()
}

/// A batch of tiles: how they lie, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    /// The layout, with the tiles of this batch.
    pub layout: Layout,
    /// The images.
    pub image: ImageView,
    /// The buffers.
    pub places: Places,
    /// The types.
    pub types: Types,
    /// Bytes of the images that tiles of the batch belong to.
    pub image_reach: usize,
    /// Bytes of their results, from `places[Room::Result]` on.
    pub result_reach: usize,
}

/// What is subtracted from the samples of a tile.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offset {
    /// Nothing.
    None,
    /// A sample of the tile.
    Median,
    /// A number for each channel, which lies at this address.
    Given(Address),
}

/// Which way samples are gathered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gathering {
    /// What is subtracted.
    pub offset: Offset,
    /// Samples may be NaN, infinite or of extraordinary magnitude.
    pub careful: bool,
    /// The scale that is forced, or 0.
    pub forced: f64,
}

impl Batch {
    fn lanes(&self) -> usize {
        (self.layout.tiles * self.layout.channels) as usize
    }

    fn tiles(&self) -> usize {
        self.layout.tiles as usize
    }

    /// The images.
    pub fn image_room(&self) -> Argument<'_> {
        Argument::Room(self.places[Room::Image], self.image_reach)
    }

    /// The tiles.
    pub fn tile_room(&self) -> Argument<'_> {
        Argument::Room(self.places[Room::Tiles], self.tiles() * size_of::<Tile>())
    }

    /// Something for each tile and channel.
    fn lane_room(&self, place: Address, size: usize) -> Argument<'_> {
        Argument::Room(place, self.lanes() * size)
    }

    /// Scales, where there are some.
    fn scale_room(&self, careful: bool) -> Argument<'_> {
        if careful { self.lane_room(self.places[Room::Scale], 8) } else { Argument::Null }
    }

    /// The largest sample of each tile and channel.
    fn largest_room(&self) -> Argument<'_> {
        self.lane_room(self.places[Room::Largest], 8)
    }

    /// Parts of figures.
    fn partial_room(&self) -> Argument<'_> {
        self.lane_room(self.places[Room::Partial], rooms::figures_bytes(&self.layout))
    }

    /// Strong samples of each tile.
    fn strong_room(&self) -> Argument<'_> {
        Argument::Room(self.places[Room::Strong], rooms::strong_bytes(&self.layout, self.tiles(), self.lanes()))
    }

    /// Something for each sample.
    fn sample_room(&self, place: Address, size: usize) -> Argument<'_> {
        Argument::Room(place, self.tiles() * self.layout.in_tile as usize * size)
    }

    /// Something for each output and channel.
    fn sum_room(&self, place: Address) -> Argument<'_> {
        Argument::Room(place, self.tiles() * self.layout.out_tile as usize * 8)
    }

    /// Something for each output.
    pub fn output_room(&self, place: Address, size: usize) -> Argument<'_> {
        Argument::Room(place, self.tiles() * self.layout.out_channel as usize * size)
    }

    fn cross_room(&self) -> Argument<'_> {
        let last = self.layout.cross_channel * (self.layout.channels as i64 - 1) + self.layout.cross_channel;
        let elements = (self.layout.tiles as i64 - 1) * self.layout.cross_tile + last;
        Argument::Room(self.places[Room::Cross], elements as usize * self.types.cross.size())
    }

    /// The samples of a channel, for the kernels of the cross term.
    pub fn samples_of(&self, channel: usize) -> Argument<'static> {
        let (layout, size) = (&self.layout, self.types.real.row().size);
        let last = (self.tiles() - 1) * layout.in_tile as usize + layout.in_channel as usize;
        let begin = self.places[Room::Samples].skip(channel * layout.in_channel as usize * size);
        Argument::Room(begin, last * size)
    }

    /// What lies like the cross term, of a channel.
    pub fn out_of(&self, room: Room, channel: usize) -> Argument<'static> {
        let (layout, size) = (&self.layout, self.types.cross.size());
        let last = (self.tiles() - 1) * layout.cross_tile as usize + layout.cross_channel as usize;
        Argument::Room(self.places[room].skip(channel * layout.cross_channel as usize * size), last * size)
    }

    /// How samples and cross term lie, for the kernels of the cross term.
    pub fn cross_layout(&self) -> CrossLayout {
        let layout = &self.layout;
        CrossLayout {
            in_row: layout.in_row,
            in_plane: layout.in_plane,
            in_tile: layout.in_tile,
            out_row: layout.cross_row,
            out_plane: layout.cross_plane,
            out_tile: layout.cross_tile,
            out_shape: layout.out_shape,
            out_depth: layout.out_shape[0],
        }
    }

    /// Grid and threads of a generated kernel.
    pub fn blocks_of(&self, entry: &Entry) -> ([u32; 3], [u32; 2]) {
        let [depth, height, width] = self.layout.out_shape.map(|side| side as usize);
        let grid = [blocks(width, entry.tile[1]), blocks(height, entry.tile[0]), (self.tiles() * depth) as u32];
        (grid, [entry.block[1] as u32, entry.block[0] as u32])
    }

    /// Grid and threads of a generated kernel that reads images in pieces of four samples: its blocks begin up to three
    /// columns before the first output.
    pub fn aligned_blocks_of(&self, entry: &Entry) -> ([u32; 3], [u32; 2]) {
        let ([_, rows, planes], threads) = self.blocks_of(entry);
        ([blocks(self.layout.out_shape[2] as usize + 3, entry.tile[1]), rows, planes], threads)
    }

    fn cells(&self) -> u32 {
        let [depth, height, width] = self.layout.in_shape.map(|side| side as usize);
        blocks(depth * height * width.div_ceil(4), 256)
    }

    fn outputs(&self) -> u32 {
        blocks(volume(self.layout.out_shape), 256)
    }
}

fn have(function: &Option<Function>) -> Result<&Function, Fault> {
    function.as_ref().ok_or_else(|| Fault::new("pipeline", "a kernel that this specialisation lacks"))
}

impl Steps {
    /// Gathers the samples of every tile. Addresses to be zero before: `largest`, `span`, `marked`.
    ///
    /// # Errors
    /// The driver's.
    pub fn gather(&self, stream: &Stream, batch: &Batch, how: Gathering) -> Result<(), Fault> {
        let Batch { layout, image, places, types, .. } = batch;
        let lanes = batch.lanes() as u32;
        let given = match how.offset {
            Offset::None => None,
            Offset::Median => Some(Argument::Null),
            Offset::Given(address) => Some(Argument::Room(address, layout.channels as usize * 8)),
        };
        let offset = if given.is_some() { batch.lane_room(places[Room::Offset], 8) } else { Argument::Null };
        let (pixels, tiles) = (batch.image_room(), batch.tile_room());
        let (image, layout) = (Argument::Image(image), Argument::Layout(layout));
        let samples = batch.sample_room(places[Room::Samples], types.real.row().size);
        let largest = batch.lane_room(places.largest(), 8);
        if let Some(given) = given {
            stream.launch(have(&self.offset)?, [lanes, 1, 1], [32, 1], &[pixels, image, tiles, given, offset])?;
        }
        let grid = [batch.cells(), lanes, 1];
        let wanted = if how.careful { largest } else { Argument::Null };
        stream.launch(have(&self.load)?, grid, [256, 1], &[pixels, image, tiles, layout, offset, samples, wanted])?;
        if !how.careful {
            return Ok(());
        }
        let (span, forced) = (batch.lane_room(places.span(), 8), Argument::Double(how.forced));
        let marked = Argument::Room(places.marked(), batch.tiles() * 4);
        let survey = [pixels, image, tiles, layout, offset, forced, largest, span, marked];
        stream.launch(have(&self.survey)?, grid, [256, 1], &survey)?;
        let (marks, scale) = (batch.sample_room(places[Room::Marks], 1), batch.lane_room(places[Room::Scale], 8));
        let reload = [pixels, image, tiles, layout, offset, forced, largest, span, marked, samples, marks, scale];
        stream.launch(have(&self.reload)?, grid, [256, 1], &reload)
    }

    /// Marks the panels that touch a marked sample, in the tiles that have any.
    ///
    /// # Errors
    /// The driver's.
    pub fn hits(&self, stream: &Stream, batch: &Batch, weights: Option<Address>) -> Result<(), Fault> {
        let places = &batch.places;
        let layout = Argument::Layout(&batch.layout);
        let marked = Argument::Room(places.marked(), batch.tiles() * 4);
        let (marks, between) =
            (batch.sample_room(places[Room::Marks], 1), batch.sample_room(places[Room::MarksBetween], 1));
        let hits = batch.output_room(places[Room::Hits], 1);
        let (tiles, threads) = (batch.tiles() as u32, [256, 1]);
        if let Some(weights) = weights {
            let weights = Argument::Room(weights, volume(batch.layout.template) * 8);
            return stream.launch(
                have(&self.hits_masked)?,
                [batch.outputs(), tiles, 1],
                threads,
                &[layout, marked, marks, weights, hits],
            );
        }
        let grid = [batch.cells(), tiles, 1];
        stream.launch(have(&self.hits_x)?, grid, threads, &[layout, marked, marks, between])?;
        stream.launch(have(&self.hits_y)?, grid, threads, &[layout, marked, between, marks])?;
        stream.launch(have(&self.hits_z)?, [batch.outputs(), tiles, 1], threads, &[layout, marked, marks, hits])
    }

    /// Sums over every window: of squares, and of samples if `both`.
    ///
    /// # Errors
    /// The driver's.
    pub fn sums(&self, stream: &Stream, batch: &Batch, both: bool) -> Result<(), Fault> {
        let Batch { layout, places, types, .. } = batch;
        let [depth, height, width] = layout.out_shape.map(|side| side as usize);
        let [kd, kh, kw] = layout.template.map(|side| side as usize);
        let line =
            (depth + kd - 2) * layout.in_plane as usize + (height + kh - 2) * layout.in_row as usize + width + kw - 1;
        let run = 8 * (256 - (kw.min(1024) + 6) / 8);
        let lanes = batch.lanes() as u32;
        let by_layout = Argument::Layout(layout);
        let (rows, sums) = ([Room::RowSum, Room::RowSquare], [Room::Sum, Room::Square]);
        let samples = batch.sample_room(places[Room::Samples], types.real.row().size);
        let row = |k: usize| if k == 1 || both { batch.sample_room(places[rows[k]], 8) } else { Argument::Null };
        stream.launch(
            have(&self.sum_rows)?,
            [blocks(line, run), lanes, 1],
            [256, 1],
            &[by_layout, samples, row(0), row(1)],
        )?;
        let volume = layout.template[0] > 1 || layout.out_shape[0] > 1;
        for k in if both { 0..2 } else { 1..2 } {
            let (from, between, to) =
                (row(k), batch.sample_room(places[Room::Between], 8), batch.sum_room(places[sums[k]]));
            let pass = |axis: usize, from, to, last: bool| {
                let window = if axis == 1 { kh } else { kd };
                let (outputs, others) = if axis == 1 { (height, depth + kd - 1) } else { (depth, height) };
                let (function, columns, strip, threads) = match window {
                    GROUPED_FROM..GROUPED_TO => (&self.sum_groups, 32, 512, 256),
                    _ => (&self.sum_axis, 64, window * 32usize.div_ceil(window), 64),
                };
                let grid = [blocks(width, columns), (outputs.div_ceil(strip) * others) as u32, lanes];
                let arguments = [by_layout, Argument::Int(axis as i32), from, to, Argument::Int(i32::from(last))];
                stream.launch(have(function)?, grid, [threads, 1], &arguments)
            };
            if volume {
                pass(1, from, between, false)?;
                pass(0, between, to, true)?;
            } else {
                pass(1, from, to, true)?;
            }
        }
        Ok(())
    }

    /// The figures of every tile's samples, and its strong ones.
    ///
    /// # Errors
    /// The driver's.
    pub fn figures(&self, stream: &Stream, batch: &Batch, careful: bool) -> Result<(), Fault> {
        let samples = batch.sample_room(batch.places[Room::Samples], batch.types.real.row().size);
        let figures = [Argument::Layout(&batch.layout), batch.tile_room(), samples, batch.partial_room()];
        self.fold(stream, batch, (have(&self.figures)?, &figures), careful, (batch.places.figures(), false))?;
        let arguments = [
            Argument::Layout(&batch.layout),
            batch.tile_room(),
            samples,
            batch.scale_room(careful),
            Argument::Room(batch.places.figures(), batch.tiles() * size_of::<TileFigures>()),
            Argument::Double(Strong::ABOVE),
            batch.strong_room(),
        ];
        let grid = [rooms::slices(&batch.layout) as u32, batch.tiles() as u32, 1];
        stream.launch(have(&self.strong)?, grid, [256, 1], &arguments)
    }

    /// The figures of every tile's cross term.
    ///
    /// # Errors
    /// The driver's.
    pub fn cross_figures(&self, stream: &Stream, batch: &Batch, careful: bool) -> Result<(), Fault> {
        // A cross term is that of a whole transform, however large the tile.
        let figures = [Argument::Layout(&batch.layout), batch.cross_room(), batch.partial_room()];
        let to = (batch.places.cross_figures(), true);
        self.fold(stream, batch, (have(&self.cross_figures)?, &figures), careful, to)
    }

    /// The figures `to` of what a kernel takes; channels `add` up where their largest magnitudes may meet in one
    /// number.
    fn fold(
        &self,
        stream: &Stream,
        batch: &Batch,
        (function, arguments): (&Function, &[Argument<'_>]),
        careful: bool,
        (to, add): (Address, bool),
    ) -> Result<(), Fault> {
        let (count, slices) = (batch.tiles(), rooms::slices(&batch.layout));
        stream.launch(function, [slices as u32, count as u32, 1], [256, 1], arguments)?;
        let figures = Argument::Room(to, count * size_of::<TileFigures>());
        let largest = if add { Argument::Null } else { batch.largest_room() };
        let arguments = [
            batch.partial_room(),
            Argument::Int(slices as i32),
            batch.scale_room(careful),
            figures,
            largest,
            Argument::Int(count as i32),
            Argument::Int(batch.layout.channels),
            Argument::Int(i32::from(add)),
        ];
        stream.launch(have(&self.fold)?, [blocks(count, TILES_OF_WARPS), 1, 1], [256, 1], &arguments)
    }

    /// The thresholds of every tile, from its figures and `Figures::wave` of the template.
    ///
    /// # Errors
    /// The driver's.
    pub fn doubt(&self, stream: &Stream, batch: &Batch, thresholds: &Thresholds, wave: f64) -> Result<(), Fault> {
        let count = batch.tiles();
        let places = &batch.places;
        let figures = count * size_of::<TileFigures>();
        let results = batch.layout.cross_channel as f64;
        let arguments = [
            Argument::Thresholds(thresholds),
            Argument::Double(results),
            Argument::Double(wave),
            Argument::Room(places.figures(), figures),
            Argument::Room(places.cross_figures(), figures),
            batch.strong_room(),
            Argument::Int(rooms::slices(&batch.layout) as i32),
            Argument::Room(places.doubt(), count * 16),
            Argument::Int(count as i32),
            Argument::Int(batch.layout.channels),
        ];
        stream.launch(have(&self.doubt)?, [blocks(count, TILES_OF_WARPS), 1, 1], [256, 1], &arguments)
    }

    /// Samples of whole transforms with noise, where their results belong; `table`: its [`Lines::table`].
    ///
    /// [`Lines::table`]: crate::cuda::noise::Lines::table
    ///
    /// # Errors
    /// The driver's.
    pub fn noise(&self, stream: &Stream, batch: &Batch, table: Address) -> Result<(), Fault> {
        let samples = batch.sample_room(batch.places[Room::Samples], batch.types.real.row().size);
        let arguments = [
            Argument::Layout(&batch.layout),
            samples,
            batch.largest_room(),
            Argument::Room(table, table.bytes),
            batch.cross_room(),
        ];
        let grid = [blocks(batch.layout.in_channel as usize, 256), batch.lanes() as u32, 1];
        stream.launch(have(&self.noise)?, grid, [256, 1], &arguments)
    }

    /// `out = (tile - noise) * template` for spectra of `count` numbers, tile by tile and channel by channel, by the
    /// table of the noise that the tiles have, if they have any.
    ///
    /// # Errors
    /// The driver's.
    pub fn multiply(
        &self,
        stream: &Stream,
        batch: &Batch,
        count: usize,
        [tile, template, out]: [Address; 3],
        table: Option<Address>,
    ) -> Result<(), Fault> {
        let size = 2 * batch.types.cross.size();
        let all = batch.lanes() * count * size;
        let arguments = [
            Argument::Layout(&batch.layout),
            Argument::Room(tile, all),
            Argument::Room(template, batch.layout.channels as usize * count * size),
            Argument::Room(out, all),
            Argument::Int(count as i32),
            table.map_or(Argument::Null, |_| batch.largest_room()),
            table.map_or(Argument::Null, |table| Argument::Room(table, table.bytes)),
        ];
        stream.launch(have(&self.multiply)?, [blocks(count, 256), batch.lanes() as u32, 1], [256, 1], &arguments)
    }

    /// Squares of all samples.
    ///
    /// # Errors
    /// The driver's.
    pub fn square(&self, stream: &Stream, batch: &Batch) -> Result<(), Fault> {
        let size = batch.types.real.row().size;
        let count = batch.tiles() * batch.layout.in_tile as usize;
        let arguments = [
            batch.sample_room(batch.places[Room::Samples], size),
            batch.sample_room(batch.places[Room::Squares], size),
            Argument::Long(count as i64),
        ];
        stream.launch(have(&self.square)?, [blocks(count, 1024), 1, 1], [256, 1], &arguments)
    }

    /// Scores, and the list of panels in doubt.
    ///
    /// # Errors
    /// The driver's.
    pub fn finish(
        &self,
        stream: &Stream,
        batch: &Batch,
        constants: &Constants,
        view: &ResultView,
        how: Finishing,
    ) -> Result<(), Fault> {
        let places = &batch.places;
        let when = |wanted: bool, room| if wanted { room } else { Argument::Null };
        let arguments = [
            Argument::Constants(constants),
            Argument::Layout(&batch.layout),
            batch.tile_room(),
            batch.cross_room(),
            when(how.sum, batch.sum_room(places[Room::Sum])),
            when(how.square, batch.sum_room(places[Room::Square])),
            when(how.careful, Argument::Room(places.marked(), batch.tiles() * 4)),
            when(how.careful, batch.output_room(places[Room::Hits], 1)),
            when(how.careful, batch.lane_room(places[Room::Scale], 8)),
            when(how.thresholds, Argument::Room(places.doubt(), batch.tiles() * 16)),
            Argument::Room(places[Room::Result], batch.result_reach),
            Argument::Result(view),
            when(how.lists, batch.output_room(places[Room::Doubtful], 4)),
            when(how.lists, Argument::Room(places[Room::Counts], 4)),
        ];
        stream.launch(have(&self.finish)?, [batch.outputs(), batch.tiles() as u32, 1], [256, 1], &arguments)
    }

    /// The scores of a listed size from the image itself, and the list of panels in doubt if there may be some.
    /// `function` was made of `entry`.
    ///
    /// # Errors
    /// The driver's.
    pub fn score(
        stream: &Stream,
        batch: &Batch,
        kernel: (&Entry, &Function),
        constants: &Constants,
        view: &ResultView,
        lists: bool,
    ) -> Result<(), Fault> {
        let (places, (entry, function)) = (&batch.places, kernel);
        let when = |wanted: bool, room| if wanted { room } else { Argument::Null };
        let norm = if lists { 1.0 / constants.energy.sqrt() } else { integer_norm(constants) };
        let arguments = [
            batch.image_room(),
            Argument::Image(&batch.image),
            Argument::Constants(constants),
            Argument::Layout(&batch.layout),
            batch.tile_room(),
            Argument::Double(1.0 / constants.n),
            Argument::Double(norm),
            Argument::Room(places[Room::Result], batch.result_reach),
            Argument::Result(view),
            when(lists, batch.output_room(places[Room::Doubtful], 4)),
            when(lists, Argument::Room(places[Room::Counts], 4)),
        ];
        let (grid, threads) = batch.aligned_blocks_of(entry);
        stream.launch(function, grid, threads, &arguments)
    }

    /// Scores the panels of the list from the image itself.
    ///
    /// # Errors
    /// The driver's.
    pub fn repair(
        &self,
        stream: &Stream,
        batch: &Batch,
        constants: &Constants,
        view: &ResultView,
        template: Repair,
        multiprocessors: usize,
    ) -> Result<(), Fault> {
        let places = &batch.places;
        let all = volume(batch.layout.template) * batch.layout.channels as usize * 8;
        let optional = |address: Option<Address>, bytes: usize| {
            address.map_or(Argument::Null, |address| Argument::Room(address, bytes))
        };
        let arguments = [
            Argument::Constants(constants),
            batch.image_room(),
            Argument::Image(&batch.image),
            Argument::Layout(&batch.layout),
            batch.tile_room(),
            batch.output_room(places[Room::Doubtful], 4),
            Argument::Room(places[Room::Counts], 4),
            Argument::Room(template.values, all),
            optional(template.raw, all),
            optional(template.weights, volume(batch.layout.template) * 8),
            Argument::Room(places[Room::Result], batch.result_reach),
            Argument::Result(view),
        ];
        // As many blocks as multiprocessors have room for, about.
        let (threads, blocks) = if volume(batch.layout.template) > REMEMBERED { (512, 2) } else { (128, 8) };
        stream.launch(have(&self.repair)?, [blocks * multiprocessors as u32, 1, 1], [threads, 1], &arguments)
    }
}

/// What [`Steps::finish`] takes into account.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Finishing {
    /// Window sums of samples.
    pub sum: bool,
    /// Window sums of squares.
    pub square: bool,
    /// Marks and scales.
    pub careful: bool,
    /// Thresholds of each tile, instead of those in the constants.
    pub thresholds: bool,
    /// Panels in doubt are listed.
    pub lists: bool,
}

/// A template as [`Steps::repair`] takes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repair {
    /// The template's values.
    pub values: Address,
    /// The template's values before centring and scaling.
    pub raw: Option<Address>,
    /// The mask.
    pub weights: Option<Address>,
}
