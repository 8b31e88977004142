//! THE MACHINE. `step(run, input, now)` decides everything and does nothing.
//!
//! A run owns a reply while a model answers and a batch while tools run. `append` is committed
//! before `tell` is sent and `act` is started; every act carries an id and every answer quotes it.
//! Content passes through: the state holds ids, counts and marks, and is small enough to walk.
//!
//! ```text
//! Idle -> Claiming -> Assembling -> Calling <-> Waiting
//!                                    |   ^
//!                                    v   |            (Hooking: a loop-level hook is asked)
//!                                  Admitting -> Executing
//!                         ... any phase -> Settling -> Ended
//! ```

pub mod answer;
pub mod batch;
mod close;
pub mod command;
pub mod compact;
mod ends;
mod flow;
pub mod io;
pub mod lanes;
mod leave;
pub mod loops;
mod outcome;
pub mod recovery;
pub mod replay;
pub mod reply;
pub mod reset;
pub mod run;
pub mod sessions;
pub mod steer;
pub mod turns;
pub mod watch;

pub use compact::{Compacted, CompactionEnd, Trigger};
pub use io::{
    Act, Assembled, Cause, Entry, Event, Fault, FenceRefusal, Hook, Hooks, Input, Outcome, Record,
    Refusal, Setup, Step, Submit, Termination, Unstarted, Verdict, Who,
};
pub use replay::{Ledger, recover};
pub use run::{Phase, Run, step};
pub use steer::{Drain, QueueKind};
