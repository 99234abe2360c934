//! How well plans are chosen on a machine, and what makes them better: made-up specs, what each way to compute them
//! takes, how the choices of [`Effort::Estimate`](crate::Effort) and [`Effort::Measure`](crate::Effort) compare with
//! the best, and costs fitted to that.

pub mod draw;
pub mod fit;
pub mod grid;
