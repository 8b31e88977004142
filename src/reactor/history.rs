//! What a session's model has been sent so far, and is sent again with every request.

use crate::context::estimate::Gauge;
use crate::engine::Assembled;
use crate::model::catalog::{Backend, Resolved};
use crate::model::scripted::ends_a_plan;
use crate::model::wire::request::{Compat, Encoder};
use crate::transcript::Message;
use std::sync::Arc;

pub(super) struct History {
    pub encoder: Encoder,
    /// For a model that lives in this process: the messages since the end of its last plan.
    pub messages: Option<Arc<Vec<Message>>>,
    pub last: Assembled,
    /// How large it is.
    pub gauge: Gauge,
}

impl History {
    pub fn new(model: &Resolved) -> History {
        let compat = match &model.backend {
            Backend::OpenAi { compat, .. } => compat.encoding,
            Backend::Scripted => Compat::default(),
        };
        let messages = matches!(model.backend, Backend::Scripted).then(Arc::default);
        let encoder = Encoder::new(compat);
        History { encoder, messages, last: Assembled::EmptyHistory, gauge: Gauge::default() }
    }

    pub fn push(&mut self, message: Message) {
        self.add(message, false);
    }

    /// A message of before a compaction: what its provider counted then does not hold any more.
    pub fn push_stale(&mut self, message: Message) {
        self.add(message, true);
    }

    fn add(&mut self, message: Message, stale: bool) {
        self.gauge.push(&message, stale);
        self.last = match &message {
            Message::Assistant(_) => Assembled::AfterAssistant,
            Message::ToolResult(_) => Assembled::AfterResult,
            Message::User(_)
            | Message::Custom(_)
            | Message::BashExecution(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => Assembled::AfterUser,
        };
        match &mut self.messages {
            // The script looks back no further than the end of its last plan, so what is lent to
            // its worker stays short, and a copy of it too.
            Some(messages) => {
                let messages = Arc::make_mut(messages);
                if ends_a_plan(&message) {
                    messages.clear();
                }
                messages.push(message);
            }
            None => self.encoder.push(&message),
        }
    }
}
