//! The simulator: a second reactor with a virtual clock, scripted friends and faults from a seed.
//! Compiled for tests, under a fuzzer, and with the feature `sim`.

pub mod bodies;
pub mod render;
