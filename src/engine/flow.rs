//! What happens between two waits: the rows R1 to R22 of semantics 2.3, each a function named
//! after its row. A function that has to wait leaves a phase behind; the others go on to the next
//! row.

use super::batch::{self, Admission, Batch, Yield};
use super::close::{self, Attempts};
use super::io::{
    Act, Assembled, Cause, Entry, Event, Fault, Hook, Out, PolicyRule, Record, Termination,
    Verdict, Who,
};
use super::reply::{self, Ending};
use super::run::{Core, Last, Mark, Phase, Run, abort_cut};
use super::steer::QueueKind;
use crate::base::limits::CALLS_MAX;
use crate::base::{FailKind, Failure, Millis};
use crate::transcript::{Assistant, ReplyBody, StopReason, Substance};
use std::sync::Arc;

/// The loop, running.
pub(super) struct Flow {
    pub core: Core,
    pub phase: Phase,
    pub out: Out,
    pub now: Millis,
}

/// Where the loop stopped to wait, and what it gathered on its way.
pub(super) type Halt = (Run, Out);

/// What R11 has to decide about.
enum Turn {
    Fine,
    Fatal,
    Stopped,
    Failed(FailKind),
    TerminateRun,
}

impl Flow {
    pub fn halt(self, phase: Phase) -> Halt {
        (Run { core: self.core, phase }, self.out)
    }

    pub fn tell(&mut self, event: Event) {
        self.out.tell.push(event);
    }

    fn turn_start(&mut self) {
        self.core.turn += 1;
        self.core.turn_open = true;
        self.tell(Event::TurnStart);
    }

    /// R1: the loop begins, with or without prompts.
    pub fn enter(mut self, facts: Assembled) -> Halt {
        let mut poll_first = true;
        if self.core.entry == Entry::Continue {
            let queued = match facts {
                Assembled::EmptyHistory => return self.not_continuable(),
                Assembled::AfterUser => false,
                Assembled::AfterAssistant | Assembled::AfterResult => {
                    self.core.queues.poll(QueueKind::Steer)
                        || self.core.queues.poll(QueueKind::FollowUp)
                }
            };
            if facts == Assembled::AfterAssistant && !queued {
                return self.not_continuable();
            }
            poll_first = !queued;
        }
        self.core.started = true;
        self.tell(Event::AgentStart);
        self.turn_start();
        if self.core.entry == Entry::Prompt && !self.commit_pending() {
            // R2x: every prompt was taken back.
            return self.end(Termination::Completed { cut: false });
        }
        if poll_first {
            // R3.
            self.core.queues.poll(QueueKind::Steer);
        }
        self.outer_top()
    }

    fn not_continuable(self) -> Halt {
        self.displaced(Termination::Failed { fault: Fault::NotContinuable })
    }

    /// Commits what was drained, dropping what its senders took back; `true` if anything was.
    fn commit_pending(&mut self) -> bool {
        let mut any = false;
        for drained in self.core.queues.take_pending() {
            if drained.cancelled {
                self.out.append.push(Record::Dropped(drained.id));
            } else {
                self.out.append.push(Record::Committed(drained.id));
                self.out.message(Who::User(drained.id));
                any = true;
            }
        }
        any
    }

    /// R4.
    pub fn outer_top(mut self) -> Halt {
        self.core.has_more = true;
        self.inner_top()
    }

    /// R5.
    fn inner_top(mut self) -> Halt {
        if !self.core.has_more && !self.core.queues.has_pending() {
            return self.follow_up();
        }
        if self.core.aborted() {
            return self.abort_close();
        }
        if self.core.first {
            self.core.first = false;
        } else {
            self.turn_start();
        }
        // R6.
        let committed = self.commit_pending();
        if !committed && !self.core.has_more {
            return self.inner_top();
        }
        self.pre_model()
    }

    /// R7.
    fn pre_model(self) -> Halt {
        if self.core.aborted() {
            return self.abort_close();
        }
        if self.core.setup.hooks.prepare_continuation {
            return self.ask(Hook::PrepareContinuation);
        }
        self.transform()
    }

    fn transform(self) -> Halt {
        if self.core.setup.hooks.transform_context {
            return self.ask(Hook::TransformContext);
        }
        self.weigh()
    }

    pub fn ask(mut self, hook: Hook) -> Halt {
        let op = self.core.op();
        self.out.act.push(Act::AskHook(op, hook));
        self.halt(Phase::Hooking(op, hook))
    }

    /// A hook has answered: the loop goes on where it asked.
    pub fn hooked(self, hook: Hook, verdict: Verdict) -> Halt {
        match (hook, verdict) {
            (Hook::PrepareContinuation, Verdict::Go | Verdict::Stop) => self.transform(),
            (Hook::TransformContext, Verdict::Go | Verdict::Stop) => self.weigh(),
            (Hook::WeighRequest, verdict) => self.weighed(false, verdict == Verdict::Stop),
            (Hook::WeighHistory, verdict) => self.weighed(true, verdict == Verdict::Stop),
            (Hook::PrepareNextTurn, verdict) => self.stop_judgement(verdict == Verdict::Stop),
            (Hook::ShouldStop, Verdict::Stop) => {
                self.end(Termination::PolicyStop { rule: PolicyRule::ShouldStopAfterTurn })
            }
            (Hook::ShouldStop, Verdict::Go) => self.poll_then_go_on(),
        }
    }

    /// R8.
    pub fn call_model(mut self) -> Halt {
        self.core.attempts = Attempts { made: 0, since: self.now };
        self.send(false)
    }

    /// The wait before a retry is over.
    pub fn call_again(self) -> Halt {
        let shown = matches!(self.phase, Phase::Waiting { shown: true, .. });
        self.send(shown)
    }

    pub fn send(mut self, shown: bool) -> Halt {
        let op = self.core.op();
        self.out.act.push(Act::CallModel(op));
        let reply = reply::State::open(op, shown, &self.core.setup.limits, self.now);
        self.halt(Phase::Calling(reply))
    }

    /// The reply has moved; if it is over, the turn goes on.
    pub fn replied(mut self, step: reply::Step) -> Halt {
        self.out.tell.extend(step.tell);
        self.out.act.extend(step.act);
        let shown = step.state.shown();
        match step.ending {
            None => self.halt(Phase::Calling(step.state)),
            Some(Ending::Done(body)) => self.reply_done(body, shown),
            Some(Ending::Failed(failure, partial)) => self.reply_failed(failure, partial, shown),
            Some(Ending::Aborted(partial)) => self.reply_stopped(partial, shown),
        }
    }

    /// A whole message. One that holds nothing a person or the loop can use is a failure.
    fn reply_done(mut self, body: Arc<ReplyBody>, shown: bool) -> Halt {
        let stop = body.stop();
        let calls = stop == StopReason::ToolUse && !body.facts.is_empty();
        let useless = match body.substance() {
            Substance::Full => None,
            Substance::Empty | Substance::ReasoningOnly if stop == StopReason::Length => {
                Some((FailKind::Length, "the output limit was reached before any text"))
            }
            Substance::Empty => Some((FailKind::Empty, "the model's answer was empty")),
            Substance::ReasoningOnly => {
                Some((FailKind::Empty, "the model's answer was reasoning only"))
            }
        };
        let too_many = (body.facts.len() > CALLS_MAX)
            .then_some((FailKind::TooLarge, "the model asked for too many tools at once"));
        if let Some((kind, text)) = useless.or(too_many) {
            let partial = Some(Arc::new(body.message.clone()));
            return self.reply_failed(Failure::new(kind, text), partial, shown);
        }
        // What was too large was not, in the end: the next time counts anew (B068).
        self.core.overflows = 0;
        self.out.append.push(Record::Reply(Arc::clone(&body)));
        self.end_message(Who::Reply(Some(Arc::clone(&body))), shown);
        self.core.last = if stop == StopReason::Length { Last::Cut } else { Last::Whole };
        if !calls {
            return self.turn_close(None, Turn::Fine);
        }
        let admission = if self.core.setup.loops_off {
            Admission::Go(vec![None; body.facts.len()])
        } else {
            batch::admit(&mut self.core.loops, &body.facts, self.core.critical_seen)
        };
        self.core.critical_seen |= matches!(admission, Admission::Block(_));
        let (hooks, sequential) = (self.core.setup.hooks, self.core.setup.sequential);
        let marks = self.core.marks();
        let (batch, yielded) =
            Batch::open(self.core.ops, &body.facts, admission, hooks, sequential, marks);
        self.worked(batch, yielded)
    }

    pub fn end_message(&mut self, who: Who, shown: bool) {
        if !shown {
            self.tell(Event::MessageStart(who.clone()));
        }
        self.tell(Event::MessageEnd(who));
    }

    /// A failed call is made again while its class, its number and its window allow it.
    fn reply_failed(
        mut self,
        failure: Failure,
        partial: Option<Arc<Assistant>>,
        shown: bool,
    ) -> Halt {
        if self.overflowed(&failure) {
            return self.overflow(shown);
        }
        let core = &mut self.core;
        if core.attempts.made == 0 {
            // The window opens with the first failure: a long silence must not use it up.
            core.attempts.since = self.now;
        }
        let retry = close::retry(core.attempts, &failure, core.budget_due, &mut core.rng, self.now);
        if let Some(retry) = retry {
            core.attempts.made = retry.attempt;
            if shown {
                self.tell(Event::MessageReset);
            }
            let due = self.now.plus(retry.delay_ms);
            self.tell(Event::Retry {
                attempt: retry.attempt,
                max: retry.max,
                delay_ms: retry.delay_ms,
                failure,
            });
            return self.halt(Phase::Waiting { due, shown });
        }
        self.failed_with(failure, partial, shown)
    }

    /// The request is not made again.
    pub fn failed_for_good(self, failure: Failure, shown: bool) -> Halt {
        self.failed_with(failure, None, shown)
    }

    fn failed_with(
        mut self,
        failure: Failure,
        partial: Option<Arc<Assistant>>,
        shown: bool,
    ) -> Halt {
        let kind = failure.kind;
        self.out.append.push(Record::Failed { failure: failure.clone(), partial });
        self.end_message(Who::Failed(failure), shown);
        self.core.last = Last::Failed(kind);
        self.turn_close(None, Turn::Failed(kind))
    }

    pub fn cause(&self) -> Cause {
        match self.core.mark {
            Mark::Stopping { cause, .. } => cause,
            Mark::Clear => Cause::User,
        }
    }

    pub fn reply_stopped(mut self, partial: Option<Arc<Assistant>>, shown: bool) -> Halt {
        let cause = self.cause();
        self.out.append.push(Record::Stopped { cause, partial });
        self.end_message(Who::Stopped(cause), shown);
        self.turn_close(None, Turn::Stopped)
    }

    /// The batch has moved; if it is over, the turn closes.
    pub fn worked(mut self, batch: Batch, yielded: Yield) -> Halt {
        self.out.append.extend(yielded.append);
        self.out.tell.extend(yielded.tell);
        self.out.act.extend(yielded.act);
        if yielded.polled {
            self.core.queues.poll(QueueKind::Steer);
        }
        if !batch.returned() {
            return self.halt(Phase::Working(batch));
        }
        self.core.ops = batch.ops;
        for call in batch.calls.iter().filter(|c| c.entered || c.facts.rejected.is_some()) {
            self.core.loops.note(&call.facts, call.result);
        }
        let turn = if batch.fatal {
            Turn::Fatal
        } else if batch.terminate_run {
            Turn::TerminateRun
        } else {
            Turn::Fine
        };
        self.turn_close(Some(&batch), turn)
    }

    /// R10.
    fn turn_close(mut self, batch: Option<&Batch>, turn: Turn) -> Halt {
        self.core.has_more = batch.is_some_and(|b| !b.terminate());
        let results = batch.map_or(0, |b| u16::try_from(b.calls.len()).unwrap_or(u16::MAX));
        self.tell(Event::TurnEnd { results });
        self.core.turn_open = false;
        self.post_turn(turn)
    }

    /// R11.
    fn post_turn(mut self, turn: Turn) -> Halt {
        match turn {
            Turn::Fatal => self.failure_close(),
            Turn::Stopped => {
                self.note();
                let cause = self.cause();
                self.end(Termination::Aborted { cause })
            }
            Turn::Fine | Turn::Failed(_) | Turn::TerminateRun if self.core.aborted() => {
                self.abort_close()
            }
            Turn::TerminateRun => {
                self.turn_start();
                self.out.append.push(Record::LoopEnd);
                self.out.message(Who::LoopEnd);
                self.tell(Event::TurnEnd { results: 0 });
                self.core.turn_open = false;
                self.end(Termination::ToolLoop)
            }
            Turn::Failed(fail) => self.end(Termination::ProviderError { fail }),
            Turn::Fine => self.prepare_next(),
        }
    }

    /// R12.
    fn prepare_next(self) -> Halt {
        if self.core.setup.hooks.prepare_next_turn {
            return self.ask(Hook::PrepareNextTurn);
        }
        self.stop_judgement(false)
    }

    /// R13.
    fn stop_judgement(self, stop: bool) -> Halt {
        if self.core.queues.has_pending() {
            return self.next_turn(stop);
        }
        if !stop && self.core.setup.hooks.should_stop {
            return self.ask(Hook::ShouldStop);
        }
        if stop { self.poll_then_stop() } else { self.poll_then_go_on() }
    }

    fn poll_then_stop(mut self) -> Halt {
        self.core.queues.poll(QueueKind::Steer);
        self.next_turn(true)
    }

    fn poll_then_go_on(mut self) -> Halt {
        self.core.queues.poll(QueueKind::Steer);
        self.next_turn(false)
    }

    /// R14.
    fn next_turn(mut self, stop: bool) -> Halt {
        if self.core.aborted() {
            return self.abort_close();
        }
        if stop {
            self.commit_pending();
            return self.end(Termination::PolicyStop { rule: PolicyRule::PrepareNextTurn });
        }
        self.inner_top()
    }

    /// R15.
    fn follow_up(mut self) -> Halt {
        let queues = &mut self.core.queues;
        if queues.poll(QueueKind::FollowUp) || queues.poll(QueueKind::Steer) {
            return self.outer_top();
        }
        self.completed()
    }

    fn note(&mut self) {
        if self.core.aborted() && self.cause() != Cause::Handoff {
            self.out.append.push(Record::Note);
            self.out.message(Who::Note);
        }
    }

    /// R20.
    pub fn abort_close(mut self) -> Halt {
        if !self.core.turn_open {
            self.turn_start();
        }
        let cause = self.cause();
        self.out.append.push(Record::Stopped { cause, partial: None });
        self.out.message(Who::Stopped(cause));
        self.tell(Event::TurnEnd { results: 0 });
        self.core.turn_open = false;
        self.note();
        self.end(Termination::Aborted { cause })
    }

    /// R21, for a launch that the lifecycle refused (trace 25).
    fn failure_close(mut self) -> Halt {
        if self.core.aborted() {
            return self.abort_close();
        }
        let text = "Tool execution was blocked before launch.";
        let failure = Failure::new(FailKind::Unknown, text);
        self.out.append.push(Record::Failed { failure: failure.clone(), partial: None });
        self.out.message(Who::Failed(failure));
        self.tell(Event::TurnEnd { results: 0 });
        self.note();
        self.end(Termination::Failed { fault: Fault::Launch })
    }

    /// R22: what was drained and not committed goes back to the front of its queue.
    pub fn end(mut self, termination: Termination) -> Halt {
        for id in self.core.queues.restore() {
            self.out.append.push(Record::Dropped(id));
        }
        self.out.append.push(Record::Ended(termination.clone()));
        if self.core.started {
            self.tell(Event::AgentEnd);
        }
        self.tell(Event::Ended(termination.clone()));
        self.halt(Phase::Ended(termination))
    }

    /// The run is being stopped, wherever it is.
    pub fn abort(self) -> Halt {
        match self.phase {
            // Their answer is at hand, and the accepted words must reach the transcript.
            Phase::Claiming(_) | Phase::Assembling(_) => {
                let phase = self.phase.clone();
                self.halt(phase)
            }
            Phase::Hooking(_, Hook::WeighHistory) => self.stopped_outside_a_turn(),
            Phase::Hooking(..) => self.abort_close(),
            Phase::Compacting(of) => self.stop_compacting(of),
            Phase::Calling(reply) => {
                let step = abort_cut(reply, &self.core.setup, self.now);
                self.replied(step)
            }
            Phase::Waiting { shown, .. } => self.reply_stopped(None, shown),
            Phase::Working(mut batch) => {
                let mut yielded = Yield::default();
                batch.abort(&mut yielded);
                let flow = Flow { phase: Phase::Idle, ..self };
                flow.worked(batch, yielded)
            }
            Phase::Idle | Phase::Ended(_) => {
                let phase = self.phase.clone();
                self.halt(phase)
            }
        }
    }

    /// The settle limit has passed: what has not ended is given up.
    pub fn give_up(mut self) -> Halt {
        if let Mark::Stopping { cause, .. } = &mut self.core.mark {
            *cause = Cause::Timeout;
        }
        let cause = self.cause();
        match self.phase {
            Phase::Calling(reply) => self.reply_stopped(None, reply.shown()),
            Phase::Working(mut batch) => {
                let mut yielded = Yield::default();
                batch.give_up(&mut yielded);
                let flow = Flow { phase: Phase::Idle, ..self };
                flow.worked(batch, yielded)
            }
            Phase::Idle
            | Phase::Claiming(_)
            | Phase::Assembling(_)
            | Phase::Hooking(..)
            | Phase::Compacting(_)
            | Phase::Waiting { .. }
            | Phase::Ended(_) => self.displaced(Termination::Aborted { cause }),
        }
    }
}
