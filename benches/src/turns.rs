//! Works timed in turns, so that a machine whose speed drifts is as slow for one as for the other.

use std::time::Instant;

/// The times of works that took turns, in milliseconds.
pub struct Turns {
    /// Work by work, its time in every round.
    times: Vec<Vec<f64>>,
}

impl Turns {
    /// Times every work once a round, always in the same order, after a run of each that warms up. One measurement
    /// lasts `least` milliseconds or more: works that are shorter are repeated within it.
    pub fn take(rounds: usize, least: f64, works: &mut [&mut dyn FnMut()]) -> Turns {
        let repeats: Vec<usize> =
            works.iter_mut().map(|work| (least / once(work, 1)).ceil().max(1.0) as usize).collect();
        let mut times = vec![Vec::with_capacity(rounds); works.len()];
        for _ in 0..rounds {
            for (number, work) in works.iter_mut().enumerate() {
                times[number].push(once(work, repeats[number]));
            }
        }
        Turns { times }
    }

    /// The median time of a work.
    pub fn ms(&self, work: usize) -> f64 {
        median(&self.times[work])
    }

    /// The median over the rounds of one work's time over another's.
    pub fn ratio(&self, work: usize, other: usize) -> f64 {
        median(&self.times[work].iter().zip(&self.times[other]).map(|(time, other)| time / other).collect::<Vec<_>>())
    }
}

/// The time of one run, by several in a row, in milliseconds.
fn once(work: &mut dyn FnMut(), repeats: usize) -> f64 {
    let began = Instant::now();
    (0..repeats).for_each(|_| work());
    began.elapsed().as_secs_f64() * 1e3 / repeats as f64
}

/// The middle value, of an even number the mean of the two in the middle; NaN of none.
pub fn median(values: &[f64]) -> f64 {
    if values.is_empty() {
        return f64::NAN;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[(sorted.len() - 1) / 2] + sorted[sorted.len() / 2]) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let turns = Turns { times: vec![vec![2.0, 20.0, 6.0], vec![1.0, 10.0, 2.0]] };
        assert_eq!([turns.ms(0), turns.ms(1)], [6.0, 2.0]);
        assert_eq!(turns.ratio(0, 1), 2.0);
    }

    #[test]
    fn every_work_has_its_turn() {
        let [mut first, mut second] = [0, 0];
        let pause = || std::thread::sleep(std::time::Duration::from_millis(6));
        Turns::take(3, 5.0, &mut [&mut || (first += 1, pause()).1, &mut || (second += 1, pause()).1]);
        assert_eq!([first, second], [4, 4]);
    }
}
