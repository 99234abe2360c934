//! What the modules of vectors are emitted by, for every instruction set alike.

/// The operations of one vector type of floats, by the intrinsics of an architecture; `settled` where there are bodies
/// of written-out taps, with the class of its registers.
macro_rules! floats {
    ($(#[$doc:meta])* $module:ident: $float:ty, $lanes:literal of $vector:ident, $arch:ident $features:literal,
     $(settled in $register:ident,)? zero = $zero:expr, splat = $splat:ident, load = $load:ident, store = $store:ident,
     mul_add = |$x:ident, $y:ident, $z:ident| $mul_add:expr, add = $add:ident, sub = $sub:ident,
     abs = |$value:ident| $abs:expr, larger = |$a:ident, $b:ident| $larger:expr) => {
        $(#[$doc])*
        pub(crate) mod $module {
            use std::arch::$arch::*;

            /// The vector.
            pub type Vector = $vector;
            /// Values of a vector.
            pub const LANES: usize = $lanes;

            /// `0` in every lane.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn zero() -> Vector {
                $zero
            }

            /// `value` in every lane.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn splat(value: $float) -> Vector {
                $splat(value)
            }

            /// `values[at..at + LANES]`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn load<const N: usize>(values: &[$float; N], at: usize) -> Vector {
                assert!(at <= N && N - at >= LANES);
                // SAFETY: the assertion above: the LANES values from `at` lie in the array. The load may be unaligned.
                unsafe { $load(values.as_ptr().add(at)) }
            }

            /// `values[at..at + LANES] = vector`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn store<const N: usize>(values: &mut [$float; N], at: usize, vector: Vector) {
                assert!(at <= N && N - at >= LANES);
                // SAFETY: the assertion above: the LANES values from `at` lie in the array. The store may be unaligned.
                unsafe { $store(values.as_mut_ptr().add(at), vector) }
            }

            /// `a * b + c`, rounded once.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn mul_add($x: Vector, $y: Vector, $z: Vector) -> Vector {
                $mul_add
            }

            /// `a + b`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn add(a: Vector, b: Vector) -> Vector {
                $add(a, b)
            }

            $(
                /// The vector, computed by now: the compiler does not put off past a branch what it takes.
                #[inline]
                #[target_feature(enable = $features)]
                pub fn settled(mut vector: Vector) -> Vector {
                    use std::arch::asm;
                    // SAFETY: there is no instruction in it; the vector stays what it is, in some register.
                    unsafe { asm!("/* {} */", inout($register) vector, options(nomem, nostack, preserves_flags)) };
                    vector
                }
            )?

            /// `|a - b|`.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                let $value = $sub(a, b);
                $abs
            }

            /// In each lane the larger of `largest`, which is not negative, and the magnitude of `value`; NaN is larger
            /// than all.
            #[inline]
            #[target_feature(enable = $features)]
            pub fn larger($value: Vector, $b: Vector) -> Vector {
                let $a = $abs;
                $larger
            }
        }
    };
}

/// What every implementation of [`Simd`](crate::isa::simd::Simd) is proved by.
macro_rules! proof {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name(());

        impl $name {
            /// The proof, if the instruction set may be used and this processor has it.
            pub fn new(isas: &IsaSet) -> Option<$name> {
                (isas.has(Isa::$name) && detected(Isa::$name)).then_some($name(()))
            }
        }
    };
}

/// What every implementation of [`Simd`](crate::isa::simd::Simd) shares: its types, jobs compiled for it, rows of a
/// fixed length, and vectors some way apart, by the intrinsics for one.
macro_rules! shared {
    ($name:ident $features:literal, $registers:literal registers, $lanes:literal of $single:ty,
     $half:literal of $double:ty, load = $load:path, store = $store:path) => {
        const LANES: usize = $lanes;
        const HALF: usize = $half;
        const REGISTERS: usize = $registers;
        type Row = [f32; $lanes];
        type HalfRow = [f32; $half];
        type DoubleRow = [f64; $half];
        type Single = $single;
        type Double = $double;

        #[inline(always)]
        fn run<J: Job>(self, job: J) -> J::Output {
            #[inline(never)]
            #[target_feature(enable = $features)]
            fn compiled<J: Job>(job: J, simd: $name) -> J::Output {
                job.run(simd)
            }
            // SAFETY: `self` is made only where the processor was asked for the features (`new`).
            unsafe { compiled(job, self) }
        }

        #[inline(always)]
        fn rows(values: &[f32]) -> &[[f32; $lanes]] {
            values.as_chunks().0
        }

        #[inline(always)]
        fn rows_mut(values: &mut [f32]) -> &mut [[f32; $lanes]] {
            values.as_chunks_mut().0
        }

        #[inline(always)]
        fn half_rows(values: &[f32]) -> &[[f32; $half]] {
            values.as_chunks().0
        }

        #[inline(always)]
        fn double_rows(values: &[f64]) -> &[[f64; $half]] {
            values.as_chunks().0
        }

        #[inline(always)]
        fn double_rows_mut(values: &mut [f64]) -> &mut [[f64; $half]] {
            values.as_chunks_mut().0
        }

        #[inline(always)]
        fn load_apart<const R: usize>(self, values: &[f32], at: usize, step: usize) -> [$single; R] {
            assert!(
                within(values.len(), at, step, R, $lanes),
                "{R} rows from {at}, {step} apart, of {} values",
                values.len()
            );
            let mut rows = [self.splat(0.0); R];
            for (q, row) in rows.iter_mut().enumerate() {
                // SAFETY: all of them end within the slice, as was just checked; for the instructions, as above.
                *row = unsafe { $load(values.as_ptr().add(at + q * step)) };
            }
            rows
        }

        #[inline(always)]
        fn store_apart<const R: usize>(
            self,
            values: &mut [f32],
            at: usize,
            step: usize,
            vectors: [$single; R],
            count: usize,
        ) {
            let count = count.min(R);
            assert!(
                within(values.len(), at, step, count, $lanes),
                "{count} rows from {at}, {step} apart, of {} values",
                values.len()
            );
            for (q, vector) in vectors.iter().enumerate() {
                if q < count {
                    // SAFETY: as above.
                    unsafe { $store(values.as_mut_ptr().add(at + q * step), *vector) };
                }
            }
        }
    };
}

/// Methods of [`Simd`](crate::isa::simd::Simd) by intrinsics, one line each.
macro_rules! operations {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) $(-> $result:ty)? = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($argument: $kind),*) $(-> $result)? {
                // SAFETY: `self` is made only where the processor was asked for the instruction set (`new`). What is
                // read or written is an array as long as the vector, or a slice that the expression cut to that length.
                unsafe { $body }
            }
        )*
    };
}
