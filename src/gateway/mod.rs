//! The control plane: frames in, frames out (`spec/gateway.md`). Pure: it parses requests, says
//! what is to happen, and words the answers; sockets and pipes are elsewhere.

pub mod audit;
pub mod auth;
mod changes;
mod chores;
mod compaction;
mod ends;
mod events;
mod facts;
mod found;
mod frame;
mod hello;
mod http;
mod hub;
mod ledger;
mod lines;
mod log;
mod methods;
mod out;
mod pending;
mod presence;
mod rows;
mod runs;
mod schema;
#[cfg(test)]
mod tests;
pub mod wire;

pub use chores::{Chore, ChoreGot, ConfigChanged, ConfigSeen};
pub use facts::{ConfigFacts, Facts, ModelFacts, ToolFacts};
pub use frame::{Fault, FrameError, Request};
pub use http::{FileGot, FileWanted, Pages, ToolAsked};
pub use hub::{Gateway, Sight, TICK_MS, Ways};
pub use out::{Conn, Do, Frame};
pub use runs::PACE_MS;
