//! Repair of a broken history before it is replayed (semantics 7.8). What the door stored needs
//! none; histories from elsewhere, or damaged ones, do. Applied twice, it changes nothing more.

use super::door::missing_output;
use super::message::{Block, Message, ToolOutput, ToolResult};
use crate::base::Millis;
use std::collections::{BTreeMap, VecDeque};

/// What a repair did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Results that were made up for calls that had none.
    pub inserted: usize,
    /// Results without a call, and second results, that were left out.
    pub dropped: usize,
    /// Results that stood elsewhere and were moved behind their call.
    pub moved: usize,
}

impl Report {
    /// Whether the history was whole.
    #[must_use]
    pub fn clean(&self) -> bool {
        *self == Report::default()
    }
}

/// A frame: an assistant message with calls, up to the next such message.
struct Frame {
    head: Message,
    results: Vec<ToolResult>,
    rest: Vec<Message>,
}

/// Pairs every call with exactly one result, adjacent, in call order. Failed assistants lose their
/// calls: such a message never carries executable calls (semantics 2.4), so results to them have
/// no call.
#[must_use]
pub fn repair(history: Vec<Message>) -> (Vec<Message>, Report) {
    let mut report = Report::default();
    let (lead, mut frames) = split(history, &mut report);
    adopt_late_results(&mut frames, &mut report);
    let mut out = lead;
    for frame in frames {
        emit(frame, &mut out, &mut report);
    }
    (out, report)
}

fn has_calls(message: &Message) -> bool {
    matches!(message, Message::Assistant(a) if !a.failed() && a.calls().next().is_some())
}

fn strip_failed(message: Message) -> Message {
    match message {
        Message::Assistant(mut a) if a.failed() => {
            a.content.retain(|b| !matches!(b, Block::ToolCall { .. }));
            Message::Assistant(a)
        }
        message @ (Message::Assistant(_)
        | Message::User(_)
        | Message::ToolResult(_)
        | Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_)) => message,
    }
}

fn split(history: Vec<Message>, report: &mut Report) -> (Vec<Message>, Vec<Frame>) {
    let mut lead = Vec::new();
    let mut frames: Vec<Frame> = Vec::new();
    for message in history {
        let message = strip_failed(message);
        if has_calls(&message) {
            frames.push(Frame { head: message, results: vec![], rest: vec![] });
            continue;
        }
        match (frames.last_mut(), message) {
            (Some(frame), Message::ToolResult(result)) => {
                if !frame.rest.is_empty() {
                    report.moved += 1;
                }
                frame.results.push(result);
            }
            (None, Message::ToolResult(_)) => report.dropped += 1,
            (Some(frame), message) => frame.rest.push(message),
            (None, message) => lead.push(message),
        }
    }
    (lead, frames)
}

fn call_ids(frame: &Frame) -> Vec<String> {
    match &frame.head {
        Message::Assistant(a) => a.calls().map(|(id, _, _)| id.to_owned()).collect(),
        Message::User(_)
        | Message::ToolResult(_)
        | Message::Custom(_)
        | Message::BashExecution(_)
        | Message::BranchSummary(_)
        | Message::CompactionSummary(_) => vec![],
    }
}

/// How many calls of that id in the frame have no result in it.
fn unresolved(frame: &Frame, id: &str) -> usize {
    let calls = call_ids(frame).iter().filter(|c| *c == id).count();
    let results = frame.results.iter().filter(|r| r.tool_call_id == id).count();
    calls.saturating_sub(results)
}

/// A result in a later frame goes back to its call, if exactly one unresolved call has that id.
fn adopt_late_results(frames: &mut [Frame], report: &mut Report) {
    for at in 1..frames.len() {
        let here = call_ids(&frames[at]);
        let results = std::mem::take(&mut frames[at].results);
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        for result in results {
            let id = result.tool_call_id.clone();
            let mine = here.iter().filter(|c| **c == id).count();
            let taken = used.entry(id.clone()).or_default();
            if *taken < mine {
                *taken += 1;
                frames[at].results.push(result);
                continue;
            }
            let open: Vec<usize> = (0..at).filter(|f| unresolved(&frames[*f], &id) > 0).collect();
            match open.as_slice() {
                [only] if unresolved(&frames[*only], &id) == 1 => {
                    report.moved += 1;
                    frames[*only].results.push(result);
                }
                _ => report.dropped += 1,
            }
        }
    }
}

fn synthetic(result: &ToolResult) -> bool {
    result.details.as_ref().is_some_and(|d| d["openclawSyntheticMissingToolResult"] == true)
}

fn emit(frame: Frame, out: &mut Vec<Message>, report: &mut Report) {
    let Message::Assistant(head) = &frame.head else { return };
    let mut by_id: BTreeMap<String, VecDeque<ToolResult>> = BTreeMap::new();
    for result in frame.results {
        by_id.entry(result.tool_call_id.clone()).or_default().push_back(result);
    }
    for queue in by_id.values_mut() {
        // A real result is better than one that was made up.
        queue.make_contiguous().sort_by_key(synthetic);
    }
    let mut results = Vec::new();
    for (id, name, _) in head.calls() {
        let found = by_id.get_mut(id).and_then(VecDeque::pop_front);
        results.push(found.unwrap_or_else(|| {
            report.inserted += 1;
            let ToolOutput { content, details, .. } = missing_output();
            ToolResult {
                tool_call_id: id.to_owned(),
                tool_name: if name.is_empty() { "unknown".to_owned() } else { name.to_owned() },
                content,
                details,
                is_error: true,
                timestamp: Millis(head.timestamp.0),
            }
        }));
    }
    report.dropped += by_id.values().map(VecDeque::len).sum::<usize>();
    out.push(frame.head);
    out.extend(results.into_iter().map(Message::ToolResult));
    out.extend(frame.rest);
}

/// Whether every call has exactly one result, adjacent and in call order, and no result is
/// without its call. Compares ids by place, since providers may repeat them.
#[must_use]
pub fn paired(history: &[Message]) -> bool {
    let mut owed: VecDeque<&str> = VecDeque::new();
    for message in history {
        match message {
            Message::ToolResult(result) => {
                if owed.pop_front() != Some(result.tool_call_id.as_str()) {
                    return false;
                }
            }
            Message::Assistant(a) => {
                if !owed.is_empty() {
                    return false;
                }
                if a.stop_reason == super::StopReason::ToolUse {
                    owed.extend(a.calls().map(|(id, _, _)| id));
                } else if a.calls().next().is_some() {
                    return false;
                }
            }
            Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => {
                if !owed.is_empty() {
                    return false;
                }
            }
        }
    }
    owed.is_empty()
}
