//! How well plans are chosen on a machine, and what makes them better: made-up specs, what each way to compute them
//! takes, how the choices of [`Effort::Estimate`](crate::Effort) and [`Effort::Measure`](crate::Effort) compare with
//! the best, costs fitted to that, and what
//! kernels for one template size bring.

pub mod draw;
pub mod fit;
pub mod grid;
pub mod unroll;
