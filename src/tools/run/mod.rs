//! The tools themselves. Blocking: each call runs on a worker thread of its caller.

pub mod apply_patch;
pub mod cancel;
pub mod child;
pub mod edit;
pub mod exec;
pub mod file;
pub mod kill;
pub mod ls;
pub mod order;
pub mod process;
pub mod read;
pub mod write;

pub use cancel::Cancel;
pub use child::child_main;
pub use kill::{end_now, end_survivor};
pub use order::{FileOrder, Ticket};

use crate::transcript::ToolOutput;
use order::Access;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// What a call is told when it is stopped before it began.
pub const ABORTED: &str = "Operation aborted";

/// Where and how a call runs.
#[derive(Debug)]
pub struct Ctx {
    /// The workspace: relative paths start here.
    pub cwd: PathBuf,
    /// The wish to stop this call.
    pub cancel: Cancel,
    /// The call's place among the file calls; none where nothing else runs.
    pub ticket: Option<Ticket>,
    /// The program that starts commands in a session of their own, as `PROGRAM __exec-child --
    /// SHELL -c COMMAND`. Without it a command only gets its own process group, and could still
    /// open the controlling terminal.
    pub helper: Option<PathBuf>,
    /// Seconds after which a command is ended where the call does not say; 0 for never.
    pub exec_timeout_s: u64,
    /// Whether `apply_patch` keeps to the workspace.
    pub workspace_only_patch: bool,
    /// The user's shell, as `$SHELL` has it.
    pub shell: Option<String>,
    /// The whole environment that commands start from.
    pub env: Vec<(String, String)>,
}

/// What a call says while it runs.
#[derive(Clone, PartialEq, Debug)]
pub enum Progress {
    /// A process group was started.
    Process {
        /// Its id, which is its leader's.
        pgid: u32,
        /// The leader's start time (field 22 of `/proc/PID/stat`), 0 where unknown.
        started: u64,
    },
    /// What there is so far.
    Update(ToolOutput),
}

/// A good result, or the text of a failure.
type Outcome = Result<ToolOutput, String>;

/// Runs one call. The arguments are expected to have passed [`super::check()`]; others end in an
/// error result. Never panics.
pub fn run(
    name: &str,
    args: &Map<String, Value>,
    ctx: &Ctx,
    progress: &mut dyn FnMut(Progress),
) -> ToolOutput {
    let outcome = if ctx.cancel.is_cancelled() {
        Err(ABORTED.to_owned())
    } else {
        match name {
            "apply_patch" => apply_patch::run(args, ctx),
            "edit" => edit::run(args, ctx),
            "exec" => {
                ctx.release();
                exec::run(args, ctx, progress)
            }
            "ls" => {
                ctx.release();
                ls::run(args, ctx)
            }
            "read" => read::run(args, ctx),
            "write" => write::run(args, ctx),
            _ => Err(format!("Tool {name} not found")),
        }
    };
    ctx.release();
    outcome.unwrap_or_else(ToolOutput::error)
}

impl Ctx {
    /// Gives the place among the file calls up.
    fn release(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.release();
        }
    }

    /// Waits for the call's turn with these files.
    fn acquire(&self, paths: &[PathBuf], access: Access) -> Result<(), String> {
        if let Some(ticket) = &self.ticket {
            ticket.acquire(paths, access, &self.cancel).map_err(|_| ABORTED.to_owned())?;
        }
        self.unless_cancelled()
    }

    fn unless_cancelled(&self) -> Result<(), String> {
        if self.cancel.is_cancelled() { Err(ABORTED.to_owned()) } else { Ok(()) }
    }

    /// A path as the model wrote it, from the workspace; `~` is the home directory.
    fn resolve(&self, path: &str) -> Result<PathBuf, String> {
        if path.is_empty() {
            return Err("The path is empty.".into());
        }
        if path.contains('\0') {
            return Err("The path holds a NUL character.".into());
        }
        let home = || self.env.iter().find(|(name, _)| name == "HOME").map(|(_, home)| home);
        let rest = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        match (rest, home()) {
            (Some(rest), Some(home)) => Ok(PathBuf::from(home).join(rest.trim_start_matches('/'))),
            _ => Ok(self.cwd.join(path)),
        }
    }
}

/// A text argument that has to be there.
fn text<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    args.get(name).and_then(Value::as_str).ok_or_else(|| format!("{name} must be a text."))
}

/// A count that may be left out.
fn count(args: &Map<String, Value>, name: &str) -> Result<Option<usize>, String> {
    let Some(value) = args.get(name) else { return Ok(None) };
    // A number without fraction may arrive as `3.0`; the conversion saturates.
    let number = value.as_u64().or_else(|| value.as_f64().filter(|n| *n >= 0.0).map(|n| n as u64));
    match number.and_then(|n| usize::try_from(n).ok()) {
        Some(n) => Ok(Some(n)),
        None => Err(format!("{name} must be a number that is not negative.")),
    }
}

#[cfg(test)]
mod tests;
