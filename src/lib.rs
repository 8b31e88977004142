//! stepclaw: an agent gateway as one synchronous, deterministic state machine.
//!
//! The layers, from the inside out (`spec/layers.tsv` says who may import whom, a test holds it):
//!
//! ```text
//! base        time, ids, limits, seeded choice, JSON                     pure
//! transcript  messages, entries, the one door, repair, projection        pure
//! engine      THE MACHINE: step(state, input, now) -> Step               pure
//! context     system prompt, the workspace's files in it, pruning        pure
//! config      the config file: shapes, errors [pure]; loading            edge
//! model       wire: codecs [pure]; http: ureq; scripted: offline model   blocking
//! tools       descriptions, argument checks [pure]; run: the tools       blocking
//! store       SQLite: schema, fence, transcript, runs                    blocking
//! records     rows of what is stored, questions to the store            pure
//! gateway     connections, methods, events; who may connect; audit    pure
//! reactor     mio loop, workers, signals, journal; commit, tell, act     edge
//! cli         the command line                                           face
//! sim         the simulator: world, faults, checks, shrinking            tests, fuzzing, `sim`
//! check       tests about the whole                                      tests
//! ```

pub mod base;
pub mod cli;
pub mod config;
pub mod context;
pub mod engine;
pub mod gateway;
pub mod model;
pub mod reactor;
pub mod records;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod sim;
pub mod store;
pub mod tools;
pub mod transcript;

#[cfg(test)]
mod check;
