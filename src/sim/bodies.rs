//! Small messages for simulated friends.

use crate::base::{EntryId, Millis, OpId};
use crate::engine::{Input, batch, reply};
use crate::transcript::{
    Assistant, Block, CallFacts, Check, Compaction, Content, Delta, RejectKind, ReplyBody,
    StopReason, ToolOutput, User,
};
use serde_json::Map;
use std::cell::RefCell;
use std::collections::BTreeMap;
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

/// What friends say again and again: made once, since a world makes millions of them.
#[derive(Debug)]
pub struct Stock {
    /// A person's message.
    pub user: Arc<User>,
    /// A good reply.
    pub fine: Arc<ReplyBody>,
    /// A good result.
    pub good: Arc<ToolOutput>,
    /// A failed result.
    pub bad: Arc<ToolOutput>,
    /// A result that asks for the end of the run.
    pub last: Arc<ToolOutput>,
    calls: BTreeMap<[u8; 4], Arc<ReplyBody>>,
}

thread_local! {
    static STOCK: RefCell<Stock> = RefCell::new(Stock::default());
}

/// A person's message that says nothing in particular.
#[must_use]
pub fn stock_user() -> Arc<User> {
    stock(|stock| Arc::clone(&stock.user))
}

/// Lends this thread's stock.
pub fn stock<R>(take: impl FnOnce(&mut Stock) -> R) -> R {
    STOCK.with_borrow_mut(take)
}

impl Default for Stock {
    fn default() -> Stock {
        Stock {
            user: user("hi"),
            fine: text("fine"),
            good: Arc::new(ToolOutput::text("ok")),
            bad: Arc::new(ToolOutput::error("no")),
            last: Arc::new(ToolOutput { terminate: true, ..ToolOutput::text("last") }),
            calls: BTreeMap::new(),
        }
    }
}

impl Stock {
    /// A reply with so many calls; which must run alone and which cannot run, bit by bit.
    pub fn calls(&mut self, count: u8, sequential: u8, rejected: u8, args: u8) -> Arc<ReplyBody> {
        let count = count.clamp(1, 4);
        let bit = |bits: u8, i: u8| bits & (1 << (i % 8)) != 0;
        let shape = |i: u8| {
            let kind = if i.is_multiple_of(2) { RejectKind::Unknown } else { RejectKind::Invalid };
            CallShape {
                args: u64::from(args),
                sequential: bit(sequential, i),
                poll: false,
                rejected: bit(rejected, i).then_some(kind),
            }
        };
        let make = || calls(&(0..count).map(shape).collect::<Vec<_>>());
        let key = [count, sequential, rejected, args];
        Arc::clone(self.calls.entry(key).or_insert_with(make))
    }
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

/// What stands for a compacted part.
#[must_use]
pub fn compaction() -> Arc<Compaction> {
    Arc::new(Compaction {
        summary: "S".into(),
        first_kept_entry_id: EntryId::new("e1"),
        tokens_before: 100,
        tokens_after: 10,
        removed: 3,
        summarized: true,
        details: None,
    })
}
