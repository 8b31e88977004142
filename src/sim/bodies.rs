//! Small messages for simulated friends.

use crate::base::{Millis, OpId};
use crate::engine::{Input, batch, reply};
use crate::transcript::{
    Assistant, Block, CallFacts, Check, Content, Delta, RejectKind, ReplyBody, StopReason,
    ToolOutput, User,
};
use serde_json::Map;
use std::sync::Arc;

/// A person's message.
#[must_use]
pub fn user(text: &str) -> Arc<User> {
    let content = Content::Text(text.to_owned());
    Arc::new(User { content, timestamp: Millis(0), idempotency_key: None })
}

/// A model's message with these blocks.
#[must_use]
pub fn assistant(content: Vec<Block>, stop_reason: StopReason) -> Assistant {
    Assistant {
        content,
        api: "sim".into(),
        provider: "sim".into(),
        model: "sim".into(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason,
        error_message: None,
        error_code: None,
        timestamp: Millis(0),
    }
}

/// A reply of one text.
#[must_use]
pub fn text(text: &str) -> Arc<ReplyBody> {
    let message = assistant(vec![Block::text(text)], StopReason::Stop);
    Arc::new(ReplyBody::new(message, vec![], vec![]))
}

/// What a simulated call is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallShape {
    /// Its arguments differ by this number.
    pub args: u64,
    /// It must run alone.
    pub sequential: bool,
    /// It is made to be repeated.
    pub poll: bool,
    /// It cannot run.
    pub rejected: Option<RejectKind>,
}

/// A reply that asks for tools.
#[must_use]
pub fn calls(shapes: &[CallShape]) -> Arc<ReplyBody> {
    let block = |(i, _): (usize, &CallShape)| Block::ToolCall {
        id: format!("c{i}"),
        name: format!("tool{i}"),
        arguments: Map::new(),
    };
    let content = shapes.iter().enumerate().map(block).collect();
    let message = assistant(content, StopReason::ToolUse);
    let check = |(i, shape): (usize, &CallShape)| match shape.rejected {
        None => Check::Ready(Map::new()),
        Some(RejectKind::Unknown) => Check::Rejected(format!("Tool tool{i} not found")),
        Some(RejectKind::Invalid) => Check::Rejected("Validation failed".into()),
    };
    let facts = |(i, shape): (usize, &CallShape)| CallFacts {
        tool: i as u64,
        args: shape.args,
        sequential: shape.sequential,
        poll: shape.poll,
        rejected: shape.rejected,
    };
    let checks = shapes.iter().enumerate().map(check).collect();
    let facts = shapes.iter().enumerate().map(facts).collect();
    Arc::new(ReplyBody::new(message, checks, facts))
}

/// A tool's good result.
#[must_use]
pub fn done(op: OpId, text: &str) -> Input {
    Input::Call(op, batch::Input::Done(Arc::new(ToolOutput::text(text)), 1))
}

/// The stream begins.
#[must_use]
pub fn start(op: OpId) -> Input {
    Input::Reply(op, reply::Input::Delta(Delta::Start))
}

/// A piece of text.
#[must_use]
pub fn delta(op: OpId, text: &str) -> Input {
    Input::Reply(op, reply::Input::Delta(Delta::Text(text.to_owned())))
}

/// The whole reply.
#[must_use]
pub fn finish(op: OpId, body: Arc<ReplyBody>) -> Input {
    Input::Reply(op, reply::Input::Done(body))
}
