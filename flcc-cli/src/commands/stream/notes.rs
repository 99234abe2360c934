//! What is noted of frames: of the first that it concerns at once, and at the end of how many.

use std::collections::BTreeMap;
use std::io::Write;

use crate::data::Image;

/// How many frames each note concerned.
#[derive(Debug, Default)]
pub struct Notes(BTreeMap<String, u64>);

impl Notes {
    /// Takes the notes of a frame, and tells on standard error those that are new.
    pub fn take(&mut self, frame: &Image) {
        frame.notes().iter().for_each(|note| self.note(frame, note));
    }

    /// Takes one note of a frame.
    pub fn note(&mut self, frame: &Image, note: &str) {
        match self.0.get_mut(note) {
            Some(count) => *count += 1,
            None => {
                frame.tell(note);
                self.0.insert(note.into(), 1);
            }
        }
    }

    /// Tells on standard error how many of so many frames the notes concerned that concerned more than one.
    pub fn tell(&self, frames: usize) {
        for (note, count) in self.0.iter().filter(|&(_, &count)| count > 1) {
            // Nobody may be listening; then there is nobody to tell that.
            let _ = writeln!(std::io::stderr(), "note: FRAMES: {note}: {count} of {frames} frames");
        }
    }
}
