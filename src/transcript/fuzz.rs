//! Fuzzing entry of the repair, and the histories it is tried with.

use super::project::as_user;
use super::repair::{Report, paired, repair};
use super::{
    Assistant, Block, Content, Custom, Message, StopReason, ToolResult, User, door::missing_output,
};
use crate::base::{Millis, id::hex};
use serde_json::{Map, Value};

/// Bytes as choices; 0 where they have run out.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, n: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % n
    }

    fn id(&mut self) -> String {
        let long = "mcp__docs-lookup-x__search_everything_in_the_index_exec-0000";
        ["a", "b", "c", "", "call_1|fc_1", "dup", long][usize::from(self.below(7))].to_owned()
    }
}

/// A history as bytes describe it: ids that repeat or are empty, results anywhere, replies that
/// failed with calls in them. Each text is another one.
#[must_use]
pub fn history(data: &[u8]) -> Vec<Message> {
    let mut choices = Choices(data);
    let mut out = Vec::new();
    while !choices.0.is_empty() && out.len() < 64 {
        let text = format!("text {} {}", out.len(), hex(&[u8::try_from(out.len()).unwrap_or(0)]));
        out.push(message(&mut choices, text));
    }
    out
}

fn message(choices: &mut Choices<'_>, text: String) -> Message {
    let timestamp = Millis(1);
    match choices.below(8) {
        0 => Message::User(User { content: Content::Text(text), timestamp, idempotency_key: None }),
        1 => Message::Custom(Custom {
            custom_type: "note".into(),
            content: Content::Text(text),
            display: true,
            details: None,
            timestamp,
        }),
        2..=4 => Message::Assistant(assistant(choices, text)),
        _ => {
            let tool_call_id = choices.id();
            let made_up = choices.below(4) == 0;
            let output = missing_output();
            Message::ToolResult(ToolResult {
                tool_call_id,
                tool_name: "read".into(),
                content: if made_up { output.content } else { vec![Block::text(text)] },
                details: if made_up { output.details } else { None },
                is_error: made_up,
                timestamp,
            })
        }
    }
}

fn assistant(choices: &mut Choices<'_>, text: String) -> Assistant {
    let stop_reason = match choices.below(8) {
        0 => StopReason::Stop,
        1 => StopReason::Length,
        2 => StopReason::Error,
        3 => StopReason::Aborted,
        _ => StopReason::ToolUse,
    };
    let mut content = Vec::new();
    if choices.below(2) == 0 {
        content.push(Block::text(text));
    }
    for _ in 0..choices.below(4) {
        let name = ["read", ""][usize::from(choices.below(2))].to_owned();
        content.push(Block::ToolCall { id: choices.id(), name, arguments: Map::new() });
    }
    Assistant {
        content,
        api: "a".into(),
        provider: "p".into(),
        model: "m".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp: Millis(1),
    }
}

/// The texts of everything that is neither a call nor a result, in order.
fn spoken(history: &[Message]) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::ToolResult(_) => None,
        Message::Assistant(a) => {
            let text = super::message::join_text(&a.content);
            (!text.is_empty()).then_some(text)
        }
        other => as_user(other).map(|content| content.to_text()),
    };
    history.iter().filter_map(text).collect()
}

fn real_results(history: &[Message]) -> usize {
    let real = |m: &&Message| matches!(m, Message::ToolResult(r) if r.details.is_none());
    history.iter().filter(real).count()
}

/// Whatever the history, its repair is paired, changes nothing the second time, and keeps what was
/// said in its order.
///
/// # Panics
/// When a rule is broken; that is what a fuzzer looks for.
pub fn fuzz_repair(data: &[u8]) {
    check_repair(history(data));
}

/// The same for a given history; gives the repaired one and the report.
///
/// # Panics
/// When a rule is broken.
pub fn check_repair(broken: Vec<Message>) -> (Vec<Message>, Report) {
    let (fixed, report) = repair(broken.clone());
    assert!(paired(&fixed), "not paired: {fixed:#?}");
    let (again, second) = repair(fixed.clone());
    assert!(second.clean(), "a second repair did something: {second:?}");
    assert_eq!(again, fixed, "a second repair changed something");
    assert_eq!(report.clean(), fixed == broken, "the report is wrong: {report:?}");
    assert_eq!(spoken(&broken), spoken(&fixed), "what was said has changed");
    let (before, after) = (real_results(&broken), real_results(&fixed));
    assert!(after <= before && before - after <= report.dropped, "results vanished: {report:?}");
    let made_up = |m: &&Message| matches!(m, Message::ToolResult(r) if r.details.is_some());
    let made = fixed.iter().filter(made_up).count();
    let had = broken.iter().filter(made_up).count();
    assert!(made <= had + report.inserted, "more was made up than reported: {report:?}");
    assert!(fixed.iter().all(|m| match m {
        Message::ToolResult(r) => r.details.as_ref().is_none_or(Value::is_object),
        _ => true,
    }));
    (fixed, report)
}
