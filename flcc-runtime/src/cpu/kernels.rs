//! Kernels of sums of products, one body for each instruction set, and the table that names them.

pub mod amx;
pub mod form;
pub mod kernel;
pub mod operands;
pub mod table;
