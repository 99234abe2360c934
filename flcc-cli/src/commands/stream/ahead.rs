//! Frames read by a thread of their own, and never more of them than were asked for.

use std::sync::mpsc::{Receiver, Sender, channel};

use serde_json::Value;

use crate::data::Image;
use crate::error::Error;

/// A frame's name and what was read of it.
pub type Frame = (Value, Result<Image, Error>);

/// The thread's other end.
pub struct Ahead {
    wishes: Sender<()>,
    frames: Receiver<Frame>,
    /// Frames asked for and not taken.
    due: usize,
}

impl Ahead {
    /// Reads from a source, which is made in the thread. Nobody waits for the thread's end: its source may have nothing
    /// to give for hours.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn new<I: Iterator<Item = Frame>>(source: impl FnOnce() -> I + Send + 'static) -> Result<Ahead, Error> {
        let (wishes, asked) = channel();
        let (give, frames) = channel();
        let read = move || {
            let mut source = source();
            while let (Ok(()), Some(frame)) = (asked.recv(), source.next()) {
                if give.send(frame).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("frames".into()).spawn(read);
        thread.map_err(|error| Error::Failed(format!("frames: expected a thread that reads them, got: {error}")))?;
        Ok(Ahead { wishes, frames, due: 0 })
    }

    /// Has frames read until so many are there or on their way.
    pub fn ask(&mut self, count: usize) {
        while self.due < count && self.wishes.send(()).is_ok() {
            self.due += 1;
        }
    }

    /// Waits for the next frame, and takes those behind it that are there, up to so many in all; none where there are
    /// no more.
    pub fn take(&mut self, most: usize) -> Vec<Frame> {
        self.ask(most);
        let first = self.frames.recv().ok();
        let more = if first.is_some() { most - 1 } else { 0 };
        let taken: Vec<Frame> = first.into_iter().chain(self.frames.try_iter().take(more)).collect();
        self.due -= taken.len();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn no_more_is_read_than_was_asked_for() {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let source = move || {
            (0..7).map(move |number| {
                count.fetch_add(1, Ordering::SeqCst);
                (Value::from(number), Err(Error::Failed(String::new())))
            })
        };
        let mut ahead = Ahead::new(source).unwrap();
        let mut seen = Vec::new();
        let mut take = |ahead: &mut Ahead, most: usize| {
            let taken = ahead.take(most);
            seen.extend(taken.iter().map(|(name, _)| name.as_u64().unwrap()));
            (taken.len(), seen.len())
        };
        assert_eq!(take(&mut ahead, 1), (1, 1));
        assert_eq!(read.load(Ordering::SeqCst), 1, "one at a time, nothing is read ahead");
        ahead.ask(2);
        let (first, _) = take(&mut ahead, 3);
        assert!((1..=3).contains(&first));
        loop {
            let (taken, all) = take(&mut ahead, 3);
            assert!(read.load(Ordering::SeqCst) <= all + 3);
            if taken == 0 {
                break;
            }
        }
        assert_eq!(take(&mut ahead, 3).0, 0, "the end stays the end");
        assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6]);
    }
}
