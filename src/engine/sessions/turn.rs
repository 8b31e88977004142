//! Whose turn it is: lanes, the start of a run, its end (semantics 6.2).

use super::io::Start;
use super::{Act, Arrival, Asked, Drain, Key, Out, Phase, Refusal, Sessions, Stage, Waits};
use crate::base::limits::{LANE_RETRY_MS, WATCH_TICK_MS};
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::lanes::{Lane, Priority, Ticket};
use crate::engine::turns::{Arriving, Next, Overflow, Partial, Turn, summary_line};
use crate::engine::{Cause, Fault, Termination, recovery};
use crate::transcript::{Content, User};
use std::sync::Arc;

impl Sessions {
    /// What can begin now begins.
    pub(super) fn go_on(&mut self, now: Millis, out: &mut Out) {
        loop {
            let granted = self.lanes.grants();
            if granted.is_empty() {
                return;
            }
            for ticket in granted {
                self.granted(ticket, now, out);
            }
        }
    }

    /// A session that is at rest lines up for its next turn, or is looked at again later.
    pub(super) fn schedule(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let settings = self.queue_settings(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if session.phase != Phase::Idle || self.drain != Drain::No {
            return;
        }
        if !session.pending.is_empty() {
            return self.change_next(key, None, out);
        }
        match session.turns.due(&settings) {
            None => self.rest(key, now),
            Some(at) if now < at => {
                self.alarms.insert((at, Arc::clone(key)));
            }
            Some(_) => self.ask_lanes(key, now),
        }
    }

    /// Nothing waits: the session is let go after a while.
    fn rest(&mut self, key: &Key, now: Millis) {
        let keep = self.options.keep_ms;
        if let Some(session) = self.sessions.get_mut(key) {
            session.rest_since = now;
            self.alarms.insert((now.plus(keep), Arc::clone(key)));
        }
    }

    fn ask_lanes(&mut self, key: &Key, now: Millis) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let head = session.turns.iter().next().and_then(|turn| self.runs.get(&turn.run));
        let (lane, owner, priority) = match head {
            Some(live) => (live.waits.lane.clone(), live.waits.owner.clone(), live.waits.priority),
            None => (Lane::Main, None, Priority::Normal),
        };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        if self.lanes.ask(ticket, key, lane, owner, priority, now).is_err() {
            // The lanes are full to their bound: a little later there may be room.
            self.alarms.insert((now.plus(LANE_RETRY_MS), Arc::clone(key)));
            return;
        }
        self.tickets.insert(ticket, Arc::clone(key));
        session.phase = Phase::Lined(ticket);
        session.lined_at = now;
        if self.options.lane_wait_ms > 0 {
            self.alarms.insert((now.plus(self.options.lane_wait_ms), Arc::clone(key)));
        }
    }

    fn granted(&mut self, ticket: Ticket, now: Millis, out: &mut Out) {
        let Some(key) = self.tickets.get(&ticket).map(Arc::clone) else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.open {
            return self.begin(&key, ticket, now, out);
        }
        session.phase = Phase::Opening(ticket);
        let op = self.op(Asked::Open(Arc::clone(&key)));
        out.act.push(Act::Open(op, key));
    }

    /// The lanes are given back.
    pub(super) fn give_back(&mut self, key: &Key, ticket: Ticket) {
        self.lanes.release(ticket);
        self.lanes.cancel(ticket);
        self.tickets.remove(&ticket);
        if let Some(session) = self.sessions.get_mut(key) {
            session.phase = Phase::Idle;
        }
    }

    pub(super) fn opened(&mut self, op: OpId, now: Millis, out: &mut Out) -> Result<(), Refusal> {
        let Asked::Open(key) = self.answered(op)? else { return Err(Refusal::Stale(op)) };
        let session = self.session(&key, now);
        session.open = true;
        match session.phase {
            Phase::Opening(ticket) => self.begin(&key, ticket, now, out),
            Phase::Idle => self.schedule(&key, now, out),
            Phase::Lined(_) | Phase::Changing(_) | Phase::Running { .. } => {}
        }
        Ok(())
    }

    /// A session that cannot be read fails whoever waits first; nobody else waits for it.
    pub(super) fn open_failed(
        &mut self,
        op: OpId,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let Asked::Open(key) = self.answered(op)? else { return Err(Refusal::Stale(op)) };
        let Some(session) = self.sessions.get_mut(&key) else { return Ok(()) };
        let Phase::Opening(ticket) = session.phase else { return Ok(()) };
        let first = session.turns.iter().next().map(|t| (t.run.clone(), t.msg));
        if let Some((run, msg)) = first {
            session.turns.remove(&run);
            let how = Termination::Failed { fault: Fault::Store };
            self.drop_runs(&key, vec![(run, msg)], how, out);
        }
        self.give_back(&key, ticket);
        self.schedule(&key, now, out);
        Ok(())
    }

    /// It has its lanes and is in memory: the next turn begins.
    pub(super) fn begin(&mut self, key: &Key, ticket: Ticket, now: Millis, out: &mut Out) {
        let settings = self.queue_settings(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if self.drain != Drain::No {
            return self.give_back(key, ticket);
        }
        if !session.pending.is_empty() {
            return self.change_next(key, Some(ticket), out);
        }
        match session.turns.next(&settings, now) {
            Next::Nothing | Next::Quiet(_) => {
                self.give_back(key, ticket);
                self.schedule(key, now, out);
            }
            Next::Run { lead, turns, overflow: Some(overflow) } => {
                session.turns.put_back(turns, None);
                self.tell_overflow(key, ticket, &lead, &overflow, now, out);
            }
            Next::Run { lead, turns, overflow: None } => {
                self.start(key, ticket, &lead, &turns, now, out);
            }
        }
    }

    /// What was dropped becomes a message of its own, before what waits (semantics 6.1). It is
    /// accepted like any other, so that it survives a restart.
    fn tell_overflow(
        &mut self,
        key: &Key,
        ticket: Ticket,
        lead: &RunId,
        overflow: &Overflow,
        now: Millis,
        out: &mut Out,
    ) {
        let text = overflow.prompt();
        let run = RunId::new(format!("overflow-{lead}"));
        let waits = Waits {
            arriving: Arriving::Message,
            group: overflow.group.clone(),
            line: summary_line(&text),
            inline: Partial::default(),
            channel: Partial::default(),
            lane: Lane::Main,
            owner: None,
            priority: Priority::Normal,
            budget_ms: None,
            attempt: 0,
            narrowed: false,
        };
        let body = User { content: Content::Text(text), timestamp: now, idempotency_key: None };
        if let Some(session) = self.sessions.get_mut(key) {
            session.phase = Phase::Changing(Some(ticket));
            session.overflow = Some(run.clone());
        }
        let arrival = Arrival {
            key: Arc::clone(key),
            run,
            request: "overflow".into(),
            body: Arc::new(body),
            wait: waits,
            interaction: false,
            boundary: None,
        };
        self.ask_store(arrival, now, out);
    }

    /// The summary of what was dropped is stored and waits first: it is what begins now.
    pub(super) fn overflow_taken(&mut self, key: &Key, run: &RunId, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let taken = session.overflow.take_if(|of| of == run).is_some();
        if taken && let Phase::Changing(Some(ticket)) = session.phase {
            self.begin(key, ticket, now, out);
        }
    }

    /// The summary is on its way no longer, whatever became of it: what waits goes on.
    pub(super) fn overflow_known(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let gone = session.overflow.take_if(|run| !self.runs.contains_key(run)).is_some();
        if gone && let Phase::Changing(Some(ticket)) = session.phase {
            self.begin(key, ticket, now, out);
        }
    }

    fn start(
        &mut self,
        key: &Key,
        ticket: Ticket,
        lead: &RunId,
        turns: &[Turn],
        now: Millis,
        out: &mut Out,
    ) {
        let msgs: Vec<MsgId> = turns.iter().map(|t| t.msg).collect();
        let others = turns.iter().map(|t| t.run.clone()).filter(|run| run != lead);
        let joined: Vec<RunId> = others.collect();
        for run in &joined {
            if let Some(live) = self.runs.get_mut(run) {
                live.stage = Stage::Joined(lead.clone());
                live.started_at = Some(now);
            }
        }
        let Some(live) = self.runs.get_mut(lead) else { return self.give_back(key, ticket) };
        live.stage = Stage::Running;
        live.started_at = Some(now);
        let start = Start {
            key: Arc::clone(key),
            run: lead.clone(),
            msgs,
            joined: joined.clone(),
            accepted_at: live.accepted_at,
            granted_at: now,
            narrowed: live.waits.narrowed,
            budget_ms: live.waits.budget_ms,
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.generation += 1;
            session.phase = Phase::Running { ticket, run: lead.clone(), joined, stopping: false };
        }
        self.running += 1;
        self.look_at.get_or_insert(now.plus(WATCH_TICK_MS));
        out.act.push(Act::Start(Box::new(start)));
    }

    /// A run has ended, and its end is stored.
    pub(super) fn ended(
        &mut self,
        run: &RunId,
        termination: &Termination,
        reload: bool,
        now: Millis,
        out: &mut Out,
    ) -> Result<(), Refusal> {
        let live = self.live(run)?;
        let (key, attempt) = (Arc::clone(&live.key), live.waits.attempt);
        let session = self.sessions.get_mut(&key).ok_or(Refusal::UnknownRun)?;
        let Phase::Running { ticket, run: active, joined, .. } = &mut session.phase else {
            return Err(Refusal::UnknownRun);
        };
        if active != run {
            return Err(Refusal::UnknownRun);
        }
        let (ticket, joined) = (*ticket, std::mem::take(joined));
        self.running -= 1;
        self.watch.forget(&key);
        self.give_back(&key, ticket);
        self.ground(&key, out);
        if reload && let Some(session) = self.sessions.get_mut(&key) {
            session.open = false;
            out.act.push(Act::Close(Arc::clone(&key)));
        }
        self.over(run, termination.clone(), None, now, out);
        for other in joined {
            self.over(&other, termination.clone(), Some(run.clone()), now, out);
        }
        if attempt > 0 {
            let completed = matches!(termination, Termination::Completed { .. });
            let session = Arc::clone(&key);
            self.recover(recovery::Input::Ended { session, completed }, now, out);
        }
        self.schedule(&key, now, out);
        self.drained(out);
        Ok(())
    }

    /// Messages that the run was given and did not commit wait again, at their place; those that
    /// came before a reset are given up with it.
    fn ground(&mut self, key: &Key, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let flying: Vec<Turn> = session.turns.iter().filter(|t| t.in_flight).cloned().collect();
        session.turns.ground();
        let gone = !session.pending.is_empty();
        for turn in &flying {
            if gone {
                session.turns.remove(&turn.run);
            }
            if let Some(live) = self.runs.get_mut(&turn.run) {
                live.stage = Stage::Waiting;
            }
        }
        if gone && !flying.is_empty() {
            let runs = flying.into_iter().map(|t| (t.run, t.msg)).collect();
            self.drop_runs(key, runs, super::dropped(Cause::User), out);
        }
    }
}
