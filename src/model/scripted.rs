//! The built-in offline model `offline/scripted` (decision 33, spec/model.md M29 to M33): no
//! language model, but a script that does what it is told, one request a line. It exists so that
//! everything around a model can be tried without a network.
//!
//! ```text
//! messages --plan--> beats --play--> the same events as of any other model
//! ```
//!
//! [`plan`] is pure and keeps no state: what is left to do follows from the messages since the
//! last final answer.

mod grammar;

#[cfg(test)]
mod tests;

use super::call::{CallHandle, ModelEvent};
use super::wire::{Delta, End, Finished, excerpt};
use crate::base::{FailKind, Failure, Millis};
use crate::transcript::{Assistant, Block, Message, StopReason, ToolResult, message};
use grammar::{Step, steps};
use serde_json::{Map, Value};
use std::time::Duration;

/// Most characters of a tool result that the final report repeats.
const REPORT_CHARS_MAX: usize = 400;

/// Most lines of each list of its summaries.
const SUMMARY_LINES_MAX: usize = 20;

/// One thing that the script does in a reply.
#[derive(Clone, PartialEq, Debug)]
pub enum Beat {
    /// Says a text, word by word.
    Say(String),
    /// Waits, ms.
    Pause(u64),
    /// Calls a tool.
    Call {
        /// The call's id: the same for the same messages.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments.
        args: Map<String, Value>,
    },
    /// Fails.
    Fail(Failure),
}

/// What the script does next, given the conversation.
#[must_use]
pub fn plan(messages: &[Message]) -> Vec<Beat> {
    let since = messages.iter().rposition(ends_a_plan).map_or(0, |at| at + 1);
    let open = &messages[since..];
    let mut todo = Vec::new();
    for message in open {
        if let Message::User(user) = message {
            todo.extend(steps(&user.content.to_text()));
        }
    }
    let rounds = open.iter().filter(|message| calls_tools(message)).count();
    let mut beats = Vec::new();
    for step in after_rounds(&todo, rounds) {
        match step {
            Step::Say(text) => say(&mut beats, text),
            Step::Wait(ms) => beats.push(Beat::Pause(*ms)),
            Step::Fail(kind) => {
                let text = format!("The script was asked to fail ({})", kind.name());
                beats.push(Beat::Fail(Failure::new(*kind, text)));
                return beats;
            }
            Step::Unknown(_) => {}
            Step::Calls(calls) => {
                // Lists may begin at the last finished plan: the time tells them apart.
                let place = asked_at(open) + messages.len() as u64;
                for (at, (name, args)) in calls.iter().enumerate() {
                    let id = format!("call_{place}_{rounds}_{at}");
                    beats.push(Beat::Call { id, name: (*name).to_owned(), args: args.clone() });
                }
                return beats;
            }
        }
    }
    close(&todo, open, &mut beats);
    beats
}

/// Whether nothing before this message is left to do: a final answer, a failure, a stop.
#[must_use]
pub fn ends_a_plan(message: &Message) -> bool {
    match message {
        Message::Assistant(reply) => reply.failed() || reply.calls().next().is_none(),
        Message::Custom(note) => note.custom_type == "openclaw:turn-aborted",
        Message::User(_)
        | Message::ToolResult(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => false,
    }
}

/// When the first request of an open plan was made, ms.
fn asked_at(open: &[Message]) -> u64 {
    let first = open.iter().find_map(|message| match message {
        Message::User(user) => Some(user.timestamp.0),
        _ => None,
    });
    first.unwrap_or(0)
}

fn calls_tools(message: &Message) -> bool {
    matches!(message, Message::Assistant(reply) if reply.calls().next().is_some())
}

/// The steps behind the first `rounds` batches of calls, which have been made.
fn after_rounds(todo: &[Step], rounds: usize) -> &[Step] {
    let mut left = rounds;
    for (at, step) in todo.iter().enumerate() {
        if left == 0 {
            return &todo[at..];
        }
        if matches!(step, Step::Calls(_)) {
            left -= 1;
        }
    }
    &[]
}

/// The end of the final answer: what the tools gave, and what was not understood.
fn close(todo: &[Step], open: &[Message], beats: &mut Vec<Beat>) {
    if let Some(report) = report(open) {
        say(beats, &report);
    }
    let unknown = todo.iter().filter_map(|step| match step {
        Step::Unknown(line) => Some(excerpt(line, 80)),
        _ => None,
    });
    let unknown: Vec<String> = unknown.collect();
    if !unknown.is_empty() {
        let quoted: Vec<String> = unknown.iter().map(|line| format!("\"{line}\"")).collect();
        let text = format!("I did not understand {}.\n\n{}", quoted.join(", "), grammar::HELP);
        say(beats, &text);
    } else if todo.is_empty() {
        say(beats, grammar::HELP);
    } else if !beats.iter().any(|beat| matches!(beat, Beat::Say(_))) {
        say(beats, "Done.");
    }
}

/// Adds a text, as a paragraph of its own where there is one before it.
fn say(beats: &mut Vec<Beat>, text: &str) {
    let first = !beats.iter().any(|beat| matches!(beat, Beat::Say(_)));
    beats.push(Beat::Say(if first { text.to_owned() } else { format!("\n\n{text}") }));
}

/// The results of all calls of the plan, in order; none where there were no calls.
fn report(open: &[Message]) -> Option<String> {
    let mut results: Vec<&ToolResult> = open
        .iter()
        .filter_map(|message| match message {
            Message::ToolResult(result) => Some(result),
            _ => None,
        })
        .collect();
    let calls = open.iter().filter_map(|message| match message {
        Message::Assistant(reply) => Some(reply.calls()),
        _ => None,
    });
    let mut lines = Vec::new();
    for (id, name, args) in calls.flatten() {
        let at = results.iter().position(|result| result.tool_call_id == id);
        let what = format!("{}. {}", lines.len() + 1, grammar::describe(name, args));
        lines.push(match at.map(|at| results.remove(at)) {
            None => format!("{what}: no result."),
            Some(result) => {
                let word = if result.is_error { "failed" } else { "worked" };
                let text = message::join_text(&result.content);
                match text.trim() {
                    "" => format!("{what}: {word}, without output."),
                    text => format!("{what}: {word}. Output:\n{}", excerpt(text, REPORT_CHARS_MAX)),
                }
            }
        });
    }
    (!lines.is_empty()).then(|| format!("Here is what the tools gave.\n\n{}", lines.join("\n")))
}

/// Plans a reply and plays it; returns when it is over. `clock` gives the time of its end.
pub fn run(
    messages: &[Message],
    handle: &CallHandle,
    clock: &dyn Fn() -> Millis,
    sink: &mut dyn FnMut(ModelEvent),
) {
    let mut content = Vec::new();
    sink(ModelEvent::Delta(Delta::Start));
    let fault = plan(messages).into_iter().find_map(|beat| play(beat, handle, &mut content, sink));
    let end = match (handle.aborted(), fault) {
        (Some(reason), _) => {
            let failure = Failure::new(FailKind::Unknown, reason);
            failed(failure, content, StopReason::Aborted, "aborted", clock())
        }
        (None, Some(failure)) => {
            let code = failure.kind.name();
            failed(failure, content, StopReason::Error, code, clock())
        }
        (None, None) => {
            let calls = content.iter().any(|block| matches!(block, Block::ToolCall { .. }));
            let stop = if calls { StopReason::ToolUse } else { StopReason::Stop };
            End::Done(Finished { message: reply(content, stop, clock()), bad_args: Vec::new() })
        }
    };
    sink(ModelEvent::End(Box::new(end)));
}

/// Plays one beat. A failure ends the reply; so does a stop, which the caller sees at the handle.
fn play(
    beat: Beat,
    handle: &CallHandle,
    content: &mut Vec<Block>,
    sink: &mut dyn FnMut(ModelEvent),
) -> Option<Failure> {
    let stopped = || handle.aborted().map(|reason| Failure::new(FailKind::Unknown, reason));
    match beat {
        Beat::Fail(failure) => return Some(failure),
        Beat::Pause(ms) => {
            handle.pause(Duration::from_millis(ms));
        }
        Beat::Say(text) => {
            if !matches!(content.last(), Some(Block::Text { .. })) {
                content.push(Block::text(""));
            }
            for word in text.split_inclusive([' ', '\n']) {
                if let Some(fault) = stopped() {
                    return Some(fault);
                }
                if let Some(Block::Text { text }) = content.last_mut() {
                    text.push_str(word);
                }
                sink(ModelEvent::Delta(Delta::Text(word.to_owned())));
            }
        }
        Beat::Call { id, name, args } => {
            let before = content.iter().filter(|b| matches!(b, Block::ToolCall { .. })).count();
            let index = u16::try_from(before).unwrap_or(u16::MAX);
            let text = Value::Object(args.clone()).to_string();
            let start = Delta::CallStart { index, id: id.clone(), name: name.clone() };
            sink(ModelEvent::Delta(start));
            sink(ModelEvent::Delta(Delta::CallArgs { index, text }));
            content.push(Block::ToolCall { id, name, arguments: args });
        }
    }
    stopped()
}

/// What the script makes of a request for a summary: the first words of what was said, by a rule
/// that anybody can follow. A wish is a request in its own language, so that a failing or a slow
/// summary can be tried.
///
/// # Errors
/// It was asked to fail, or was stopped.
pub fn summarize(prompt: &str, wish: Option<&str>, handle: &CallHandle) -> Result<String, Failure> {
    for step in steps(wish.unwrap_or_default()) {
        match step {
            Step::Fail(kind) => {
                let text = format!("The script was asked to fail ({})", kind.name());
                return Err(Failure::new(kind, text));
            }
            Step::Wait(ms) if handle.pause(Duration::from_millis(ms)) => {
                let why = handle.aborted().unwrap_or_default();
                return Err(Failure::new(FailKind::Unknown, why));
            }
            Step::Wait(_) | Step::Calls(_) | Step::Say(_) | Step::Unknown(_) => {}
        }
    }
    let (mut asked, mut done) = (Vec::new(), Vec::new());
    for line in prompt.lines() {
        if let Some(text) = line.strip_prefix("[User]: ") {
            asked.push(excerpt(text, 80));
        } else if let Some(text) = line.strip_prefix("[Assistant tool calls]: ") {
            done.push(excerpt(text, 120));
        }
    }
    let list = |all: &[String], none: &str| match all {
        [] => format!("- {none}"),
        all => {
            let from = all.len().saturating_sub(SUMMARY_LINES_MAX);
            let lines: Vec<String> = all[from..].iter().map(|line| format!("- {line}")).collect();
            lines.join("\n")
        }
    };
    Ok(format!(
        "## Goal\n{}\n\n## Progress\n### Done\n{}\n\n## Critical Context\n- This summary was made \
         by a script: it lists what was asked and called, and understands nothing of it.",
        list(&asked, "nothing was asked"),
        list(&done, "no tool was called"),
    ))
}

fn failed(
    failure: Failure,
    mut content: Vec<Block>,
    stop: StopReason,
    code: &str,
    at: Millis,
) -> End {
    content.retain(|block| !matches!(block, Block::ToolCall { .. }));
    let mut message = reply(content, stop, at);
    message.error_message = Some(failure.message.clone());
    message.error_code = Some(code.to_owned());
    End::Failed(failure, message)
}

fn reply(content: Vec<Block>, stop_reason: StopReason, timestamp: Millis) -> Assistant {
    Assistant {
        content,
        api: "scripted".to_owned(),
        provider: super::catalog::OFFLINE.to_owned(),
        model: "scripted".to_owned(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp,
    }
}
