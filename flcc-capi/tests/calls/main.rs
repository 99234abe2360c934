//! What C calls, called from here: results against the oracle, wrong calls against their codes.

mod c;
mod classic;
mod fuzz;
mod plans;
mod programs;
