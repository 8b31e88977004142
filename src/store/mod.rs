//! The agent's database: sessions, transcript, runs, open calls, waiting messages. That of the
//! gateway itself is in [`state`].
//!
//! One writer worker owns the connection; everything that one pass of the reactor produced is one
//! transaction, in which each session's part is a savepoint, so that a part which the fence refuses
//! is rolled back alone (decisions 4). The fence compares the session's active writer inside that
//! transaction (semantics 7.4).

mod admit;
mod boot;
mod error;
mod lock;
mod make;
mod manage;
mod query;
mod read;
mod schema;
pub mod state;
mod worker;
mod write;

pub use admit::{Admit, Admitted, Seen};
pub use boot::{Boot, Interrupted, Restored};
pub use error::StoreError;
pub use lock::{StateLock, create_private};
pub use make::Make;
pub use manage::{Change, Manage};
pub use read::{Loaded, OpenRun, Reader};
pub use schema::{SCHEMA_VERSION, Synchronous, open};
pub use worker::{Answer, Job, Worker};
pub use write::{Commit, Committed, Denied, Fact, Part, PartResult, commit_all, execute_all};

use std::path::{Path, PathBuf};

/// Where an agent's database is inside a state directory.
#[must_use]
pub fn agent_db(state_dir: &Path, agent: &str) -> PathBuf {
    state_dir.join("agents").join(agent).join("agent.sqlite")
}

#[cfg(test)]
mod tests;
