//! Tools: descriptions and argument checks (pure), and the tools themselves (`run`, blocking).
//! `spec/tools.md` numbers the rules; comments cite them as `tools#N`.

pub mod cap;
pub mod check;
pub mod coerce;
pub mod diff;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
pub mod judge;
pub mod patch;
pub mod run;
pub mod schema;
pub mod spec;
pub mod splice;
pub mod text;

pub use check::{Checked, RejectKind, Rejected, check};
pub use judge::{judge, result_hash};
pub use spec::{ToolSpec, core, replayable};
