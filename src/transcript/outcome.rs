//! The words of results that no tool wrote (semantics 3.5, decisions 7).

use super::message::{Block, ToolOutput};
use super::stream::Check;
use crate::engine::{Cause, Outcome, Unstarted, loops::Finding};
use serde_json::{Value, json};

/// The repair text for a call whose result is only missing (semantics 7.8).
pub const MISSING: &str = "[openclaw] missing tool result in session history; inserted synthetic \
                           error result for transcript repair.";

/// The note of an interruption, hidden from people, seen by the model (semantics R20).
pub const TURN_ABORTED: &str = "<turn_aborted>\nThe previous turn was interrupted before it was \
    finished. Processes it started in the background may still be running, and tools may have \
    been stopped half way. Check the state of things before doing a step again.\n</turn_aborted>";

/// The custom type of that note.
pub const TURN_ABORTED_TYPE: &str = "openclaw:turn-aborted";

fn failed(text: impl Into<String>, details: Value) -> ToolOutput {
    ToolOutput::error(text).with(details)
}

/// What the model reads of an outcome. `check` is the verdict on the call, `warned` the number of
/// repeats a loop warning speaks of. `None` for an outcome that is recorded already.
#[must_use]
pub fn render(outcome: &Outcome, check: &Check, name: &str, warned: Option<u32>) -> ToolOutput {
    let mut output = match outcome {
        Outcome::Tool(output) => ToolOutput::clone(output),
        Outcome::Unstarted(why) => unstarted(why, check, name),
        Outcome::Kept | Outcome::Unsettled => failed(
            "Outcome unknown: the tool did not stop in time after the run was aborted. It may have \
             taken effect. Check before doing it again.",
            json!({"status": "unknown", "reason": "settle-timeout"}),
        ),
        Outcome::UnknownAfterStop => failed(
            "Outcome unknown: the process stopped while this tool was running. It may have taken \
             effect. Check before doing it again.",
            json!({"status": "unknown", "reason": "process-stopped"}),
        ),
        Outcome::NotStartedBeforeStop => failed(
            "Not started: the process stopped before this tool ran.",
            json!({"status": "skipped", "deniedReason": "process-stopped"}),
        ),
        Outcome::UnknownAfterTakeover => failed(
            "Outcome unknown: a newer run took this session while this tool was running. It may \
             have taken effect. Check before doing it again.",
            json!({"status": "unknown", "reason": "superseded"}),
        ),
        Outcome::NotStartedBeforeTakeover => failed(
            "Not started: a newer run took this session before this tool ran.",
            json!({"status": "skipped", "deniedReason": "superseded"}),
        ),
    };
    if let Some(count) = warned {
        let note = format!(
            "[System note: Tool-loop warning after {count} repeated calls. If this is not making \
             progress, try something else.]"
        );
        output.content.push(Block::text(note));
    }
    output
}

fn unstarted(why: &Unstarted, check: &Check, name: &str) -> ToolOutput {
    match why {
        Unstarted::Rejected => match check {
            Check::Rejected(text) => failed(text.clone(), json!({})),
            Check::Ready(_) => failed(format!("Tool {name} cannot be run"), json!({})),
        },
        Unstarted::Blocked { reason } => {
            let text = reason.as_deref().unwrap_or("Tool execution was blocked");
            let details = json!({
                "status": "blocked", "deniedReason": "plugin-before-tool-call", "reason": text,
            });
            failed(text, details)
        }
        Unstarted::Steering => failed(
            "Skipped to process an incoming message.",
            json!({"status": "skipped", "deniedReason": "steering"}),
        ),
        Unstarted::Admission => failed(
            "Tool execution was blocked before launch.",
            json!({"status": "blocked", "deniedReason": "tool-admission"}),
        ),
        Unstarted::Aborted => failed("Operation aborted", json!({})),
        Unstarted::Loop { finding, second } => failed(loop_text(finding, name, *second), {
            looped(finding.detector.name(), Some(finding.count), *second)
        }),
        Unstarted::LoopOther { second } => failed(
            "Not executed: another call of this batch was found to be looping, and the batch was \
             blocked as a whole.",
            looped("other-call", None, *second),
        ),
    }
}

fn looped(detector: &str, count: Option<u32>, second: bool) -> Value {
    let action = if second { "terminate" } else { "block" };
    json!({
        "status": "blocked", "deniedReason": "tool-loop",
        "intervention": {"detector": detector, "count": count, "action": action},
    })
}

fn loop_text(finding: &Finding, name: &str, second: bool) -> String {
    let Finding { detector, count } = finding;
    let what = format!("CRITICAL: {name} was called {count} times ({}) ", detector.name());
    let next = if second {
        "without progress, again. The run is being stopped."
    } else {
        "without progress, so this batch was not executed. Do not repeat the call: try something \
         else, or answer with what you have."
    };
    what + next
}

/// The closing words of a run that the loop detector ended.
pub const LOOP_END: &str = "The run was stopped: the same tool calls were repeated without progress, \
                            also after a warning.";

/// The code that recovery matches (semantics 4).
#[must_use]
pub fn abort_code(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::User | Cause::Disconnect => Some("OPENCLAW_DIRECT_ABORT"),
        Cause::Restart => Some("OPENCLAW_RESTART_ABORT"),
        Cause::Timeout | Cause::Handoff => None,
    }
}

/// The text of an aborted assistant message.
#[must_use]
pub fn abort_text(cause: Cause) -> &'static str {
    match cause {
        Cause::User => "Agent run aborted",
        Cause::Timeout => "Agent run timed out",
        Cause::Restart => "Agent run stopped for a restart",
        Cause::Handoff => "Agent run handed over",
        Cause::Disconnect => "Agent run aborted: its client disconnected",
    }
}
