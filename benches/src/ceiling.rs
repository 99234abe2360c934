//! What bounds a kernel on some threads: multiply-adds from registers, and a copy.

use std::hint::black_box;
use std::thread;

use flcc_runtime::rooms::isa::simd::{Job, Simd};
use flcc_runtime::rooms::isa::{IsaSet, Vectors};

/// Independent chains of multiply-adds: more than two units of four cycles keep busy, and few enough for 16 registers.
const CHAINS: usize = 12;
/// Multiply-adds of vectors a chain. Some 50 ms: for some of the first the system may keep two threads on one core.
const LENGTH: usize = 20_000_000;
/// Values that are copied: 16 MB of `f32`.
const VALUES: usize = 4_000_000;
/// Values copied at a time, a row of an image: by longer ones the copy would be another with the number of threads.
const ROW: usize = 2000;
/// How often they are copied in one run: some 50 ms, as above.
const COPIES: usize = 16;

/// Multiply-adds of vectors of `f32` that stay in registers.
pub struct MultiplyAdds(Option<Vectors>);

impl MultiplyAdds {
    /// In the best vectors of these instruction sets; without any, as the compiler makes them.
    pub fn new(isas: &IsaSet) -> MultiplyAdds {
        MultiplyAdds(Vectors::new(isas))
    }

    /// Does them, shared out to so many threads.
    pub fn run(&self, threads: usize) {
        let length = LENGTH / threads;
        let chains = |_: ()| match &self.0 {
            Some(vectors) => black_box(vectors.run(Chains { length })),
            None => black_box(plain_chains(length)),
        };
        together(vec![(); threads], chains);
    }

    /// Floating-point operations of one run.
    pub fn operations(&self) -> f64 {
        2.0 * (CHAINS * LENGTH * self.0.map_or(PLAIN_LANES, |vectors| vectors.lanes())) as f64
    }
}

/// Chains in vectors.
struct Chains {
    length: usize,
}

impl Job for Chains {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let [factor, term] = black_box([0.5, 1.0]).map(|value| s.splat(value));
        // Each begins with its own value, or they would be one.
        let mut sums = [term; CHAINS];
        for (sum, &begin) in sums.iter_mut().zip(&black_box([3.0; CHAINS])) {
            *sum = s.splat(begin);
        }
        for _ in 0..self.length {
            for sum in &mut sums {
                *sum = s.mul_add(*sum, factor, term);
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += s.total(sum);
        }
        total
    }
}

/// Values of a vector of the compiler's choice.
const PLAIN_LANES: usize = 4;

/// Chains of plain loops.
fn plain_chains(length: usize) -> f32 {
    let [factor, term] = black_box([0.5f32, 1.0]);
    let mut sums = black_box([[3.0f32; PLAIN_LANES]; CHAINS]);
    for _ in 0..length {
        sums.as_flattened_mut().iter_mut().for_each(|sum| *sum = *sum * factor + term);
    }
    sums.as_flattened().iter().sum()
}

/// Memory that is copied.
pub struct Memory {
    from: Vec<f32>,
    to: Vec<f32>,
}

impl Memory {
    /// Twice 16 MB, which are written, so that they are there.
    pub fn new() -> Memory {
        Memory { from: vec![1.0; VALUES], to: vec![2.0; VALUES] }
    }

    /// Copies all of it some times, each thread its own part.
    pub fn run(&mut self, threads: usize) {
        let part = VALUES.div_ceil(threads);
        let parts: Vec<_> = self.to.chunks_mut(part).zip(self.from.chunks(part)).collect();
        together(parts, |(to, from)| {
            for _ in 0..COPIES {
                to.chunks_mut(ROW).zip(from.chunks(ROW)).for_each(|(to, from)| to.copy_from_slice(from));
                black_box(&mut *to);
            }
        });
    }

    /// Bytes read and written in one run.
    pub fn bytes(&self) -> f64 {
        2.0 * (COPIES * VALUES * size_of::<f32>()) as f64
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// Does the work for every part, each on a thread, the first on this one.
fn together<P: Send, R>(parts: Vec<P>, work: impl Fn(P) -> R + Sync) {
    let mut parts = parts.into_iter();
    let first = parts.next();
    thread::scope(|scope| {
        for part in parts {
            let work = &work;
            scope.spawn(move || {
                work(part);
            });
        }
        first.map(&work);
    });
}

#[cfg(test)]
mod tests {
    use flcc_runtime::rooms::isa::detect;

    use super::*;

    #[test]
    fn chains_come_to_two() {
        // x / 2 + 1 is at rest at 2.
        assert_eq!(plain_chains(100), 2.0 * (CHAINS * PLAIN_LANES) as f32);
        if let Some(vectors) = Vectors::new(&detect()) {
            assert_eq!(vectors.run(Chains { length: 100 }), 2.0 * (CHAINS * vectors.lanes()) as f32);
        }
    }

    #[test]
    fn all_is_copied() {
        for threads in 1..=3 {
            let mut memory = Memory::new();
            memory.run(threads);
            assert_eq!(memory.to, memory.from, "{threads} threads");
        }
    }
}
