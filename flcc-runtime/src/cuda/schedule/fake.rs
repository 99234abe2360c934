//! Made-up devices for tests of a run: they fail when they are told to, and complain of what no device may be asked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use flcc_core::view::{AnyView, AnyViewMut};

use super::Device;
use crate::cuda::fault::Fault;
use crate::run::execute::{CancelToken, Copies, Statistics};

/// Tiles of one image.
pub const TILES: usize = 3;

/// Slots of a device that take turns.
pub const SLOTS: usize = 2;

/// What a device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Slot,
    Submit,
    Collect,
}

/// When a device fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Never.
    Sound,
    /// It has room for one slot.
    Small,
    /// For good, at so many calls of a kind: 0 is the first.
    Lost(Call, usize),
}

/// The score of an image with a template.
pub fn score(image: usize, template: usize) -> f32 {
    (10 * image + template) as f32
}

/// The number of a unit's device.
pub fn number(unit: usize) -> usize {
    unit + 4
}

/// What a unit's device says when it is lost.
pub fn fault(unit: usize) -> Fault {
    Fault::new(format!("device {}: a call", number(unit)), "it is lost")
}

/// What a group of images counts: which they were, as bits, and how many tiles and results.
pub fn counts(images: &[usize], templates: usize) -> Statistics {
    Statistics {
        panels: (images.len() * templates) as u64,
        repaired: images.iter().map(|&image| 1 << image).sum(),
        tiles: (images.len() * TILES) as u64,
    }
}

/// What the devices of a test keep together.
#[derive(Default)]
pub struct Account {
    /// What a device was asked for and may not be.
    pub complaints: RefCell<Vec<String>>,
    /// Units that may be asked for nothing more, those that failed first in front.
    pub lost: RefCell<Vec<usize>>,
    /// A token, and the submit of all in whose midst it is used.
    pub cancel: (CancelToken, Option<usize>),
    submits: Cell<usize>,
    /// The unit of each slot, and whether it was settled since it was used.
    slots: RefCell<Vec<(usize, Rc<Cell<bool>>)>>,
}

impl Account {
    /// One whose cancel token is used at this submit.
    pub fn cancelling(at: Option<usize>) -> Account {
        Account { cancel: (CancelToken::new(), at), ..Account::default() }
    }

    /// How many slots were not settled since they were used, of these units.
    pub fn unsettled(&self, of: impl Fn(usize) -> bool) -> usize {
        self.slots.borrow().iter().filter(|(unit, settled)| of(*unit) && !settled.get()).count()
    }

    fn complain(&self, unit: usize, what: impl Into<String>) {
        self.complaints.borrow_mut().push(format!("unit {unit}: {}", what.into()));
    }
}

/// A made-up device.
pub struct Fake<'a> {
    unit: usize,
    fate: Fate,
    group: usize,
    account: &'a Account,
    /// Calls so far, of each kind.
    calls: [Cell<usize>; 3],
    lost: Cell<bool>,
}

/// Templates of a made-up device: whose they are, and how many.
pub struct Templates {
    pub unit: usize,
    pub count: usize,
}

/// A slot of a made-up device.
pub struct Slot<'a> {
    unit: usize,
    account: &'a Account,
    settled: Rc<Cell<bool>>,
    /// The group in its queue: images, templates and where its results go.
    holds: Option<(Vec<usize>, usize, usize)>,
}

impl Slot<'_> {
    /// Whether it has no group, or one that nobody waits for any more.
    fn is_free(&self) -> bool {
        self.holds.is_none() || self.settled.get()
    }
}

/// What is dropped is not in use.
impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if !self.settled.get() {
            self.account.complain(self.unit, "a slot was dropped before it was settled");
        }
    }
}

impl<'a> Fake<'a> {
    pub fn new(unit: usize, fate: Fate, group: usize, account: &'a Account) -> Fake<'a> {
        Fake { unit, fate, group, account, calls: Default::default(), lost: Cell::new(false) }
    }

    /// Answers a call. `fatal`: a failure is the device's end.
    fn answer(&self, call: Call, fatal: bool) -> Result<(), Fault> {
        let account = self.account;
        // Else a run that does so may never end.
        assert!(!account.lost.borrow().contains(&self.unit), "unit {}: {call:?} after it was lost", self.unit);
        let calls = &self.calls[call as usize];
        let before = calls.replace(calls.get() + 1);
        self.lost.set(self.lost.get() || self.fate == Fate::Lost(call, before));
        if self.fate == Fate::Small && call == Call::Slot && before > 0 {
            if before > 1 {
                account.complain(self.unit, "asked again for what it has no room for");
            }
            return Err(Fault::new("a call", "there is no room"));
        }
        if !self.lost.get() {
            return Ok(());
        }
        if fatal {
            account.lost.borrow_mut().push(self.unit);
        }
        Err(Fault::new("a call", "it is lost"))
    }
}

/// The two numbers of a result: its score, and how often it was written.
fn numbers<'o>(out: &'o mut AnyViewMut<'_>) -> &'o mut [f32] {
    let AnyViewMut::F32(view) = out else { unreachable!("results of tests are f32") };
    view.parts().0
}

/// Where results lie.
fn place(outs: &mut [AnyViewMut<'_>]) -> usize {
    outs.first_mut().map_or(0, |out| numbers(out).as_ptr() as usize)
}

impl<'a, 'o> Device<AnyViewMut<'o>> for Fake<'a> {
    type Slot = Slot<'a>;
    type Bound = Templates;

    fn number(&self) -> usize {
        number(self.unit)
    }

    fn tiles(&self) -> usize {
        TILES
    }

    fn group(&self) -> usize {
        self.group
    }

    fn slots(&self) -> usize {
        SLOTS
    }

    fn slot(&self) -> Result<Slot<'a>, Fault> {
        let first = self.account.slots.borrow().iter().all(|(unit, _)| *unit != self.unit);
        self.answer(Call::Slot, first)?;
        let settled = Rc::new(Cell::new(true));
        self.account.slots.borrow_mut().push((self.unit, Rc::clone(&settled)));
        Ok(Slot { unit: self.unit, account: self.account, settled, holds: None })
    }

    fn submit(
        &self,
        slot: &mut Slot<'a>,
        bound: &Templates,
        (images, outs): (&[AnyView<'_>], &mut [AnyViewMut<'o>]),
        copies: Copies,
        mut go_on: impl FnMut(usize) -> bool,
    ) -> Result<bool, Fault> {
        let account = self.account;
        if slot.unit != self.unit || bound.unit != self.unit || !slot.is_free() {
            account.complain(self.unit, "a slot or templates of another unit, or a slot in use");
        }
        if images.is_empty()
            || images.len() > self.group
            || outs.len() != images.len() * bound.count
            || copies != Copies::Direct
        {
            account.complain(self.unit, format!("{} images, {} results, {copies:?}", images.len(), outs.len()));
        }
        if account.unsettled(|unit| account.lost.borrow().contains(&unit)) > 0 {
            account.complain(self.unit, "others go on before what is lost was settled");
        }
        slot.settled.set(false);
        self.answer(Call::Submit, true)?;
        let number = account.submits.replace(account.submits.get() + 1);
        for tile in 0..images.len() * TILES {
            if tile == 1 && account.cancel.1 == Some(number) {
                account.cancel.0.cancel();
            }
            if !go_on(tile) {
                return Ok(false);
            }
        }
        let images = images.iter().map(|image| image.at([0; 3]) as usize).collect();
        slot.holds = Some((images, bound.count, place(outs)));
        Ok(true)
    }

    /// Writes the results; where it fails, something else.
    fn collect(
        &self,
        slot: &mut Slot<'a>,
        bound: &Templates,
        outs: &mut [AnyViewMut<'o>],
    ) -> Result<Statistics, Fault> {
        if bound.unit != self.unit {
            self.account.complain(self.unit, "collected with templates of another unit");
        }
        let Some((images, templates, at)) = slot.holds.take().filter(|_| slot.unit == self.unit && !slot.settled.get())
        else {
            self.account.complain(self.unit, "collected from a slot of another unit, or one without a group");
            return Err(fault(self.unit));
        };
        if outs.len() != images.len() * templates || place(outs) != at {
            self.account.complain(self.unit, "results go elsewhere than it was said before");
        }
        let answer = self.answer(Call::Collect, true);
        for (index, out) in outs.iter_mut().enumerate() {
            let numbers = numbers(out);
            match answer {
                Ok(()) => {
                    numbers[0] = score(images[index / templates], index % templates);
                    numbers[1] += 1.0;
                }
                Err(_) => numbers[0] = f32::NAN,
            }
        }
        answer.map(|()| counts(&images, templates))
    }

    fn settle(slot: &Slot<'a>) {
        slot.settled.set(true);
    }
}
