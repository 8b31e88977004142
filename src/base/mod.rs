//! Small things that everything else stands on: time, ids, named limits, seeded choice, JSON
//! helpers. No I/O, no clock, no global state.

pub mod b64;
pub mod digest;
pub mod fault;
pub mod id;
pub mod json;
pub mod key;
pub mod level;
pub mod limits;
pub mod rng;
pub mod time;

pub use digest::Digest;
pub use fault::{FailKind, Failure};
pub use id::{EntryId, MsgId, OpId, RunId, SessionId};
pub use key::{KeyError, KeyRef, SessionKey};
pub use level::Level;
pub use rng::Rng;
pub use time::Millis;
