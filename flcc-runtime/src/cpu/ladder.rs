//! The ladder of closer ways: parts of tiles that one way leaves in doubt go to the next.
//!
//! Near in f32, by small tiles, each centred for itself; then in f64; then, of large templates, directly in f64.

use std::any::Any;
use std::sync::OnceLock;

use flcc_core::view::AnyView;

use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::Store;
use crate::cpu::tile::bound::{BoundTemplate, BoundTemplates};
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::scratch::TileScratch;
use crate::problem::template::Weights;
use crate::run::execute::Statistics;
use crate::run::tiling::TileBox;

/// A way through parts of tiles, in whatever type it computes.
trait Rung: Send + Sync {
    /// Outputs an axis of its parts.
    fn capacity(&self) -> [usize; 3];

    /// Templates that another way has bound, in its own form.
    fn bind(&self, templates: &[BoundTemplate], weights: &Weights) -> Box<dyn Any + Send + Sync>;

    /// Bytes of a template in that form.
    fn template_bytes(&self) -> usize;

    /// Buffers of one worker.
    fn scratch(&self, memory: &mut Memory) -> Box<dyn Any + Send>;

    /// Computes a part with what it has bound and made; `None` where it gives up.
    fn run(
        &self,
        part: Part<'_>,
        bound: &(dyn Any + Send + Sync),
        scratch: &mut (dyn Any + Send),
        store: &mut Store<'_>,
    ) -> Option<Statistics>;

    /// What it left of the part computed last.
    fn left<'a>(&self, scratch: &'a (dyn Any + Send)) -> &'a [TileBox];
}

/// A part of a tile of an image.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// The image.
    pub image: &'a AnyView<'a>,
    /// The part.
    pub tile: &'a TileBox,
}

/// A [`Rung`] in one type.
struct Way<T: Real> {
    context: TileContext<T>,
    /// Whether a part is done as a whole or not at all.
    whole: bool,
}

impl<T: Real> Rung for Way<T> {
    fn capacity(&self) -> [usize; 3] {
        self.context.capacity
    }

    fn bind(&self, templates: &[BoundTemplate], weights: &Weights) -> Box<dyn Any + Send + Sync> {
        Box::new(self.context.bind_again(templates, weights))
    }

    fn template_bytes(&self) -> usize {
        self.context.template_bytes()
    }

    fn scratch(&self, memory: &mut Memory) -> Box<dyn Any + Send> {
        let scratch = self.context.scratch(memory);
        memory.boxed(scratch)
    }

    fn run(
        &self,
        part: Part<'_>,
        bound: &(dyn Any + Send + Sync),
        scratch: &mut (dyn Any + Send),
        store: &mut Store<'_>,
    ) -> Option<Statistics> {
        let bound: &BoundTemplates<T> = bound.downcast_ref().expect("a way runs what it has bound");
        let scratch: &mut TileScratch<T> = scratch.downcast_mut().expect("a way works in what it has made");
        let done = self.context.run(part.image, part.tile, bound, scratch, store)?;
        (!self.whole || scratch.again().is_empty()).then_some(done)
    }

    fn left<'a>(&self, scratch: &'a (dyn Any + Send)) -> &'a [TileBox] {
        let scratch: &TileScratch<T> = scratch.downcast_ref().expect("a way works in what it has made");
        scratch.again()
    }
}

/// Closer ways, the nearest first.
#[derive(Default)]
pub struct Ladder {
    rungs: Vec<Box<dyn Rung>>,
}

/// Templates in the form of each way, made when a part asks for it.
#[derive(Default)]
pub struct LadderBound {
    rungs: Vec<OnceLock<Box<dyn Any + Send + Sync>>>,
}

impl LadderBound {
    /// Forgets what was bound: the templates are others.
    pub fn forget(&mut self) {
        self.rungs.iter_mut().for_each(|bound| *bound = OnceLock::new());
    }
}

/// Buffers of one worker for each way.
pub struct LadderScratch {
    rungs: Vec<Box<dyn Any + Send>>,
}

impl Ladder {
    /// The ways from `careful` on, which leaves parts to `last`; `near` comes before them.
    pub fn new(
        near: Option<TileContext<f32>>,
        mut careful: TileContext<f64>,
        last: Option<TileContext<f64>>,
    ) -> Ladder {
        let mut ladder = Ladder::default();
        if let Some(last) = last {
            ladder.add(last, false);
        }
        ladder.leads(&mut careful);
        ladder.add(careful, false);
        if let Some(mut near) = near {
            ladder.leads(&mut near);
            ladder.add(near, true);
        }
        ladder
    }

    fn add<T: Real>(&mut self, context: TileContext<T>, whole: bool) {
        self.rungs.insert(0, Box::new(Way { context, whole }));
    }

    /// Lets a way leave parts to the first one here, if there is one.
    pub fn leads<T: Real>(&self, context: &mut TileContext<T>) {
        if let Some(rung) = self.rungs.first() {
            (context.parts, context.patience) =
                (rung.capacity(), patience(rung.capacity(), context.spec.template().len()));
        }
    }

    /// Room for what the ways will bind.
    pub fn unbound(&self) -> LadderBound {
        LadderBound { rungs: self.rungs.iter().map(|_| OnceLock::new()).collect() }
    }

    /// Binds templates for every way.
    pub fn bind(&self, templates: &[BoundTemplate], weights: &Weights) -> LadderBound {
        let rungs = self.rungs.iter().map(|rung| OnceLock::from(rung.bind(templates, weights)));
        LadderBound { rungs: rungs.collect() }
    }

    /// Bytes of a template for every way.
    pub fn template_bytes(&self) -> usize {
        self.rungs.iter().map(|rung| rung.template_bytes()).sum()
    }

    /// Buffers of one worker.
    pub fn scratch(&self, memory: &mut Memory) -> LadderScratch {
        LadderScratch { rungs: self.rungs.iter().map(|rung| rung.scratch(memory)).collect() }
    }

    /// Computes a part of a tile by the first way, and what that leaves by those after it.
    pub fn run<T: Real>(
        &self,
        part: Part<'_>,
        plain: &BoundTemplates<T>,
        bound: &LadderBound,
        scratch: &mut LadderScratch,
        store: &mut Store<'_>,
    ) -> Statistics {
        let climb =
            Climb { rungs: &self.rungs, bound: &bound.rungs, templates: &plain.templates, weights: &plain.weights };
        climb.run(part, &mut scratch.rungs, store)
    }
}

/// The ways that are left.
#[derive(Clone, Copy)]
struct Climb<'a> {
    rungs: &'a [Box<dyn Rung>],
    bound: &'a [OnceLock<Box<dyn Any + Send + Sync>>],
    templates: &'a [BoundTemplate],
    weights: &'a Weights,
}

impl Climb<'_> {
    fn run(self, part: Part<'_>, scratch: &mut [Box<dyn Any + Send>], store: &mut Store<'_>) -> Statistics {
        let (Some((rung, rungs)), Some((bound, others)), Some((scratch, rest))) =
            (self.rungs.split_first(), self.bound.split_first(), scratch.split_first_mut())
        else {
            return Statistics::default();
        };
        let bound = bound.get_or_init(|| rung.bind(self.templates, self.weights));
        let above = Climb { rungs, bound: others, ..self };
        let Some(mut statistics) = rung.run(part, &**bound, &mut **scratch, store) else {
            let mut statistics = Statistics::default();
            for tile in rungs.first().into_iter().flat_map(|next| part.tile.parts(next.capacity())) {
                statistics.add(above.run(Part { tile: &tile, ..part }, rest, store));
            }
            return statistics;
        };
        for tile in rung.left(&**scratch) {
            // Its panels were counted.
            let Statistics { repaired, tiles, .. } = above.run(Part { tile, ..part }, rest, store);
            statistics.add(Statistics { panels: 0, repaired, tiles });
        }
        statistics
    }
}

/// How many panels of a part are rather recomputed one by one than all of it by a way with parts of so many outputs.
fn patience(capacity: [usize; 3], samples: usize) -> u64 {
    // A panel of a part takes some 30 ns by the direct kernels and 50 by transforms, one alone about 1 ns for each
    // sample.
    let (outputs, samples) = (capacity.iter().product::<usize>() as u64, samples as u64);
    (outputs / 32).min(40 * outputs / samples.max(1)).max(16)
}
