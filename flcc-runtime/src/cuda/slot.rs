//! A slot: a stream with the buffers of a group of images.

use std::any::Any;
use std::sync::Arc;

use flcc_core::dtype::DType;

use crate::cuda::driver::buffer::{Pinned, bytes_of};
use crate::cuda::driver::launch::{Address, Gpu, ImageView, Stream, Tile};
use crate::cuda::driver::staging::Staging;
use crate::cuda::fault::Fault;
use crate::cuda::method::Method;
use crate::cuda::reduction::Work;
use crate::cuda::rooms::{Capacity, Places, Room, Rooms};

/// Images on the device: where they begin, how they lie, bytes that are theirs (0: their maker answers), and how many.
#[derive(Clone, Copy)]
pub(crate) struct Images {
    pub at: Address,
    pub view: ImageView,
    pub bytes: usize,
    pub count: usize,
}

impl Images {
    /// The images from one on.
    pub fn image(&self, first: usize, dtype: DType) -> Images {
        let passed = first * self.view.image_stride as usize * dtype.row().size;
        let bytes = self.bytes.saturating_sub(passed);
        Images { at: self.at.skip(passed), bytes, count: self.count - first, ..*self }
    }
}

/// A stream with the buffers of a group of images.
pub struct Slot {
    pub(crate) stream: Stream,
    pub(crate) rooms: Rooms,
    /// What is told to the host: first whether a kernel from image to result met samples that it does not serve, which
    /// it writes there, then the counts.
    pub(crate) told: Pinned<u32>,
    /// What a kernel of pairs tells the host of each: whether it met samples that it does not serve.
    pub(crate) answers: Option<Pinned<u32>>,
    /// Where results go instead, which is the caller's.
    pub(crate) target: Option<Address>,
    /// The images that such a kernel was given last.
    pub(crate) straight: Option<Images>,
    /// What the method needs on the stream.
    pub(crate) open: Box<dyn Any + Send>,
    pub(crate) staging: Staging,
    /// What the last search needed, if there was one.
    pub(crate) peaks: Option<Work>,
    /// Whether runs with its buffers were put into streams of callers.
    pub(crate) lent: bool,
}

impl Slot {
    /// A slot for groups of images of these tiles.
    ///
    /// # Errors
    /// The device is out of memory.
    pub(crate) fn new(gpu: &Arc<Gpu>, method: &dyn Method, capacity: &Capacity, tiles: &[Tile]) -> Result<Slot, Fault> {
        let stream = gpu.stream()?;
        let open = method.open(&stream, capacity.lanes())?;
        let mut rooms = Rooms::new(&stream, capacity)?;
        let repeated: Vec<Tile> = (0..capacity.group)
            .flat_map(|image| tiles.iter().map(move |tile| Tile { image: image as i32, ..*tile }))
            .collect();
        rooms[Room::Tiles].upload(&stream, 0, bytes_of(&repeated))?;
        stream.wait()?;
        let counts = if capacity.doubts { Room::Counts.bytes(capacity) / size_of::<u32>() } else { 0 };
        let told = Pinned::new(gpu, 1 + counts)?;
        Ok(Slot {
            stream,
            rooms,
            told,
            answers: None,
            target: None,
            straight: None,
            open,
            staging: Staging::default(),
            peaks: None,
            lent: false,
        })
    }

    /// Whether a kernel from image to result has met samples that it does not serve, since that was forgotten.
    pub(crate) fn unserved(&mut self, forget: bool) -> bool {
        let unserved = self.told.read(0) != 0;
        if forget {
            self.told.write(0, 0);
        }
        unserved
    }

    /// Room for the answers of so many pairs, all 0; nothing is in the queue that writes there.
    ///
    /// # Errors
    /// Memory that the system does not pin.
    pub(crate) fn clear_answers(&mut self, gpu: &Arc<Gpu>, count: usize) -> Result<Address, Fault> {
        if self.answers.as_ref().is_none_or(|answers| answers.len() < count) {
            self.answers = Some(Pinned::new(gpu, count)?);
        }
        let Some(answers) = &mut self.answers else { return Ok(Address::default()) };
        (0..count).for_each(|index| answers.write(index, 0));
        Ok(answers.address())
    }

    /// The answer of a pair, when the stream was waited for.
    pub(crate) fn answer(&self, index: usize) -> bool {
        self.answers.as_ref().is_some_and(|answers| answers.read(index) != 0)
    }

    /// Waits until nothing is in its queue, whatever became of it.
    pub fn settle(&self) {
        self.stream.settle();
    }

    /// Where results go.
    pub(crate) fn target(&self) -> Address {
        self.target.unwrap_or_else(|| self.rooms[Room::Result].address(&self.stream))
    }

    /// Where its buffers lie, and results go.
    pub(crate) fn places(&self) -> Places {
        let mut places = self.rooms.places(&self.stream);
        places[Room::Result] = self.target();
        places
    }
}

/// Nothing uses the buffers any more when they are given back: what lies in streams of callers was waited for.
impl Drop for Slot {
    fn drop(&mut self) {
        if self.lent {
            self.stream.settle_device();
        }
    }
}
