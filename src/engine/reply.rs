//! One model response: stream events in, a finished message out (semantics 2.4).
//!
//! ```text
//! Opening --Start--> Streaming --Done|Failed--> (outcome)
//!    |                   |
//!    +--- cut (abort, first event, idle, progress) ---> Cancelling --terminal|settle--> (outcome)
//! ```

use super::io::{Act, Event, Limits, Reason, Who, sooner};
use crate::base::{FailKind, Failure, Millis, OpId};
use crate::transcript::{Assistant, Delta, ReplyBody};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Why the machine itself ended a stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Cut {
    /// The run was aborted.
    Abort,
    /// No first byte in time.
    FirstEvent,
    /// No byte in time.
    Idle,
    /// No content in time.
    Progress,
}

/// A response on its way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// The request is out, nothing has come back.
    Opening(Opening),
    /// Bytes arrive.
    Streaming(Streaming),
    /// The stream is being cut.
    Cancelling(Cancelling),
}

/// The request is out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Opening {
    /// The call.
    pub op: OpId,
    /// A former attempt has begun the message already.
    pub shown: bool,
    /// When the first byte is overdue.
    pub due: Option<Millis>,
    /// When the first content is overdue: signs of life do not put that off.
    pub progress_due: Option<Millis>,
}

/// Bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Streaming {
    /// The call.
    pub op: OpId,
    /// Observers know of the message.
    pub shown: bool,
    /// When the next byte is overdue.
    pub idle_due: Option<Millis>,
    /// When the next content is overdue.
    pub progress_due: Option<Millis>,
}

/// The stream is being cut.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cancelling {
    /// The call.
    pub op: OpId,
    /// Observers know of the message.
    pub shown: bool,
    /// Why.
    pub cut: Cut,
    /// When its end is no longer waited for.
    pub due: Millis,
}

/// What the model's worker reports.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Input {
    /// Bytes without content: a comment, a header.
    Alive,
    /// A piece of the message.
    Delta(Delta),
    /// The whole message.
    Done(Arc<ReplyBody>),
    /// The call failed; what had arrived is kept.
    Failed(Failure, Option<Arc<Assistant>>),
}

/// How a response ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Ending {
    /// With a message.
    Done(Arc<ReplyBody>),
    /// With a failure.
    Failed(Failure, Option<Arc<Assistant>>),
    /// By an abort.
    Aborted(Option<Arc<Assistant>>),
}

/// The outcome of one input.
#[derive(Debug)]
pub struct Step {
    /// The response afterwards; unchanged by a refusal.
    pub state: State,
    /// What observers are told.
    pub tell: Option<Event>,
    /// What the world does.
    pub act: Option<Act>,
    /// Set when the response is over; `shown` of the state tells what observers know.
    pub ending: Option<Ending>,
    /// The input was no answer to this state.
    pub ignored: bool,
}

impl Step {
    fn stay(state: State) -> Step {
        Step { state, tell: None, act: None, ending: None, ignored: false }
    }
    fn end(state: State, ending: Ending) -> Step {
        Step { ending: Some(ending), ..Step::stay(state) }
    }
}

fn after(now: Millis, ms: u64) -> Option<Millis> {
    (ms > 0).then(|| now.plus(ms))
}

impl State {
    /// A request has just been sent.
    #[must_use]
    pub fn open(op: OpId, shown: bool, limits: &Limits, now: Millis) -> State {
        let due = after(now, limits.first_event_ms);
        let progress_due = after(now, limits.progress_ms);
        State::Opening(Opening { op, shown, due, progress_due })
    }

    /// The call that answers.
    #[must_use]
    pub fn op(&self) -> OpId {
        match self {
            State::Opening(s) => s.op,
            State::Streaming(s) => s.op,
            State::Cancelling(s) => s.op,
        }
    }

    /// Whether observers know of the message.
    #[must_use]
    pub fn shown(&self) -> bool {
        match self {
            State::Opening(s) => s.shown,
            State::Streaming(s) => s.shown,
            State::Cancelling(s) => s.shown,
        }
    }

    /// When it wants to be woken, and why.
    #[must_use]
    pub fn due(&self) -> Option<(Millis, Reason)> {
        match self {
            State::Opening(s) => sooner(
                s.due.map(|at| (at, Reason::FirstEvent)),
                s.progress_due.map(|at| (at, Reason::Progress)),
            ),
            State::Streaming(s) => sooner(
                s.idle_due.map(|at| (at, Reason::Idle)),
                s.progress_due.map(|at| (at, Reason::Progress)),
            ),
            State::Cancelling(s) => Some((s.due, Reason::Settle)),
        }
    }

    /// One report of the worker.
    pub fn step(self, input: Input, limits: &Limits, now: Millis) -> Step {
        match self {
            State::Opening(s) => s.step(input, limits, now),
            State::Streaming(s) => s.step(input, limits, now),
            State::Cancelling(s) => s.step(input, limits),
        }
    }

    /// Ends the stream from our side, for a reason.
    pub fn cut(self, cut: Cut, limits: &Limits, now: Millis) -> Step {
        if let State::Cancelling(mut s) = self {
            // An abort outranks a time-out that is being carried out.
            if cut == Cut::Abort {
                s.cut = Cut::Abort;
            }
            return Step::stay(State::Cancelling(s));
        }
        let due = now.plus(limits.settle_ms);
        let state = Cancelling { op: self.op(), shown: self.shown(), cut, due };
        let act = Some(Act::CancelModel(self.op()));
        Step { act, ..Step::stay(State::Cancelling(state)) }
    }

    /// Time has passed.
    pub fn tick(self, limits: &Limits, now: Millis) -> Step {
        let Some((_, reason)) = self.due().filter(|(at, _)| *at <= now) else {
            return Step { ignored: true, ..Step::stay(self) };
        };
        match (self, reason) {
            (State::Cancelling(s), _) => s.give_up(limits),
            (State::Opening(_) | State::Streaming(_), Reason::Progress) => {
                self.cut(Cut::Progress, limits, now)
            }
            (State::Opening(_), _) => self.cut(Cut::FirstEvent, limits, now),
            (State::Streaming(_), _) => self.cut(Cut::Idle, limits, now),
        }
    }
}

impl Opening {
    fn step(self, input: Input, limits: &Limits, now: Millis) -> Step {
        let here = State::Opening(self);
        let streaming = |shown| {
            State::Streaming(Streaming {
                op: self.op,
                shown,
                idle_due: after(now, limits.idle_ms),
                progress_due: after(now, limits.progress_ms),
            })
        };
        match input {
            // A keep-alive before the message proves the line, not the model: only the clock of the
            // line is served.
            Input::Alive => {
                let due = self.due.map(|_| now.plus(limits.first_event_ms));
                Step::stay(State::Opening(Opening { due, ..self }))
            }
            Input::Delta(Delta::Start) if self.shown => Step::stay(streaming(true)),
            Input::Delta(Delta::Start) => {
                let tell = Some(Event::MessageStart(Who::Reply(None)));
                Step { tell, ..Step::stay(streaming(true)) }
            }
            // M0: content before the start is ignored.
            Input::Delta(
                Delta::Text(_)
                | Delta::Thinking(_)
                | Delta::CallStart { .. }
                | Delta::CallArgs { .. },
            ) => Step { ignored: true, ..Step::stay(here) },
            Input::Done(body) => Step::end(here, Ending::Done(body)),
            Input::Failed(failure, partial) => Step::end(here, Ending::Failed(failure, partial)),
        }
    }
}

impl Streaming {
    fn step(mut self, input: Input, limits: &Limits, now: Millis) -> Step {
        match input {
            Input::Alive => {
                self.idle_due = after(now, limits.idle_ms);
                Step::stay(State::Streaming(self))
            }
            // A second start would announce the same message twice.
            Input::Delta(Delta::Start) => {
                Step { ignored: true, ..Step::stay(State::Streaming(self)) }
            }
            Input::Delta(
                delta @ (Delta::Text(_)
                | Delta::Thinking(_)
                | Delta::CallStart { .. }
                | Delta::CallArgs { .. }),
            ) => {
                self.idle_due = after(now, limits.idle_ms);
                self.progress_due = after(now, limits.progress_ms);
                let tell = Some(Event::MessageUpdate(delta));
                Step { tell, ..Step::stay(State::Streaming(self)) }
            }
            Input::Done(body) => Step::end(State::Streaming(self), Ending::Done(body)),
            Input::Failed(failure, partial) => {
                Step::end(State::Streaming(self), Ending::Failed(failure, partial))
            }
        }
    }
}

impl Cancelling {
    /// Content that was under way is no longer wanted; only the end is.
    fn step(self, input: Input, limits: &Limits) -> Step {
        let here = State::Cancelling(self);
        match (input, self.cut) {
            (Input::Alive | Input::Delta(_), _) => Step { ignored: true, ..Step::stay(here) },
            // The whole message arrived before the cut could: an abort still wins, a time-out not.
            (Input::Done(body), Cut::Abort) => {
                Step::end(here, Ending::Aborted(Some(Arc::new(body.message.clone()))))
            }
            (Input::Done(body), _) => Step::end(here, Ending::Done(body)),
            (Input::Failed(_, partial), Cut::Abort) => Step::end(here, Ending::Aborted(partial)),
            (Input::Failed(_, partial), cut) => {
                Step::end(here, Ending::Failed(cut.failure(limits), partial))
            }
        }
    }

    fn give_up(self, limits: &Limits) -> Step {
        let ending = match self.cut {
            Cut::Abort => Ending::Aborted(None),
            cut => Ending::Failed(cut.failure(limits), None),
        };
        Step::end(State::Cancelling(self), ending)
    }
}

impl Cut {
    /// The failure that a watchdog's cut stands for.
    #[must_use]
    pub fn failure(self, limits: &Limits) -> Failure {
        let (kind, ms) = match self {
            Cut::FirstEvent => (FailKind::FirstEvent, limits.first_event_ms),
            Cut::Idle | Cut::Abort => (FailKind::Idle, limits.idle_ms),
            Cut::Progress => (FailKind::Idle, limits.progress_ms),
        };
        let text = format!("LLM idle timeout ({}s): no response from model", ms.div_ceil(1_000));
        Failure::new(kind, text)
    }
}
