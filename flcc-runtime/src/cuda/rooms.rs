//! Every buffer of a slot, once: what it holds, how many bytes of it, and where it lies.

use std::ops::{Index, IndexMut};

use flcc_core::sums::Needs;

use crate::cuda::driver::buffer::Buffer;
use crate::cuda::driver::launch::{Address, Layout, MOST_BLOCKS, Stream, Tile, TileFigures};
use crate::cuda::fault::Fault;
use crate::cuda::types::Types;

macro_rules! rooms {
    ($($(#[$what:meta])+ $room:ident;)+) => {
        /// A buffer of a slot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Room {
            $($(#[$what])+ $room,)+
        }

        impl Room {
            /// All of them, each at its number.
            pub const ALL: [Room; [$(Room::$room),+].len()] = [$(Room::$room),+];
        }
    };
}

rooms! {
    /// Images of a group.
    Image;
    /// Templates of a group, where each image has its own.
    Own;
    /// Tiles of a group.
    Tiles;
    /// Gathered samples.
    Samples;
    /// Squares of samples, for sums under a mask by transform.
    Squares;
    /// Marks of samples that are not finite.
    Marks;
    /// Marks of samples on their way to marks of panels, as large as `Marks`.
    MarksBetween;
    /// Marks of panels.
    Hits;
    /// Offset of each tile and channel.
    Offset;
    /// Scale of each tile and channel.
    Scale;
    /// What is found of tiles, cleared together: [`Places::largest`], [`Places::span`] and [`Places::marked`].
    Found;
    /// Row sums of samples.
    RowSum;
    /// Row sums of squares.
    RowSquare;
    /// Plane sums in between, for volumes.
    Between;
    /// Window sums of samples.
    Sum;
    /// Window sums of squares.
    Square;
    /// Cross term.
    Cross;
    /// Spectra of samples.
    Spectra;
    /// Products of spectra.
    Product;
    /// Parts of figures.
    Partial;
    /// Largest sample of each tile and channel, at its scale.
    Largest;
    /// What the doubt of each tile follows from: [`Places::figures`], [`Places::cross_figures`] and [`Places::doubt`].
    Figures;
    /// Strong samples of each tile: the magnitude that they are above, and their sums by channels and blocks.
    Strong;
    /// Thresholds of doubt and offsets of transforms that a method has within a tile.
    Lows;
    /// Numbers of transforms on their way from one kernel to the next.
    Numbers;
    /// Panels in doubt.
    Doubtful;
    /// How many, for each batch and template.
    Counts;
    /// Results of a group.
    Result;
}

/// What a method makes of images, which decides what the pipeline around it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// The cross term of gathered samples.
    Cross,
    /// The cross term of gathered samples, and the window sums that a measure needs.
    CrossAndSums,
    /// Scores of images, and the list of panels in doubt.
    Scores,
}

impl Makes {
    /// Whether the pipeline makes the window sums, where a measure needs those of squares or not.
    pub fn leaves_sums(self, square: bool) -> bool {
        square && self == Makes::Cross
    }
}

/// What a method alone keeps in a slot, in bytes for a tile and channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    /// In [`Room::Squares`].
    pub squares: usize,
    /// In [`Room::Spectra`], and as many in [`Room::Product`].
    pub spectrum: usize,
    /// In what a library takes when it is opened, about.
    pub work: usize,
    /// In [`Room::Lows`].
    pub lows: usize,
    /// In [`Room::Numbers`], and what suffices for all tiles and channels together.
    pub numbers: [usize; 2],
}

/// How the largest tile lies, in elements along each axis: what its rows and planes take, slack included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sides {
    /// A tile's samples.
    pub samples: [usize; 3],
    /// The cross term.
    pub cross: [usize; 3],
    /// Window sums and marks of panels.
    pub sums: [usize; 3],
}

impl Sides {
    /// Outputs of rows of whole vectors.
    pub fn dense([depth, height, width]: [usize; 3]) -> [usize; 3] {
        [depth, height, width.next_multiple_of(4)]
    }

    /// With the room around them that kernels need whose blocks make so many rows and columns.
    pub fn padded(block: [usize; 2], outputs: [usize; 3], template: [usize; 3]) -> Sides {
        let rows = outputs[1].next_multiple_of(block[0]) + template[1] - 1;
        let row = (outputs[2].next_multiple_of(block[1]) + template[2] - 1 + 8).next_multiple_of(16);
        let dense = Sides::dense(outputs);
        Sides { samples: [outputs[0] + template[0] - 1, rows, row], cross: dense, sums: dense }
    }

    /// The layout of tiles of so many outputs.
    pub fn layout(self, outputs: [usize; 3], template: [usize; 3], channels: usize) -> Layout {
        let narrow = |sides: [usize; 3]| sides.map(|side| side as i32);
        let pitches = |[depth, height, width]: [usize; 3]| {
            [width, width * height, width * height * depth].map(|pitch| pitch as i64)
        };
        let [in_row, in_plane, in_channel] = pitches(self.samples);
        let [out_row, out_plane, out_channel] = pitches(self.sums);
        let [cross_row, cross_plane, cross_channel] = pitches(self.cross);
        Layout {
            in_row,
            in_plane,
            in_channel,
            in_tile: in_channel * channels as i64,
            out_row,
            out_plane,
            out_channel,
            out_tile: out_channel * channels as i64,
            cross_row,
            cross_plane,
            cross_channel,
            cross_tile: cross_channel * channels as i64,
            in_shape: narrow(self.samples),
            out_shape: narrow(outputs),
            template: narrow(template),
            channels: channels as i32,
            tiles: 1,
        }
    }
}

/// What a slot has room for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    /// How a tile lies.
    pub layout: Layout,
    /// The types of samples and cross term.
    pub types: Types,
    /// What a method makes.
    pub makes: Makes,
    /// What it alone keeps.
    pub own: Own,
    /// The window sums that the measure needs.
    pub needs: Needs,
    /// Whether samples are gathered that may be NaN, infinite or of extraordinary magnitude.
    pub careful: bool,
    /// Whether panels may be in doubt.
    pub doubts: bool,
    /// Whether the figures of each tile say which.
    pub by_tile: bool,
    /// Bytes of an image.
    pub image: usize,
    /// Bytes of the template that it has for its own; 0 where all images have the same.
    pub own_template: usize,
    /// Bytes of its results.
    pub result: usize,
    /// Templates of an image.
    pub templates: usize,
    /// Tiles of an image.
    pub tiles: usize,
    /// Tiles of a batch.
    pub batch: usize,
    /// Images of a group.
    pub group: usize,
    /// Slots that take turns, at most.
    pub slots: usize,
}

/// Slots that take turns: while images of one go in, another computes, and the results of a third come out.
pub const MOST_SLOTS: usize = 3;
/// Outputs that a batch has about: enough for every multiprocessor, few enough for the second-level cache to help.
const BATCH_OUTPUTS: usize = 4 << 20;
/// Images of a group where the spec leaves their number open.
const MOST_IMAGES: usize = 64;

/// Tiles of so many outputs that a batch has, where memory is no matter.
pub fn tiles_together(outputs: usize) -> usize {
    (BATCH_OUTPUTS / outputs.max(1)).max(1)
}

/// Images that a group has by batches of so many tiles, of images of `tiles` tiles; a run has `images` images, 0 where
/// that is open.
pub fn images_together(batch: usize, tiles: usize, images: usize) -> usize {
    (batch / tiles).clamp(1, if images == 0 { MOST_IMAGES } else { images })
}

impl Capacity {
    /// Bytes of a slot.
    pub fn bytes(&self) -> usize {
        Room::ALL.iter().map(|room| room.bytes(self)).sum::<usize>() + self.lanes() * self.own.work
    }

    /// Tiles of a batch times channels.
    pub fn lanes(&self) -> usize {
        self.batch * self.layout.channels as usize
    }

    /// Batches of so many images.
    pub fn batches(&self, images: usize) -> usize {
        (images * self.tiles).div_ceil(self.batch)
    }

    /// Whether the pipeline makes the window sums.
    pub fn box_sums(&self) -> bool {
        self.makes.leaves_sums(self.needs.square)
    }

    /// With batches as large as they pay and three slots, or less of both where all slots together would take more than
    /// `memory` bytes: a third slot goes first, then batches get smaller, then there is one slot alone. `images` are
    /// those that a run has, 0 where that is open.
    pub fn fit(mut self, images: usize, memory: usize) -> Capacity {
        let outputs: usize = self.layout.out_shape.iter().map(|&side| side as usize).product();
        let blocks = self.layout.out_shape[0] as usize * self.layout.channels as usize;
        let per_tile = (MOST_BLOCKS / blocks.max(1)).max(1);
        self.batch = tiles_together(outputs).min(per_tile);
        self.slots = MOST_SLOTS;
        self.form_groups(images);
        while self.bytes() * self.slots_for(images) > memory {
            match self {
                Capacity { slots: 3.., .. } => self.slots = 2,
                Capacity { batch: 2.., .. } => self.batch /= 2,
                Capacity { slots: 2, .. } => self.slots = 1,
                _ => break,
            }
            self.form_groups(images);
        }
        self
    }

    /// Slots of a run of so many images, 0 where that is open.
    pub fn slots_for(&self, images: usize) -> usize {
        if images == 0 { self.slots } else { self.slots.min(images.div_ceil(self.group)) }
    }

    /// Sizes groups and batches: as many images to a group as a batch has tiles of, and no batch longer than a group.
    fn form_groups(&mut self, images: usize) {
        self.group = images_together(self.batch, self.tiles, images);
        self.batch = self.batch.min(self.group * self.tiles);
    }

    /// Takes at most so many images in a group.
    pub fn limit_group(&mut self, images: usize) {
        self.group = self.group.min(images);
        self.batch = self.batch.min(self.group * self.tiles);
    }
}

/// Samples of a tile whose figures a block takes, at least.
const SAMPLES_OF_A_SLICE: usize = 1 << 12;
/// Blocks that share the figures of a tile, at most.
const MOST_SLICES: usize = 2048;

/// Blocks that share the figures of a tile that lies so; each has its own part.
pub(crate) fn slices(layout: &Layout) -> usize {
    (layout.in_channel as usize / SAMPLES_OF_A_SLICE).clamp(1, MOST_SLICES)
}

/// Bytes of those parts, for each tile and channel.
pub(crate) fn figures_bytes(layout: &Layout) -> usize {
    slices(layout) * size_of::<TileFigures>()
}

/// Bytes that the strong samples of so many tiles take, of so many channels together.
pub(crate) fn strong_bytes(layout: &Layout, tiles: usize, lanes: usize) -> usize {
    (tiles + lanes * slices(layout)) * size_of::<f64>()
}

impl Room {
    /// How many bytes a slot has of it.
    pub fn bytes(self, capacity: &Capacity) -> usize {
        let Capacity { layout, makes, own, needs, .. } = capacity;
        let when = |wanted: bool, bytes: usize| if wanted { bytes } else { 0 };
        let lanes = capacity.lanes();
        let samples = capacity.batch * layout.in_tile as usize;
        let sums = capacity.batch * layout.out_tile as usize * size_of::<f64>();
        let outputs = capacity.batch * layout.out_channel as usize;
        let gathers = *makes != Makes::Scores;
        let volume = layout.template[0] > 1 || layout.out_shape[0] > 1;
        match self {
            Room::Image => capacity.group * capacity.image,
            Room::Own => capacity.group * capacity.own_template,
            Room::Tiles => capacity.group * capacity.tiles * size_of::<Tile>(),
            Room::Samples => when(gathers, samples * capacity.types.real.row().size),
            Room::Squares => lanes * own.squares,
            Room::Marks | Room::MarksBetween => when(capacity.careful, samples),
            Room::Hits => when(capacity.careful, outputs),
            Room::Offset | Room::Scale => lanes * size_of::<f64>(),
            Room::Found => 3 * lanes * size_of::<f64>(),
            Room::RowSum => when(capacity.box_sums() && needs.sum, samples * size_of::<f64>()),
            Room::RowSquare => when(capacity.box_sums(), samples * size_of::<f64>()),
            Room::Between => when(capacity.box_sums() && volume, samples * size_of::<f64>()),
            Room::Sum => when(gathers && needs.square && (needs.sum || *makes == Makes::CrossAndSums), sums),
            Room::Square => when(gathers && needs.square, sums),
            Room::Cross => when(gathers, capacity.batch * layout.cross_tile as usize * capacity.types.cross.size()),
            Room::Spectra | Room::Product => lanes * own.spectrum,
            Room::Partial => when(capacity.by_tile, lanes * figures_bytes(layout)),
            Room::Largest => when(capacity.by_tile, lanes * size_of::<f64>()),
            Room::Figures => 3 * capacity.batch * size_of::<TileFigures>(),
            Room::Strong => when(capacity.by_tile, strong_bytes(layout, capacity.batch, lanes)),
            Room::Lows => lanes * own.lows,
            Room::Numbers => (lanes * own.numbers[0]).min(own.numbers[1]),
            Room::Doubtful => when(capacity.doubts, outputs * size_of::<u32>()),
            Room::Counts => capacity.batches(capacity.group) * capacity.templates * size_of::<u32>(),
            Room::Result => capacity.group * capacity.result,
        }
    }
}

/// The buffers of a slot.
pub(crate) struct Rooms(Vec<Buffer>);

impl Rooms {
    /// All of them, of any content.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn new(stream: &Stream, capacity: &Capacity) -> Result<Rooms, Fault> {
        let buffers = Room::ALL.iter().map(|room| Buffer::new(stream, room.bytes(capacity)));
        Ok(Rooms(buffers.collect::<Result<_, _>>()?))
    }

    /// Where they lie.
    pub fn places(&self, stream: &Stream) -> Places {
        Places(Room::ALL.map(|room| self[room].address(stream)))
    }
}

impl Index<Room> for Rooms {
    type Output = Buffer;

    fn index(&self, room: Room) -> &Buffer {
        &self.0[room as usize]
    }
}

impl IndexMut<Room> for Rooms {
    fn index_mut(&mut self, room: Room) -> &mut Buffer {
        &mut self.0[room as usize]
    }
}

/// Where the buffers of a batch lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places([Address; Room::ALL.len()]);

impl Places {
    /// A third of a room whose parts are of one size.
    fn third(&self, room: Room, number: usize) -> Address {
        let all = self[room];
        all.skip(number * (all.bytes / 3))
    }

    /// Largest magnitude of each tile and channel.
    pub fn largest(&self) -> Address {
        self.third(Room::Found, 0)
    }

    /// Largest magnitude of each tile and channel, as the careful way sees it.
    pub fn span(&self) -> Address {
        self.third(Room::Found, 1)
    }

    /// Whether a tile has marks.
    pub fn marked(&self) -> Address {
        self.third(Room::Found, 2)
    }

    /// The figures of each tile's samples.
    pub fn figures(&self) -> Address {
        self.third(Room::Figures, 0)
    }

    /// The figures of each tile's cross term.
    pub fn cross_figures(&self) -> Address {
        self.third(Room::Figures, 1)
    }

    /// Thresholds of each tile, as large as figures are.
    pub fn doubt(&self) -> Address {
        self.third(Room::Figures, 2)
    }
}

impl Index<Room> for Places {
    type Output = Address;

    fn index(&self, room: Room) -> &Address {
        &self.0[room as usize]
    }
}

impl IndexMut<Room> for Places {
    fn index_mut(&mut self, room: Room) -> &mut Address {
        &mut self.0[room as usize]
    }
}
