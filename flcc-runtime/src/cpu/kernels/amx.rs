//! The direct method for bytes by Intel AMX: products of tiles, 256 outputs at a time.
//!
//! The unit multiplies a tile of 16 rows of 64 signed bytes with one of 64 rows of 16 unsigned bytes and adds the 16 x
//! 16 results to integers of 32 bits, modulo `2^32`. The rows of the first are windows of the image, the columns of the
//! second the taps for neighbouring outputs of a window, each column the same taps a little further down.
//!
//! A window is a line of 64 bytes of one, two or four image rows, whatever wastes least ([`plot::Plot`]), and gives 16
//! outputs: of as many output rows 16, 8 or 4 neighbours. So a row of it meets up to 49, 25 or 13 taps; longer template
//! rows take several windows. Before anything is multiplied the windows of a tile's next 16, 8 or 4 times 16 columns
//! are laid out, those of a product side by side: where windows straddle lines of the cache, a unit takes three times
//! as long to load them. Templates of one row find theirs where the image's rows lie.
//!
//! Everything but the products themselves is plain code, which the tests also run on an emulated unit.

#[cfg(target_arch = "x86_64")]
use crate::cpu::kernels::operands::ByteTile;

pub mod plot;
#[cfg(target_arch = "x86_64")]
mod walk;

/// The kernel `corr_u8_any_amx`: `out[z, y, x] = bias + sum in[z+dz, y+i, x+j] * t[dz, i, j]` of bytes, for templates
/// of any shape.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
#[target_feature(enable = "avx512f")]
pub(crate) fn correlate_tiles(tile: &mut ByteTile<'_>) {
    // SAFETY: `walk` has the only one, and calls nothing but plain loops of its own and of `isa.rs`, which know no tile
    // registers.
    let mut unit = unsafe { processor::Tiles::new() };
    walk::walk(&mut unit, tile);
}

/// The unit of this processor.
#[cfg(target_arch = "x86_64")]
mod processor {
    use std::arch::asm;

    use super::plot::{LINE, SIDE, SPAN};
    use super::walk::{BLOCK, Sums, Unit, Windows};
    use crate::cpu::kernels::operands::GROUP;
    use crate::isa::tiles;

    /// The tile registers of this thread, which are given back when it is dropped.
    pub struct Tiles {
        /// Windows of a tile; none before the registers were set.
        windows: usize,
        /// A unit belongs to the thread that made it.
        _here: std::marker::PhantomData<*const ()>,
    }

    impl Tiles {
        /// # Safety
        ///
        /// The registers belong to the thread, and this value only remembers how they were set. From one `set` to the
        /// last `multiply` after it nothing else on the thread may set or release them: no other `Tiles`, and no
        /// function from elsewhere that could.
        ///
        /// # Panics
        ///
        /// If the processor has none or the system keeps none.
        pub unsafe fn new() -> Tiles {
            assert!(tiles::granted(), "tiles of bytes are used where they were granted");
            Tiles { windows: 0, _here: std::marker::PhantomData }
        }
    }

    impl Drop for Tiles {
        fn drop(&mut self) {
            // SAFETY: `new` made sure of the instruction. By the calling convention tile registers and their
            // configuration are volatile: no caller on this thread expects them to outlast a call, and other threads
            // have their own.
            unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
        }
    }

    /// What `ldtilecfg` reads: palette 1, then columns in bytes and rows of eight tiles.
    #[repr(C, align(64))]
    struct Shapes {
        palette: u8,
        start_row: u8,
        zeros: [u8; 14],
        columns: [u16; 16],
        rows: [u8; 16],
    }

    /// Products for the first tiles of sums: registers 0 to 5 are sums, 6 windows, 7 taps.
    macro_rules! products {
        ($windows:ident, $steps:ident, $taps:ident, $sums:ident, $($number:literal)*) => {
            asm!(
                $(concat!("tilezero tmm", $number),)*
                "2:",
                "mov {step}, {steps}",
                "3:",
                "tileloadd tmm7, [{taps} + {line}]",
                "mov {at}, {samples}",
                $(
                    "tileloadd tmm6, [{at} + {pitch}]",
                    concat!("tdpbsud tmm", $number, ", tmm6, tmm7"),
                    "add {at}, {next}",
                )*
                "add {taps}, 1024",
                "add {samples}, {forth}",
                "dec {step}",
                "jnz 3b",
                "add {samples}, {to_plane}",
                "dec {planes}",
                "jnz 2b",
                $(concat!("tilestored [{sums} + {line}], tmm", $number), "add {sums}, 1024",)*
                step = out(reg) _,
                at = out(reg) _,
                steps = in(reg) $steps,
                line = in(reg) LINE,
                forth = in(reg) $windows.step,
                pitch = in(reg) $windows.pitch,
                next = in(reg) $windows.next,
                to_plane = in(reg) $windows.plane.wrapping_sub($windows.step.wrapping_mul($steps)),
                planes = inout(reg) $windows.planes => _,
                samples = inout(reg) $windows.samples.as_ptr() => _,
                taps = inout(reg) $taps.as_ptr() => _,
                sums = inout(reg) $sums.as_mut_ptr() => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            )
        };
    }

    impl Unit for Tiles {
        #[inline]
        fn set(&mut self, windows: usize) {
            assert!((1..=SIDE).contains(&windows), "a tile has 1 to 16 windows, got {windows}");
            let mut shapes = Shapes { palette: 1, start_row: 0, zeros: [0; 14], columns: [0; 16], rows: [0; 16] };
            shapes.columns[..8].fill(LINE as u16);
            shapes.rows[..7].fill(windows as u8);
            shapes.rows[7] = SIDE as u8;
            // SAFETY: `new` made sure of the instruction; it reads the 64 bytes of `shapes`, which palette 1 allows: up
            // to 16 rows of up to 64 bytes. What it overwrites is volatile across calls, as in `drop`.
            unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(readonly, nostack, preserves_flags)) };
            self.windows = windows;
        }

        #[inline]
        fn multiply(&mut self, windows: Windows<'_>, taps: &[[u8; GROUP]], sums: &mut [Sums]) {
            let steps = taps.len() / SPAN / windows.planes.max(1);
            assert!(self.windows > 0 && steps > 0 && windows.planes > 0, "a unit that is set, and taps");
            let need = windows.reach(sums.len(), self.windows, steps);
            assert!(windows.samples.len() >= need, "windows reach {need} samples far, got {}", windows.samples.len());
            // SAFETY: `new` made sure of the instructions, `set` of the registers' shapes, which by the contract of
            // `new` nobody has changed since. Windows are read up to `need`, which the samples hold; taps are read
            // `steps * planes` times 1024 bytes, no more than there are; written is each of `sums`, up to its windows
            // times 64 bytes of its 1024. The registers named are all that changes.
            unsafe {
                match sums.len() {
                    0 => {}
                    1 => products!(windows, steps, taps, sums, 0),
                    2 => products!(windows, steps, taps, sums, 0 1),
                    3 => products!(windows, steps, taps, sums, 0 1 2),
                    4 => products!(windows, steps, taps, sums, 0 1 2 3),
                    5 => products!(windows, steps, taps, sums, 0 1 2 3 4),
                    BLOCK => products!(windows, steps, taps, sums, 0 1 2 3 4 5),
                    more => panic!("up to {BLOCK} tiles of sums, got {more}"),
                }
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::plot::*;
    use super::walk::{BLOCK, Sums, Unit, Windows, walk};
    use super::*;
    use crate::cpu::engines::bytes::tests::{Subject, conforms};
    use crate::cpu::kernels::operands::GROUP;
    use crate::cpu::kernels::table;
    use crate::isa::{Isa, detected, tiles};

    /// The unit as the manual tells it, in plain loops.
    struct Emulated {
        windows: usize,
    }

    impl Unit for Emulated {
        fn set(&mut self, windows: usize) {
            assert!((1..=SIDE).contains(&windows));
            self.windows = windows;
        }

        fn multiply(&mut self, windows: Windows<'_>, taps: &[[u8; GROUP]], sums: &mut [Sums]) {
            assert!(sums.len() <= BLOCK);
            let steps = taps.len() / SPAN / windows.planes;
            assert!(windows.samples.len() >= windows.reach(sums.len(), self.windows, steps));
            for (tile, sums) in sums.iter_mut().enumerate() {
                for (at, sum) in sums.0.iter_mut().take(SIDE * self.windows).enumerate() {
                    let (window, output) = (at / SIDE, at % SIDE);
                    *sum = 0;
                    for (product, taps) in taps.chunks(SPAN).enumerate() {
                        let from = tile * windows.next
                            + product / steps * windows.plane
                            + window * windows.pitch
                            + product % steps * windows.step;
                        for (k, &sample) in windows.samples[from..from + LINE].iter().enumerate() {
                            let tap = taps[k / GROUP * SIDE + output][k % GROUP];
                            *sum = sum.wrapping_add(i32::from(sample) * i32::from(tap));
                        }
                    }
                }
            }
        }
    }

    /// Everything around the products, without such a unit.
    #[test]
    #[cfg_attr(miri, ignore = "hours")]
    fn an_emulated_unit_conforms() {
        if !detected(Isa::Avx512) {
            return eprintln!("absent: avx512; products of tiles were not emulated");
        }
        let kernel = table::find("corr_u8_any_amx").expect("a kernel of that name");
        let run = |tile: &mut ByteTile<'_>| {
            tile.check(kernel).expect("a tile that fits");
            if !tile.out_shape.contains(&0) {
                // SAFETY: `detected` just asked the processor for the only feature that it is compiled with.
                unsafe { walk(&mut Emulated { windows: 0 }, tile) };
            }
        };
        conforms(&Subject { kernel, run: &run });
    }

    #[test]
    fn windows_are_of_the_rows_that_waste_least() {
        let products = |height, width| {
            let plot = Plot::new([1, height, width]);
            (plot.rows, plot.products())
        };
        assert_eq!(products(1, 9), (1, 1));
        assert_eq!(products(1, 500), (1, 9));
        assert_eq!(products(16, 16), (2, 9));
        assert_eq!(products(24, 24), (2, 13));
        assert_eq!(products(32, 32), (1, 32));
        assert_eq!(products(48, 48), (1, 48));
        assert_eq!(products(52, 52), (2, 54));
        assert_eq!(products(64, 64), (2, 99));
        assert_eq!(Plot::new([5, 5, 5]).products(), 5 * 3);
    }

    /// What a block may not reach is not read.
    #[test]
    fn too_few_samples_are_told() {
        if !tiles::granted() {
            return eprintln!("absent: amx; its products were emulated");
        }
        let (samples, taps, mut sums) = (vec![1i8; 16 * 64], vec![[1u8; GROUP]; SPAN], [Sums([7; SPAN]); 2]);
        // SAFETY: the only one of this thread, and nothing else here knows tile registers.
        let mut unit = unsafe { processor::Tiles::new() };
        unit.set(15);
        unit.multiply(
            Windows { samples: &samples, next: 64, plane: 0, step: 1024, pitch: 64, planes: 1 },
            &taps,
            &mut sums,
        );
        for sums in sums {
            assert!(sums.0[..240].iter().all(|&sum| sum == 64) && sums.0[240..].iter().all(|&sum| sum == 7));
        }
        let far = Windows { samples: &samples, next: 65, plane: 0, step: 1024, pitch: 64, planes: 1 };
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| unit.multiply(far, &taps, &mut sums)));
        assert!(told.is_err());
    }
}
