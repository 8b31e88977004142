//! Admission: what is accepted, and where it goes (semantics 6.1, 7.3).

use super::{Act, Admission, Arrival, Asked, Event, Facts, Live, Out, Outcome, Pending, Phase};
use super::{Doing, Drain, Key, Refusal, Sessions, Stage, Waits, Why, dropped};
use crate::base::limits::RUNS_MAX;
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::ends::PolicyRule;
use crate::engine::reset::stale;
use crate::engine::turns::{self, Arriving, Mode, Place, QueueSettings, Turn, place};
use crate::engine::{Cause, Termination, recovery};
use std::sync::Arc;

impl Live {
    /// What is known of it so far.
    pub(super) fn outcome(&self) -> Outcome {
        Outcome {
            accepted_at: self.accepted_at,
            started_at: self.started_at,
            ended_at: None,
            termination: None,
            into: match &self.stage {
                Stage::Joined(host) => Some(host.clone()),
                Stage::Accepting { .. }
                | Stage::Waiting
                | Stage::Steering
                | Stage::Leaving(_)
                | Stage::Running
                | Stage::Dropping => None,
            },
        }
    }
}

impl Sessions {
    /// A message comes in. It is accepted when the store says so.
    pub(super) fn arrive(&mut self, arrival: Arrival, now: Millis, out: &mut Out) {
        let run = arrival.run.clone();
        if let Some(live) = self.runs.get(&run) {
            let same = live.request == arrival.request && live.key == arrival.key;
            out.tell.push(if same {
                Event::Known(run, live.outcome())
            } else {
                Event::Conflict(run)
            });
            return self.not_resumed(&arrival.key, arrival.wait.attempt, now, out);
        }
        if let Some(why) = self.refuses(&arrival) {
            return self.refuse(run, &arrival.key, arrival.wait.attempt, why, now, out);
        }
        self.ask_store(arrival, now, out);
    }

    fn refuses(&self, arrival: &Arrival) -> Option<Why> {
        if self.drain != Drain::No {
            return Some(Why::Draining);
        }
        if self.runs.len() >= RUNS_MAX {
            return Some(Why::Busy);
        }
        // Somebody else has taken the conversation over meanwhile.
        if arrival.wait.attempt > 0 && !self.recovery.holds(&arrival.key) {
            return Some(Why::NotNeeded);
        }
        let busy = self.sessions.get(&arrival.key);
        let busy = busy.is_some_and(|s| s.phase != Phase::Idle || !s.turns.is_empty());
        (arrival.wait.arriving == Arriving::Heartbeat && busy).then_some(Why::NotNeeded)
    }

    fn refuse(&mut self, run: RunId, key: &Key, attempt: u8, why: Why, now: Millis, out: &mut Out) {
        out.tell.push(Event::Refused(run, why));
        self.not_resumed(key, attempt, now, out);
    }

    /// An attempt at resuming that was not accepted as a new run was one all the same: the others
    /// wait for its outcome.
    fn not_resumed(&mut self, key: &Key, attempt: u8, now: Millis, out: &mut Out) {
        if attempt > 0 {
            self.recover(recovery::Input::Refused(Arc::clone(key)), now, out);
        }
    }

    pub(super) fn ask_store(&mut self, arrival: Arrival, now: Millis, out: &mut Out) {
        let msg = MsgId(self.next_msg);
        self.next_msg += 1;
        let doing = Doing { interaction: arrival.interaction, boundary: arrival.boundary };
        let op = self.op(Asked::Admit(arrival.run.clone(), doing));
        let live = Live {
            key: Arc::clone(&arrival.key),
            request: Arc::clone(&arrival.request),
            msg,
            accepted_at: now,
            started_at: None,
            waits: arrival.wait.clone(),
            stage: Stage::Accepting { stopped: None },
        };
        self.runs.insert(arrival.run.clone(), live);
        out.act.push(Act::Admit(op, msg, Box::new(arrival)));
    }

    /// The store's answer.
    pub(super) fn admitted(
        &mut self,
        op: OpId,
        admission: Admission,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Asked::Admit(run, doing) = self.answered(op)? else { return Err(Refusal::Stale(op)) };
        let Some(live) = self.runs.get(&run) else { return Err(Refusal::UnknownRun) };
        let (key, attempt) = (Arc::clone(&live.key), live.waits.attempt);
        let event = match admission {
            Admission::New(facts) => {
                let at = live.accepted_at;
                out.tell.push(Event::Accepted { run: run.clone(), key: Arc::clone(&key), at });
                self.take_in(&run, &facts, doing, now, out);
                return Ok(());
            }
            Admission::Known(outcome) => Event::Known(run.clone(), outcome),
            Admission::Conflict => Event::Conflict(run.clone()),
            Admission::Failed(why) => Event::Refused(run.clone(), Why::Store(why)),
        };
        self.runs.remove(&run);
        out.tell.push(event);
        self.ask_for_waiters(&run, out);
        self.not_resumed(&key, attempt, now, out);
        self.overflow_known(&key, now, out);
        Ok(())
    }

    /// An accepted message takes its place.
    fn take_in(&mut self, run: &RunId, facts: &Facts, doing: Doing, now: Millis, out: &mut Out) {
        let Some(live) = self.runs.get_mut(run) else { return };
        let stopped = match live.stage {
            Stage::Accepting { stopped } => stopped,
            Stage::Waiting
            | Stage::Steering
            | Stage::Leaving(_)
            | Stage::Running
            | Stage::Joined(_)
            | Stage::Dropping => None,
        };
        live.stage = Stage::Waiting;
        let (key, waits, msg) = (Arc::clone(&live.key), live.waits.clone(), live.msg);
        let resumes = waits.attempt > 0;
        let policy = self.options.reset;
        let session = self.session(&key, now);
        session.settings = facts.queue;
        session.channel = waits.channel;
        let rests = session.phase == Phase::Idle && session.turns.is_empty();
        let asks = doing.interaction && !resumes && stopped.is_none();
        if asks && rests && !facts.empty && session.pending.is_empty() {
            // Freshness is judged by what was before this message (B206).
            let (began, last) = (facts.started_at, facts.interaction_at);
            let reason = stale(&policy, began, last, doing.boundary, now);
            session.pending.extend(reason.map(Pending::Reset));
        }
        let held = self.recovery.holds(&key);
        if doing.interaction && !resumes && held {
            self.recover(recovery::Input::Settled(Arc::clone(&key)), now, out);
        }
        match stopped {
            Some(cause) => {
                self.drop_runs(&key, vec![(run.clone(), msg)], dropped(cause), now, out);
            }
            None if resumes && !held => {
                let how = Termination::PolicyStop { rule: PolicyRule::NotNeeded };
                self.drop_runs(&key, vec![(run.clone(), msg)], how, now, out);
            }
            None => self.place(&key, run, msg, &waits, now, out),
        }
        self.overflow_taken(&key, run, now, out);
        self.schedule(&key, now, out);
    }

    fn place(
        &mut self,
        key: &Key,
        run: &RunId,
        msg: MsgId,
        waits: &Waits,
        now: Millis,
        out: &mut Out,
    ) {
        let global = self.options.queue;
        let Some(session) = self.sessions.get_mut(key) else { return };
        let settings =
            turns::resolve(&waits.inline, &session.settings, &waits.channel, None, &global);
        if session.holds_back(run) {
            // The summary of what was dropped goes before everything that waits.
            let turn = turn(run, msg, waits, now, false);
            return session.turns.put_back(vec![turn], None);
        }
        let active = matches!(session.phase, Phase::Running { stopping: false, .. });
        let waiting = session.phase != Phase::Idle || !session.turns.is_empty();
        match place(waits.arriving, settings.mode, active, waiting) {
            at @ (Place::Run | Place::Wait) => {
                session.at_once |= at == Place::Run;
                self.line_up(key, turn(run, msg, waits, now, false), &settings, now, out);
            }
            Place::Steer => {
                let taken =
                    self.line_up(key, turn(run, msg, waits, now, true), &settings, now, out);
                if let (true, Some(live)) = (taken, self.runs.get_mut(run)) {
                    live.stage = Stage::Steering;
                    out.act.push(Act::Steer { key: Arc::clone(key), run: run.clone(), msg });
                }
            }
            Place::Interrupt => {
                let taken =
                    self.line_up(key, turn(run, msg, waits, now, false), &settings, now, out);
                if taken {
                    self.interrupt(key, now, out);
                }
            }
            Place::Drop => {
                let rule = PolicyRule::NotNeeded;
                let how = Termination::PolicyStop { rule };
                self.drop_runs(key, vec![(run.clone(), msg)], how, now, out);
            }
        }
    }

    /// A turn joins its session's queue; what has to leave for it is dropped.
    fn line_up(
        &mut self,
        key: &Key,
        turn: Turn,
        settings: &QueueSettings,
        now: Millis,
        out: &mut Out,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(key) else { return false };
        let (run, msg) = (turn.run.clone(), turn.msg);
        let how = Termination::PolicyStop { rule: PolicyRule::QueueCap };
        match session.turns.arrive(turn, settings, now) {
            turns::Arrival::Taken | turns::Arrival::Doubled => true,
            turns::Arrival::TakenDropping(runs) => {
                self.drop_runs(key, runs, how, now, out);
                true
            }
            turns::Arrival::Rejected => {
                self.drop_runs(key, vec![(run, msg)], how, now, out);
                false
            }
        }
    }

    /// Only the newest is to run: what is older is given up, what runs is stopped (semantics 6.1).
    fn interrupt(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let older = session.turns.interrupt();
        let runs: Vec<(RunId, MsgId)> = older.into_iter().map(|t| (t.run, t.msg)).collect();
        let how = Termination::PolicyStop { rule: PolicyRule::QueueInterrupt };
        self.take_back(key, &how, out);
        if !runs.is_empty() {
            self.drop_runs(key, runs, how, now, out);
        }
        self.stop_active(key, Cause::User, out);
    }

    /// What `/steer` asks for: the running turn, whatever the queue's mode.
    #[must_use]
    pub fn steering() -> turns::Partial {
        turns::Partial { mode: Some(Mode::Steer), ..turns::Partial::default() }
    }

    /// Whether the active run took a steering message.
    pub(super) fn steered(
        &mut self,
        run: &RunId,
        taken: bool,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let live = self.runs.get_mut(run).ok_or(Refusal::UnknownRun)?;
        let (key, msg) = (Arc::clone(&live.key), live.msg);
        match (&live.stage, taken) {
            (Stage::Steering, false) => {
                live.stage = Stage::Waiting;
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.turns.mark(run, false);
                }
                self.schedule(&key, now, out);
            }
            (Stage::Leaving(how), false) => {
                let how = how.clone();
                if let Some(session) = self.sessions.get_mut(&key) {
                    session.turns.remove(run);
                }
                self.drop_runs(&key, vec![(run.clone(), msg)], how, now, out);
            }
            // Taken is not committed: that is told as `Joined`.
            (
                Stage::Steering
                | Stage::Leaving(_)
                | Stage::Accepting { .. }
                | Stage::Waiting
                | Stage::Running
                | Stage::Joined(_)
                | Stage::Dropping,
                _,
            ) => {}
        }
        Ok(())
    }

    /// The active run committed a steering message; it was too late to take it back, if somebody
    /// meant to.
    pub(super) fn joined(&mut self, run: &RunId) -> Result<(), Refusal> {
        let live = self.runs.get_mut(run).ok_or(Refusal::UnknownRun)?;
        if !matches!(live.stage, Stage::Steering | Stage::Leaving(_)) {
            return Ok(());
        }
        let Some(session) = self.sessions.get_mut(&live.key) else { return Ok(()) };
        let Phase::Running { run: host, joined, .. } = &mut session.phase else { return Ok(()) };
        joined.push(run.clone());
        live.stage = Stage::Joined(host.clone());
        session.turns.remove(run);
        Ok(())
    }

    /// Restored runs wait again as they did (decisions 2).
    pub(super) fn restore(&mut self, restored: super::Restored, now: Millis) {
        let super::Restored { key, run, request, msg, accepted_at, waits } = restored;
        let turn = turn(&run, msg, &waits, accepted_at, false);
        let session = self.session(&key, now);
        session.channel = waits.channel;
        session.restored.push(turn);
        let stage = Stage::Waiting;
        let live = Live { key, request, msg, accepted_at, started_at: None, waits, stage };
        self.runs.insert(run, live);
    }
}

pub(super) fn turn(run: &RunId, msg: MsgId, waits: &Waits, at: Millis, in_flight: bool) -> Turn {
    let (group, line) = (waits.group.clone(), Arc::clone(&waits.line));
    Turn { run: run.clone(), msg, group, at, line, in_flight }
}
