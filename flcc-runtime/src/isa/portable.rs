//! Vectors of plain Rust, for any target.

/// The operations of an array of 32 bytes, which the compiler puts into the vectors of the target.
macro_rules! portable {
    ($(#[$doc:meta])* $module:ident, $float:ty, $lanes:literal) => {
        $(#[$doc])*
        pub(crate) mod $module {
            /// The vector.
            pub type Vector = [$float; LANES];
            /// Values of a vector.
            pub const LANES: usize = $lanes;
            /// Whether the target multiplies and adds in one instruction; elsewhere `mul_add` would be a library call.
            const FUSED: bool =
                cfg!(any(target_feature = "fma", all(target_arch = "aarch64", target_feature = "neon")));

            /// `0` in every lane.
            #[inline(always)]
            pub fn zero() -> Vector {
                [0.0; LANES]
            }

            /// `value` in every lane.
            #[inline(always)]
            pub fn splat(value: $float) -> Vector {
                [value; LANES]
            }

            /// `values[at..at + LANES]`.
            #[inline(always)]
            pub fn load<const N: usize>(values: &[$float; N], at: usize) -> Vector {
                *crate::isa::slices::head(&values[at..])
            }

            /// `values[at..at + LANES] = vector`.
            #[inline(always)]
            pub fn store<const N: usize>(values: &mut [$float; N], at: usize, vector: Vector) {
                *crate::isa::slices::head_mut(&mut values[at..]) = vector;
            }

            /// `a * b + c`, rounded once where the target does that in one instruction, else twice.
            #[inline(always)]
            pub fn mul_add(a: Vector, b: Vector, c: Vector) -> Vector {
                std::array::from_fn(|l| if FUSED { a[l].mul_add(b[l], c[l]) } else { a[l] * b[l] + c[l] })
            }

            /// `a + b`.
            #[inline(always)]
            pub fn add(a: Vector, b: Vector) -> Vector {
                std::array::from_fn(|l| a[l] + b[l])
            }

            /// `|a - b|`.
            #[inline(always)]
            pub fn abs_diff(a: Vector, b: Vector) -> Vector {
                std::array::from_fn(|l| (a[l] - b[l]).abs())
            }

            /// In each lane the larger of `largest`, which is not negative, and the magnitude of `value`; NaN is larger
            /// than all.
            #[inline(always)]
            pub fn larger(value: Vector, largest: Vector) -> Vector {
                std::array::from_fn(|l| <$float>::from_bits(value[l].abs().to_bits().max(largest[l].to_bits())))
            }
        }
    };
}

portable! {
    /// Any target, 8 `f32`.
    portable_f32, f32, 8
}
portable! {
    /// Any target, 4 `f64`.
    portable_f64, f64, 4
}
