//! What can happen in the town next. A list of moves is a replay file.

use crate::engine::reset::ResetPolicy;
use crate::engine::turns::Partial;
use serde::{Deserialize, Serialize};

/// With which options a town lives.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct TownSetup {
    /// How many conversations there are.
    pub sessions: u8,
    /// How many runs a lane takes.
    pub cap: u8,
    /// The global settings of queues.
    pub queue: Partial,
    /// When sessions begin anew.
    pub reset: ResetPolicy,
    /// How long a message waits for its lanes, s; 0 is for ever.
    pub lane_wait_s: u16,
}

impl Default for TownSetup {
    fn default() -> TownSetup {
        TownSetup {
            sessions: 3,
            cap: 1,
            queue: Partial::default(),
            reset: ResetPolicy::default(),
            lane_wait_s: 0,
        }
    }
}

/// One move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TownMove {
    /// A message: for which session; in which mode; of which kind (lane, heartbeat).
    Arrive(u8, u8, u8),
    /// The nth last message once more; as another request, if the second says so.
    Again(u8, bool),
    /// `/queue` for a session.
    Settings(u8, u8),
    /// The nth last run is stopped.
    AbortRun(u8),
    /// A session is stopped.
    AbortSession(u8),
    /// What is set for a session changes.
    Reload(u8),
    /// A session begins anew.
    Reset(u8),
    /// A session goes.
    Delete(u8),
    /// Somebody waits for the nth last run, so many s.
    Wait(u8, u16),
    /// The oldest who waits goes.
    Unwait,
    /// The store does what was handed to it first.
    Disk,
    /// The store's oldest answer arrives.
    Answer,
    /// The nth session that is being opened is open, or cannot be.
    Open(u8, bool),
    /// The nth run does something: which.
    Go(u8, u8),
    /// The nth run takes its first steering message, or not.
    Hear(u8, bool),
    /// What else is on its way arrives.
    Reply,
    /// An answer to a question that is not open.
    Stale(u8),
    /// So many s pass.
    Pass(u32),
    /// Time passes until the next appointment.
    Due,
    /// A tick at the wrong time.
    Tick,
    /// So many writes fail from here on.
    Full(u8),
    /// An outside writer reads a session.
    Look(u8),
    /// It claims what it has read.
    TakeOver,
    /// The process is asked to stop within so many s.
    Drain(u8),
    /// The next step crashes after so many acts.
    Crash(u8),
    /// Whoever can do something does it; where nobody can, time passes.
    Round,
    /// The process dies.
    Kill,
}
