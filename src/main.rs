//! The entry: arguments and wiring, nothing else.

fn main() {}
