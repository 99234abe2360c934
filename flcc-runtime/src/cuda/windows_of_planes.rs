//! Window sums of planes that run down rows: how warps share them, and what they round. The kernel's text is
//! templates/cuda/pipeline/windows_of_planes.

use crate::cuda::windows::{Bands, Share, Windows};
use crate::problem::error_model::Steps;

/// Columns of samples that a warp has.
const COLUMNS: usize = 256;

/// Warps of a block.
const WARPS: usize = 4;

/// Rows of outputs of a strip, at least and at most: each begins with sums down a template's rows.
const ROWS: [usize; 2] = [8, 64];

/// Warps that fill all multiprocessors of a large device once.
const ENOUGH: usize = 1584;

/// Rows of samples of a band.
const BAND: usize = 32;

/// Rows of outputs of a region, at least.
const REGION: usize = 512;

/// Bytes of a column's sums.
const SUMS: usize = 2 * size_of::<f64>();

/// The kernel.
pub(crate) struct DownRows;

impl DownRows {
    /// Whether strips have outputs enough of templates of these sides.
    pub(crate) fn serves([_, _, width]: [usize; 3]) -> bool {
        width + WARPS * COLUMNS / 8 <= WARPS * COLUMNS
    }

    /// Warps that share a strip: one where it has outputs enough, else those of a block.
    fn team(width: usize) -> usize {
        if width + COLUMNS / 8 <= COLUMNS { 1 } else { WARPS }
    }

    /// Columns of samples of a strip.
    fn strip(width: usize) -> usize {
        DownRows::team(width) * COLUMNS
    }

    /// Rows of samples that all warps take in or out for outputs of a plane: a template's at first, then two an output.
    pub(crate) fn rows(template: [usize; 3], outputs: [usize; 3]) -> f64 {
        let Share { part, across, .. } = DownRows::share(template, outputs);
        let strips = across * outputs[1].div_ceil(part) * DownRows::team(template[2]);
        (strips * DownRows::steps_of_a_warp(template, outputs)) as f64
    }

    /// Those of one warp, which takes them one after the other. A band has four times the bytes of a row.
    pub(crate) fn steps_of_a_warp(template: [usize; 3], outputs: [usize; 3]) -> usize {
        let Share { part, bands, .. } = DownRows::share(template, outputs);
        let first = if bands.count > 0 { BAND + 4 * template[1] / BAND } else { template[1] };
        first + 2 * part
    }

    /// Kernels that are launched.
    pub(crate) fn launches([_, _, width]: [usize; 3]) -> f64 {
        if DownRows::team(width) > 1 { 2.0 } else { 1.0 }
    }
}

impl Windows for DownRows {
    fn options([_, _, width]: [usize; 3]) -> Vec<String> {
        match DownRows::team(width) {
            1 => Vec::new(),
            team => vec![format!("-DFLCC_TEAM={team}")],
        }
    }

    /// A sample goes in and out at each row. A window is the difference of two sums up to a column: each joins eight
    /// columns, is doubled five times, joins those of the warps before and leaves out some of the eight.
    fn steps([_, height, width]: [usize; 3]) -> Steps {
        let stretch = (DownRows::strip(width) as f64 / width as f64).sqrt();
        let along = if DownRows::team(width) > 1 { 38.0 } else { 30.0 };
        Steps { down: (2 * ROWS[1] + height) as f64, along, stretch }
    }

    fn share([_, rows, width]: [usize; 3], [_, height, columns]: [usize; 3]) -> Share {
        let (team, strip) = (DownRows::team(width), DownRows::strip(width));
        // Strips begin at multiples of four columns of the image, up to three before the first output's.
        let across = (columns + 3).div_ceil((strip + 1 - width) / 4 * 4);
        let part = height.div_ceil((ENOUGH / team / across).max(1));
        // Whole numbers of them make a band, or nearly.
        let part = if team > 1 { part.next_multiple_of(4) } else { part }.clamp(ROWS[0], ROWS[1]);
        let blocks = [(across * height.div_ceil(part) * team).div_ceil(WARPS), 1];
        let bands = if team > 1 {
            let region = REGION.next_multiple_of(part).min(height.next_multiple_of(part));
            let (regions, count) = (height.div_ceil(region), (region + rows - 1) / BAND);
            Bands { region, regions, rows: BAND, count, bytes: regions * count * across * strip * SUMS }
        } else {
            Bands { region: part, regions: height.div_ceil(part), ..Bands::default() }
        };
        Share { part, across, blocks, threads: 32 * WARPS, narrow: false, bands }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_cover_the_outputs() {
        for (width, outputs, expected) in [
            // 10 strips of 224 outputs, 158 bands.
            (32, [1, 2031, 2031], (10, 13)),
            (76, [1, 4171, 4171], (24, 64)),
            (8, [1, 107, 107], (1, 8)),
            (120, [1, 5000, 90], (1, 8)),
            // Strips of 612 outputs, which blocks have.
            (413, [1, 1436, 1436], (3, 12)),
            (225, [1, 100, 100], (1, 8)),
        ] {
            let Share { part, across, blocks, threads, .. } = DownRows::share([1, 9, width], outputs);
            assert_eq!((across, part), expected, "{outputs:?}");
            let warps = blocks[0] * threads / 32 / DownRows::team(width);
            assert!(warps >= across * outputs[1].div_ceil(part) && warps * part * 1000 >= outputs[1] * outputs[2] / 2);
        }
    }

    #[test]
    fn bands_are_those_of_whole_regions() {
        let share = |outputs| DownRows::share([1, 413, 413], outputs).bands;
        let bytes = 3 * 29 * 3 * 1024 * 16;
        assert_eq!(share([1, 1436, 1436]), Bands { region: 516, regions: 3, rows: 32, count: 29, bytes });
        // Of one region where there are few rows.
        let few = share([1, 100, 500]);
        assert_eq!((few.region, few.regions, few.count), (104, 1, 16));
        assert_eq!(DownRows::share([1, 9, 224], [1, 1436, 1436]).bands.count, 0);
        let options = |width| DownRows::options([1, 9, width]);
        assert_eq!((options(224), options(225)), (vec![], vec!["-DFLCC_TEAM=4".to_string()]));
        assert_eq!([896, 897].map(|width| DownRows::serves([1, 9, width])), [true, false]);
    }
}
