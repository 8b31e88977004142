//! Gathers from a run's events what decides about its answer.

use super::{Facts, FailedTool, Payload, Piece, Target, shape};
use crate::base::limits::{SEGMENTS_MAX, WARNING_DETAIL_CHARS_MAX};
use crate::engine::ends::PolicyRule;
use crate::engine::{Cause, Event, Outcome, Termination, Trigger, Who};
use crate::transcript::message::join_text;
use crate::transcript::{OpenCall, StopReason, ToolOutput};

#[derive(Clone, PartialEq, Debug)]
struct Failure {
    name: String,
    started: bool,
    detail: String,
}

/// What a run has said and done so far.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Collected {
    texts: Vec<String>,
    stop: Option<StopReason>,
    error: Option<String>,
    failed: Option<Failure>,
    mutating: bool,
    /// It was only to compact the history: what became of that is told in other words.
    compacts: bool,
}

impl Collected {
    /// One event of the run, with the calls of the current batch. `safe` tells of a tool's name
    /// whether it changes nothing.
    pub fn told(&mut self, event: &Event, calls: &[OpenCall], safe: impl Fn(&str) -> bool) {
        match event {
            Event::MessageEnd(who) => self.message(who),
            Event::ToolEnd { call, outcome, started } => {
                if let Some(call) = calls.get(usize::from(*call)) {
                    self.tool(&call.name, outcome, *started, safe(&call.name));
                }
            }
            Event::CompactionStart(Trigger::Manual) => self.compacts = true,
            Event::Accepted
            | Event::AgentStart
            | Event::TurnStart
            | Event::MessageStart(_)
            | Event::MessageUpdate(_)
            | Event::MessageReset
            | Event::ToolStart(_)
            | Event::ToolUpdate(..)
            | Event::TurnEnd { .. }
            | Event::Retry { .. }
            | Event::CompactionStart(Trigger::Threshold | Trigger::After | Trigger::Overflow)
            | Event::CompactionEnd(_)
            | Event::AbortSlow
            | Event::AgentEnd
            | Event::Ended(_) => {}
        }
    }

    fn message(&mut self, who: &Who) {
        match who {
            Who::Reply(Some(body)) => {
                self.stop = Some(body.message.stop_reason);
                let text = join_text(&body.message.content);
                if !text.trim().is_empty() {
                    if self.texts.len() >= SEGMENTS_MAX {
                        self.texts.remove(0);
                    }
                    self.texts.push(text);
                }
            }
            Who::Failed(failure) => {
                self.stop = Some(StopReason::Error);
                self.error = Some(failure.message.clone());
            }
            Who::Stopped(_) => self.stop = Some(StopReason::Aborted),
            Who::LoopEnd => {
                self.stop = Some(StopReason::Error);
                self.error = Some(crate::transcript::outcome::LOOP_END.to_owned());
            }
            Who::User(_) | Who::Reply(None) | Who::Result(_) | Who::Note => {}
        }
    }

    fn tool(&mut self, name: &str, outcome: &Outcome, started: bool, safe: bool) {
        self.mutating |= started && !safe;
        if outcome.is_error() {
            let detail = match outcome {
                Outcome::Tool(output) => first_line(output),
                _ => String::new(),
            };
            self.failed = Some(Failure { name: name.to_owned(), started, detail });
        } else if self.failed.as_ref().is_some_and(|failed| failed.name == name) {
            // The run has made good for it.
            self.failed = None;
        }
    }

    /// What is to be delivered when the run has ended like this.
    #[must_use]
    pub fn payloads(&self, end: &Termination) -> Vec<Payload> {
        let answered = self.stop == Some(StopReason::Stop) || self.stop == Some(StopReason::Length);
        let (last, before) = match self.texts.split_last() {
            Some((last, before)) if answered => (last.as_str(), before),
            Some(_) | None => ("", self.texts.as_slice()),
        };
        let segments: Vec<Piece<'_>> =
            before.iter().map(|text| Piece { text, media: &[] }).collect();
        let stop = match end {
            Termination::Completed { .. } | Termination::PolicyStop { .. } => {
                self.stop.unwrap_or(StopReason::Stop)
            }
            Termination::Aborted { .. } | Termination::Superseded { .. } => StopReason::Aborted,
            Termination::ProviderError { .. }
            | Termination::ToolLoop
            | Termination::Failed { .. } => StopReason::Error,
        };
        let failed = self.failed.as_ref().map(|failed| FailedTool {
            name: &failed.name,
            started: failed.started,
            timeout_s: None,
            detail: Some(&failed.detail),
        });
        let mut facts = Facts::new(Target::default(), last, stop);
        facts.segments = &segments;
        facts.error = self.error.as_deref();
        facts.failed_tool = failed;
        facts.mutating = self.mutating;
        facts.stalled = *end == Termination::Aborted { cause: Cause::Timeout };
        // A run that was put aside by a rule of the queue has nothing to say.
        let queue = matches!(
            end,
            Termination::PolicyStop {
                rule: PolicyRule::QueueCap | PolicyRule::QueueInterrupt | PolicyRule::NotNeeded
            }
        );
        if queue || self.compacts { vec![] } else { shape(&facts) }
    }
}

fn first_line(output: &ToolOutput) -> String {
    let text = join_text(&output.content);
    text.lines().next().unwrap_or_default().chars().take(WARNING_DETAIL_CHARS_MAX).collect()
}
