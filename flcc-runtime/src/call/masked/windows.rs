//! Sums, minima and maxima of every window of a block, by doubling: few roundings, and none of what lies outside a
//! window.

/// How many additions a term of a window's sum goes through at most.
pub(super) fn roundings(window: [usize; 3]) -> f64 {
    window.iter().map(|&length| f64::from(2 * length.ilog2())).sum()
}

/// What `join` makes of every window of a block, in the place of the block's first values: as many along each axis as
/// it has places. A window of `T` samples is put together from runs of 1, 2, 4 and so on, so that each axis takes at
/// most `2 log2 T` joins. `spare` is of any size.
#[inline(always)]
pub(super) fn windows(
    block: &mut Vec<f64>,
    shape: [usize; 3],
    window: [usize; 3],
    spare: &mut Vec<f64>,
    join: impl Fn(f64, f64) -> f64,
) {
    let mut lengths = shape;
    for axis in [2, 1, 0] {
        let (length, window) = (lengths[axis], window[axis]);
        if window == 1 {
            continue;
        }
        // Along this axis neighbours lie a stride apart, in slabs that do not touch each other.
        let stride: usize = lengths[axis + 1..].iter().product();
        let (slab, kept) = (length * stride, (length + 1 - window) * stride);
        let slabs = block.len() / slab;
        spare.resize(kept, 0.0);
        for number in 0..slabs {
            let runs = &mut block[number * slab..(number + 1) * slab];
            let (mut run, mut done) = (1, 0);
            loop {
                if window & run != 0 {
                    let part = &runs[done * stride..][..kept];
                    match done {
                        0 => spare.copy_from_slice(part),
                        _ => spare.iter_mut().zip(part).for_each(|(to, &value)| *to = join(*to, value)),
                    }
                    done += run;
                }
                if done == window {
                    break;
                }
                let step = run * stride;
                for at in 0..runs.len() - step {
                    runs[at] = join(runs[at], runs[at + step]);
                }
                run *= 2;
            }
            block[number * kept..(number + 1) * kept].copy_from_slice(spare);
        }
        block.truncate(slabs * kept);
        lengths[axis] = length + 1 - window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_plain_loops() {
        for (shape, window) in
            [([1, 1, 9], [1, 1, 7]), ([1, 6, 9], [1, 3, 5]), ([5, 6, 7], [2, 6, 3]), ([1, 8, 8], [1, 8, 8])]
        {
            let [d, h, w] = shape;
            let samples: Vec<f64> = (0..d * h * w).map(|i| (i * 37 % 101) as f64).collect();
            let out = [0, 1, 2].map(|axis| shape[axis] + 1 - window[axis]);
            let each = |join: &dyn Fn(f64, f64) -> f64| -> Vec<f64> {
                let places =
                    (0..out[0] * out[1] * out[2]).map(|i| [i / out[2] / out[1], i / out[2] % out[1], i % out[2]]);
                let of = |[z, y, x]: [usize; 3]| {
                    let inside = (0..window[0] * window[1] * window[2])
                        .map(|k| (z + k / window[2] / window[1], y + k / window[2] % window[1], x + k % window[2]));
                    inside.map(|(z, y, x)| samples[(z * h + y) * w + x]).reduce(join).unwrap()
                };
                places.map(of).collect()
            };
            let mut spare = Vec::new();
            let joins: [fn(f64, f64) -> f64; 3] = [|a, b| a + b, f64::min, f64::max];
            for join in joins {
                let mut block = samples.clone();
                windows(&mut block, shape, window, &mut spare, join);
                assert_eq!(block, each(&join), "{shape:?} {window:?}");
            }
        }
    }
}
