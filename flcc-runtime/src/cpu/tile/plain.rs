//! The last step of a correlation of one channel: its cross term is the result.

use crate::cpu::real::Real;
use crate::cpu::tile::context::TileContext;
use crate::cpu::tile::finishing::{Finishing, Store};
use crate::cpu::tile::scratch::TileScratch;
use crate::problem::powers::joined;
use crate::run::results::Scores;

impl<T: Real> TileContext<T> {
    /// Notes which outputs that are asked for overflowed, in `scratch.over`; returns whether some did.
    pub(super) fn overflows(&self, last: &Finishing<'_, T>, scratch: &mut TileScratch<T>) -> bool {
        let TileScratch { crosses, over, .. } = scratch;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        let mut some = false;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * self.pitches.cross.plane + y * self.pitches.cross.row;
            for (over, value) in over[at + x0..at + x1].iter_mut().zip(&crosses[0][at + x0..at + x1]) {
                *over = !value.to_f64().is_finite();
                some |= *over;
            }
        }
        some
    }

    /// Stores the rows of the cross term that are asked for as they are, in the units of the image; of these only
    /// outputs that are in `scratch.over`, if that is said.
    pub(super) fn finish_plain(
        &self,
        last: &Finishing<'_, T>,
        only_over: bool,
        scratch: &mut TileScratch<T>,
        store: &mut Store<'_>,
    ) -> Option<u64> {
        let TileScratch { crosses, hit, over, scale, .. } = scratch;
        let checked = &last.template().checked;
        let [(z0, z1), (y0, y1), (x0, x1)] = last.tile.keep;
        for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
            let at = z * self.pitches.cross.plane + y * self.pitches.cross.row;
            let row = &mut T::singles_mut(&mut crosses[0])?[at + x0..at + x1];
            if *scale != 1.0 || checked.scale != 1.0 {
                let [first, second] = joined([1.0 / *scale, 1.0 / checked.scale]);
                row.iter_mut().for_each(|value| *value = (f64::from(*value) * first * second) as f32);
            }
            if checked.nonfinite {
                row.fill(f32::NAN);
            }
            if last.marked {
                row.iter_mut()
                    .zip(&hit[at + x0..at + x1])
                    .filter(|(_, hit)| **hit)
                    .for_each(|(value, _)| *value = f32::NAN);
            }
            let [place_z, place_y, place_x] = last.place(z, y);
            if !only_over {
                (store.write)(last.number, [place_z, place_y, place_x], Scores::Single(row));
                continue;
            }
            let over = &over[at + x0..at + x1];
            for x in (0..row.len()).filter(|x| over[*x]) {
                (store.write)(last.number, [place_z, place_y, place_x + x], Scores::Single(&row[x..=x]));
            }
        }
        Some(0)
    }
}
