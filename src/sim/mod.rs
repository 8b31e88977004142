//! The simulator: a second reactor with a virtual clock, scripted friends and faults from a seed.
//! Compiled for tests, under a fuzzer, and with the feature `sim`.
//!
//! ```text
//! seed -> swarm (which kinds of moves, how often) -> moves -> world -> step -> commit -> tell, act
//!                                                              |
//!                                            every invariant after every step
//! ```
//! A run records its moves. They name operations relatively ("the second open one"), so that a
//! shorter list keeps its meaning, and shrinking gets to the point.

mod acts;
pub mod bodies;
mod checks;
#[cfg(any(test, feature = "sim"))]
pub mod command;
mod compact;
mod foreign;
mod friends;
pub mod hall;
pub mod moves;
mod recovery;
pub mod render;
pub mod replay;
pub mod sabotage;
mod shrink;
pub mod store;
pub mod swarm;
#[cfg(test)]
mod tests;
pub mod town;
pub mod world;

pub use moves::Move;
pub use sabotage::Sabotage;
pub use shrink::shrink;
pub use swarm::{Outcome, run_bytes, run_seed};
pub use world::World;

/// Where choices come from: a seed, a fuzzer's bytes, a list.
pub trait Choice {
    /// A number below `n`; `None` when the source is exhausted and the run ends.
    fn pick(&mut self, n: u64) -> Option<u64>;
}

impl Choice for crate::base::Rng {
    fn pick(&mut self, n: u64) -> Option<u64> {
        Some(self.below(n))
    }
}

/// A fuzzer's bytes as choices: two bytes each.
#[derive(Debug)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Choice for Bytes<'_> {
    fn pick(&mut self, n: u64) -> Option<u64> {
        let (two, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u64::from(u16::from_le_bytes(*two)) % n.max(1))
    }
}
