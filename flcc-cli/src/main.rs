//! The flcc command.
fn main() {}
