//! Several sessions at once: the machine of all sessions with a store that survives, runs that are
//! played, clients, deaths and restarts (`spec/sim.md`, W9 on).

mod actor;
mod checks;
pub mod moves;
mod play;
mod settle;
mod store;
pub mod swarm;
#[cfg(test)]
mod tests;
pub mod world;

pub use moves::{TownMove, TownSetup};
pub use swarm::{TownOutcome, play_moves, run_seed, shrink};
pub use world::{Town, TownKnobs, TownStats};
