//! Repair of a broken history before it is replayed (semantics 7.8). What the door stored needs
//! none; histories from elsewhere, or damaged ones, do. Applied twice, it changes nothing more.

use super::door::missing_output;
use super::message::{Block, Message, StopReason, ToolOutput, ToolResult};
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
    /// Calls that were taken out of replies that do not wait for results.
    pub stripped: usize,
    /// Replies with results that did not say they wait for them, and say so now.
    pub renamed: usize,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.inserted, "results made up"),
            (self.dropped, "left out"),
            (self.moved, "moved to their call"),
        ];
        let said: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
        f.write_str(&if said.is_empty() { "order and calls".to_owned() } else { said.join(", ") })
    }
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
/// no call. So do others that do not wait for results, unless a result follows all the same.
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
    matches!(message, Message::Assistant(a) if a.calls().next().is_some())
}

/// Only a message that waits for results keeps calls.
fn normal(message: Message, next: Option<&Message>, report: &mut Report) -> Message {
    match message {
        Message::Assistant(mut a) if a.stop_reason != StopReason::ToolUse => {
            let calls = a.calls().count();
            let answered = matches!(next, Some(Message::ToolResult(result))
                if a.calls().any(|(id, _, _)| id == result.tool_call_id));
            if calls > 0 && answered && !a.failed() {
                a.stop_reason = StopReason::ToolUse;
                report.renamed += 1;
            } else {
                a.content.retain(|b| !matches!(b, Block::ToolCall { .. }));
                report.stripped += calls;
            }
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
    let mut history = history.into_iter().peekable();
    while let Some(message) = history.next() {
        let message = normal(message, history.peek(), report);
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

/// How many calls of the late result's id in the frame have no result in it. For a real result, one
/// that was made up does not count.
fn unresolved(frame: &Frame, late: &ToolResult) -> usize {
    let id = &late.tool_call_id;
    let calls = call_ids(frame).iter().filter(|c| *c == id).count();
    let counts = |r: &&ToolResult| r.tool_call_id == *id && (synthetic(late) || !synthetic(r));
    calls.saturating_sub(frame.results.iter().filter(counts).count())
}

/// A result in a later frame goes back to its call, if exactly one unresolved call has that id.
fn adopt_late_results(frames: &mut [Frame], report: &mut Report) {
    for at in 1..frames.len() {
        let results = std::mem::take(&mut frames[at].results);
        for result in results {
            if unresolved(&frames[at], &result) > 0 {
                frames[at].results.push(result);
                continue;
            }
            let open: Vec<usize> =
                (0..at).filter(|f| unresolved(&frames[*f], &result) > 0).collect();
            match open.as_slice() {
                [only] if unresolved(&frames[*only], &result) == 1 => {
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
    let mut by_id: BTreeMap<String, VecDeque<(usize, ToolResult)>> = BTreeMap::new();
    for (place, result) in frame.results.into_iter().enumerate() {
        by_id.entry(result.tool_call_id.clone()).or_default().push_back((place, result));
    }
    for queue in by_id.values_mut() {
        // A real result is better than one that was made up.
        queue.make_contiguous().sort_by_key(|(_, result)| synthetic(result));
    }
    let (mut results, mut last) = (Vec::new(), None);
    for (id, name, _) in head.calls() {
        let found = by_id.get_mut(id).and_then(VecDeque::pop_front);
        if let Some((place, _)) = &found {
            report.moved += usize::from(last > Some(*place));
            last = last.max(Some(*place));
        }
        results.push(found.map(|(_, result)| result).unwrap_or_else(|| {
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
