//! What friends say: models, tools, hooks, fitted to what they are asked.

use super::bodies;
use super::moves::Reply;
use super::store::MemStore;
use super::world::Live;
use crate::base::{FailKind, Failure, OpId};
use crate::engine::{Assembled, Hook, Input, Outcome, Trigger, batch, reply};
use crate::transcript::{Block, Delta, Message, ReplyBody, StopReason, ToolOutput};
use std::sync::Arc;

/// Somebody who owes an answer.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Friend {
    Claim,
    Assemble,
    Hook(Hook),
    Compact(Trigger),
    Model { begun: bool, cut: bool },
    Batch,
    Gate(u16),
    Tool { call: u16, entered: bool, cut: bool },
    After(Outcome),
}

pub(super) fn gate(good: bool) -> batch::Gate {
    if good { batch::Gate::Allow } else { batch::Gate::Block(None) }
}

pub(super) fn history(store: &MemStore) -> Assembled {
    match store.messages.last() {
        None => Assembled::EmptyHistory,
        Some(Message::Assistant(_)) => Assembled::AfterAssistant,
        Some(Message::ToolResult(_)) => Assembled::AfterResult,
        Some(_) => Assembled::AfterUser,
    }
}

pub(super) fn model_says(
    stock: &mut bodies::Stock,
    says: &Reply,
    begun: bool,
    cut: bool,
) -> reply::Input {
    let failed = |kind| reply::Input::Failed(Failure::new(kind, "sim"), None);
    if cut && !matches!(says, Reply::Good) {
        return failed(FailKind::Network);
    }
    match says {
        _ if !begun && !matches!(says, Reply::Fail(_) | Reply::Odd(_)) => {
            reply::Input::Delta(Delta::Start)
        }
        Reply::Good | Reply::Terminate => reply::Input::Done(Arc::clone(&stock.fine)),
        Reply::Piece => reply::Input::Delta(Delta::Text("x".into())),
        Reply::Bad => reply::Input::Alive,
        Reply::Special => failed(FailKind::ServerError),
        Reply::Fail(kind) => failed(*kind),
        Reply::Odd(0) => reply::Input::Done(Arc::clone(&stock.fine)),
        Reply::Odd(n) => {
            let stop = if n % 2 == 0 { StopReason::Length } else { StopReason::Stop };
            let text = if n % 3 == 0 { "cut" } else { "" };
            let message = bodies::assistant(vec![Block::text(text)], stop);
            let body = ReplyBody::new(message, vec![], vec![]);
            reply::Input::Done(Arc::new(body))
        }
        Reply::Calls { count, sequential, rejected, args } => {
            reply::Input::Done(stock.calls(*count, *sequential, *rejected, *args))
        }
    }
}

pub(super) fn tool_says(stock: &bodies::Stock, says: &Reply, entered: bool) -> batch::Input {
    let done = |output: &Arc<ToolOutput>| batch::Input::Done(Arc::clone(output), 1);
    match says {
        Reply::Special if entered => batch::Input::Process { pgid: 7, started: 7 },
        Reply::Special => batch::Input::LaunchRefused,
        Reply::Bad => done(&stock.bad),
        Reply::Piece if entered => batch::Input::Update(Arc::clone(&stock.good)),
        _ if !entered => batch::Input::Entered,
        Reply::Terminate => done(&stock.last),
        Reply::Good | Reply::Piece | Reply::Calls { .. } | Reply::Fail(_) | Reply::Odd(_) => {
            done(&stock.good)
        }
    }
}

/// Keeps the friends' own state: a model that has begun, a tool that was entered.
pub(super) fn note_friend(live: &mut Live, op: OpId, input: &Input) {
    for (open, friend) in &mut live.open {
        if *open != op {
            continue;
        }
        match (friend, input) {
            (Friend::Model { begun, .. }, Input::Reply(_, reply::Input::Delta(_))) => *begun = true,
            (Friend::Tool { entered, call, .. }, Input::Call(_, batch::Input::Entered)) => {
                *entered = true;
                live.begun.insert(*call);
            }
            _ => {}
        }
    }
}
