//! The cross term is the result: correlation and convolution of one channel without a mask.

use flcc_core::measure::Measure;
use flcc_core::spec::Spec;

use crate::cpu::memory::Memory;
use crate::cpu::real::Real;
use crate::cpu::score::{Buffers, Finishing, Own, Score, Store, Tiles, plain};
use crate::isa::Vectors;
use crate::problem::powers::joined;
use crate::problem::scheme::Scheme;
use crate::run::results::Scores;

/// Rows of cross terms in `f32`, stored as they are in the units of the image.
struct Cross;

/// This way, if it takes such tiles.
pub(super) fn of<T: Real>(spec: &Spec, scheme: &Scheme) -> Option<Box<dyn Score<T>>> {
    if scheme.measure == Measure::Cc && plain(spec, T::DTYPE) { Some(Box::new(Cross)) } else { None }
}

impl<T: Real> Score<T> for Cross {
    fn in_place(&self) -> bool {
        true
    }

    fn takes_samples(&self) -> bool {
        false
    }

    fn takes_sums(&self) -> bool {
        false
    }

    fn takes_bits(&self) -> bool {
        false
    }

    fn in_singles(&self) -> bool {
        false
    }

    fn adds_parts(&self) -> Option<&Vectors> {
        None
    }

    fn own(&self, _tiles: &Tiles<'_>, _memory: &mut Memory) -> Own {
        Own::default()
    }

    fn finish(&self, last: &Finishing<'_>, buffers: &mut Buffers<T>, store: &mut Store<'_>) -> Option<u64> {
        let Buffers { crosses, hit, scale, .. } = buffers;
        let (Finishing { template, tile, .. }, pitch) = (last, last.tiles.cross_pitch);
        let [(z0, z1), (y0, y1), (x0, x1)] = tile.keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * pitch.plane + y * pitch.row;
            let row = &mut T::singles_mut(&mut crosses[0])?[at + x0..at + x1];
            if *scale != 1.0 || template.scale != 1.0 {
                let [first, second] = joined([1.0 / *scale, 1.0 / template.scale]);
                row.iter_mut().for_each(|value| *value = (f64::from(*value) * first * second) as f32);
            }
            if template.nonfinite {
                row.fill(f32::NAN);
            }
            if last.marked {
                row.iter_mut()
                    .zip(&hit[at + x0..at + x1])
                    .filter(|(_, hit)| **hit)
                    .for_each(|(value, _)| *value = f32::NAN);
            }
            (store.write)(last.number, last.place(z, y), Scores::Single(row));
        }
        Some(0)
    }
}
