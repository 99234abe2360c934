//! Vectors as a trait: one body of a loop for every instruction set that has an implementation beside this file.
//!
//! A value of a type that implements [`Simd`] is the proof that this processor has its instruction set, so the methods
//! are safe. Work is handed over as a [`Job`]: [`Simd::run`] calls it in a function that is compiled for the set, and
//! everything in it is `#[inline(always)]`, down to single instructions.

/// Work that is compiled for an instruction set.
pub trait Job {
    /// What it gives.
    type Output;
    /// Does it; `#[inline(always)]`, or it is compiled for the build's own target.
    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// The vectors of one instruction set: `LANES` of `f32`, half as many of `f64`.
pub trait Simd: Copy {
    /// Values of a vector of `f32`.
    const LANES: usize;
    /// Values of a vector of `f64`.
    const HALF: usize;
    /// Vectors that stay in registers at a time.
    const REGISTERS: usize;
    /// A row in memory: as many `f32` as a vector has values.
    type Row: Copy;
    /// Half a row in memory: as many `f32` as a vector of `f64` has values.
    type HalfRow: Copy;
    /// A row of `f64` in memory: as many as a vector has values.
    type DoubleRow: Copy;
    /// A vector of `f32`.
    type Single: Copy;
    /// A vector of `f64`.
    type Double: Copy;

    /// Runs a job compiled for this instruction set.
    fn run<J: Job>(self, job: J) -> J::Output;

    /// Whole rows of values; what is left over is left out.
    fn rows(values: &[f32]) -> &[Self::Row];
    /// Whole rows of values, to be written.
    fn rows_mut(values: &mut [f32]) -> &mut [Self::Row];
    /// Whole half rows of values.
    fn half_rows(values: &[f32]) -> &[Self::HalfRow];
    /// Whole rows of `f64`.
    fn double_rows(values: &[f64]) -> &[Self::DoubleRow];
    /// Whole rows of `f64`, to be written.
    fn double_rows_mut(values: &mut [f64]) -> &mut [Self::DoubleRow];

    /// `value` in every lane.
    fn splat(self, value: f32) -> Self::Single;
    /// A row.
    fn load(self, row: &Self::Row) -> Self::Single;
    /// To a row.
    fn store(self, row: &mut Self::Row, value: Self::Single);
    /// The values from `at`.
    fn load_at(self, values: &[f32], at: usize) -> Self::Single;
    /// To the values from `at`.
    fn store_at(self, values: &mut [f32], at: usize, value: Self::Single);
    /// `R` vectors, from `at` and each `step` values after the one before.
    fn load_apart<const R: usize>(self, values: &[f32], at: usize, step: usize) -> [Self::Single; R];
    /// The first `count` of some vectors to such places.
    fn store_apart<const R: usize>(
        self,
        values: &mut [f32],
        at: usize,
        step: usize,
        vectors: [Self::Single; R],
        count: usize,
    );
    /// `a + b`
    fn add(self, a: Self::Single, b: Self::Single) -> Self::Single;
    /// `a - b`
    fn sub(self, a: Self::Single, b: Self::Single) -> Self::Single;
    /// `a * b`
    fn mul(self, a: Self::Single, b: Self::Single) -> Self::Single;
    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::Single, b: Self::Single, c: Self::Single) -> Self::Single;
    /// `c - a * b`, rounded once.
    fn sub_mul(self, a: Self::Single, b: Self::Single, c: Self::Single) -> Self::Single;
    /// `sqrt(a)`, rounded once.
    fn root(self, a: Self::Single) -> Self::Single;
    /// `1 / sqrt(a)` of normal numbers, to two units in the last place or so; NaN of NaN.
    fn reciprocal_root(self, a: Self::Single) -> Self::Single;
    /// `a` brought between -1 and 1; NaN stays NaN.
    fn clamp(self, a: Self::Single) -> Self::Single;
    /// The larger of `largest` and `|a|`, lane by lane; NaN is larger than infinity, and infinity than all numbers.
    fn larger_magnitude(self, a: Self::Single, largest: Self::Single) -> Self::Single;
    /// The bits of the largest lane of what [`Simd::larger_magnitude`] gave.
    fn largest(self, a: Self::Single) -> u32;
    /// The sum of the lanes.
    fn total(self, a: Self::Single) -> f32;
    /// Whether one of the first `count` lanes is NaN.
    fn any_nan(self, a: Self::Single, count: usize) -> bool;
    /// `LANES` rows, columns for rows.
    fn transpose(self, from: &[Self::Row], to: &mut [Self::Row]);

    /// `value` in every lane.
    fn splat_double(self, value: f64) -> Self::Double;
    /// A row.
    fn load_double(self, row: &Self::DoubleRow) -> Self::Double;
    /// To a row.
    fn store_double(self, row: &mut Self::DoubleRow, value: Self::Double);
    /// Half a row, as `f64`.
    fn widen(self, row: &Self::HalfRow) -> Self::Double;
    /// The lower and the upper half of a vector, as `f64`.
    fn split(self, a: Self::Single) -> [Self::Double; 2];
    /// The lower and the upper half of a vector that holds the bits of integers, as `f64`.
    fn split_integers(self, a: Self::Single) -> [Self::Double; 2];
    /// Two vectors rounded to `f32`: `low` in the first lanes.
    fn narrow(self, low: Self::Double, high: Self::Double) -> Self::Single;
    /// `a + b`
    fn add_double(self, a: Self::Double, b: Self::Double) -> Self::Double;
    /// `a - b`
    fn sub_double(self, a: Self::Double, b: Self::Double) -> Self::Double;
    /// `a * b`
    fn mul_double(self, a: Self::Double, b: Self::Double) -> Self::Double;
    /// `a * b + c`, rounded once.
    fn mul_add_double(self, a: Self::Double, b: Self::Double, c: Self::Double) -> Self::Double;
    /// `c - a * b`, rounded once.
    fn sub_mul_double(self, a: Self::Double, b: Self::Double, c: Self::Double) -> Self::Double;
    /// Two vectors rounded to `f32`, `low` in the first lanes, each given with its limits: NaN where a value does not
    /// exceed its limit.
    fn narrow_above(self, low: [Self::Double; 2], high: [Self::Double; 2]) -> Self::Single;
    /// Totals of two rows after a vector of each, lane by lane, and what to go on from: `before` holds what was added
    /// up so far, of the first row in even lanes and of the second in odd ones.
    fn totals(self, a: Self::Double, b: Self::Double, before: Self::Double) -> ([Self::Double; 2], Self::Double);
}
