//! Whose turn it is: lanes, the start of a run, its end (semantics 6.2).

use super::io::Start;
use super::{Act, Arrival, Asked, Drain, Event, Key, Options, Out, Pending, Phase, Refusal};
use super::{Sessions, Stage, Waits};
use crate::base::limits::{LANE_RETRY_MS, WATCH_TICK_MS};
use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::lanes::{Lane, Priority, Ticket};
use crate::engine::turns::{Arriving, Next, Overflow, QueueSettings, Turn, summary_line};
use crate::engine::{Fault, Termination};
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
        let settings = self.turn_settings(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if matches!(session.phase, Phase::Lined(_)) {
            return self.realign(key, now, out);
        }
        if session.phase != Phase::Idle || self.drain != Drain::No {
            return;
        }
        if !session.pending.is_empty() {
            return self.change_next(key, now, out);
        }
        match session.turns.due(&settings) {
            None => self.rest(key, now),
            Some(at) if now < at => self.wake(key, at),
            Some(_) => self.ask_lanes(key, now),
        }
    }

    /// The quiet window is for messages that come while a run is active: one that found the session
    /// at rest does not wait for others.
    fn turn_settings(&self, key: &Key) -> QueueSettings {
        let settings = self.queue_settings(key);
        let at_once = self.sessions.get(key).is_some_and(|session| session.at_once);
        if at_once { QueueSettings { debounce_ms: 0, ..settings } } else { settings }
    }

    /// Nothing waits: the session is let go after a while.
    fn rest(&mut self, key: &Key, now: Millis) {
        let keep = self.options.keep_ms;
        if let Some(session) = self.sessions.get_mut(key) {
            session.rest_since = now;
            self.wake(key, now.plus(keep));
        }
    }

    /// The lanes that the first of those who wait is for.
    pub(super) fn line_of_first(&self, key: &Key) -> (Lane, Option<Arc<str>>, Priority) {
        let first = self.sessions.get(key).and_then(|session| session.turns.iter().next());
        match first.and_then(|turn| self.runs.get(&turn.run)) {
            Some(live) => (live.waits.lane.clone(), live.waits.owner.clone(), live.waits.priority),
            None => (Lane::Main, None, Priority::Normal),
        }
    }

    fn fits(&self, key: &Key) -> bool {
        let (lane, owner, _) = self.line_of_first(key);
        self.sessions.get(key).is_some_and(|session| session.lined_for == (lane, owner))
    }

    /// Who waits first now may be for other lanes than the one that asked for them.
    pub(super) fn realign(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get(key) else { return };
        let Phase::Lined(ticket) = session.phase else { return };
        if session.turns.is_empty() || !self.fits(key) {
            self.give_back(key, ticket);
            self.schedule(key, now, out);
        }
    }

    fn ask_lanes(&mut self, key: &Key, now: Millis) {
        let (lane, owner, priority) = self.line_of_first(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        session.lined_for = (lane.clone(), owner.clone());
        if self.lanes.ask(ticket, key, lane, owner, priority, now).is_err() {
            // The lanes are full to their bound: a little later there may be room.
            return self.wake(key, now.plus(LANE_RETRY_MS));
        }
        self.tickets.insert(ticket, Arc::clone(key));
        session.phase = Phase::Lined(ticket);
        session.lined_at = now;
        if self.options.lane_wait_ms > 0 {
            self.wake(key, now.plus(self.options.lane_wait_ms));
        }
    }

    fn granted(&mut self, ticket: Ticket, now: Millis, out: &mut Out) {
        let Some(key) = self.tickets.get(&ticket).map(Arc::clone) else { return };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.open {
            return self.begin(&key, ticket, now, out);
        }
        session.phase = Phase::Opening(ticket);
        self.ask_open(&key, out);
    }

    /// Loads a session, once at a time.
    pub(super) fn ask_open(&mut self, key: &Key, out: &mut Out) {
        if self.sessions.get(key).is_none_or(|session| session.opening.is_some()) {
            return;
        }
        let op = self.op(Asked::Open(Arc::clone(key)));
        if let Some(session) = self.sessions.get_mut(key) {
            session.opening = Some(op);
        }
        out.act.push(Act::Open(op, Arc::clone(key)));
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
        (session.open, session.torn, session.opening) = (true, false, None);
        match session.phase {
            Phase::Opening(ticket) => self.begin(&key, ticket, now, out),
            Phase::Mending => {
                session.phase = Phase::Idle;
                self.schedule(&key, now, out);
            }
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
        let session = self.session(&key, now);
        session.opening = None;
        match session.phase {
            Phase::Opening(ticket) => {
                let first = session.turns.iter().next().map(|t| (t.run.clone(), t.msg));
                match &first {
                    Some((run, _)) => drop(session.turns.remove(run)),
                    // A summary alone would open it again and again.
                    None => drop(session.turns.clear()),
                }
                self.give_back(&key, ticket);
                if let Some(first) = first {
                    let how = Termination::Failed { fault: Fault::Store };
                    self.drop_runs(&key, vec![first], how, now, out);
                }
            }
            Phase::Mending => {
                session.phase = Phase::Idle;
                let why: Arc<str> = "the session cannot be opened".into();
                match (!session.pending.is_empty()).then(|| session.pending.remove(0)) {
                    Some(Pending::Reset(_)) => {
                        out.tell.push(Event::Reset(Arc::clone(&key), Err(why)))
                    }
                    Some(Pending::Delete) => {
                        out.tell.push(Event::Deleted(Arc::clone(&key), Err(why)))
                    }
                    None => {}
                }
            }
            Phase::Idle | Phase::Lined(_) | Phase::Changing(_) | Phase::Running { .. } => {}
        }
        self.schedule(&key, now, out);
        Ok(())
    }

    /// It has its lanes and is in memory: the next turn begins.
    pub(super) fn begin(&mut self, key: &Key, ticket: Ticket, now: Millis, out: &mut Out) {
        let settings = self.turn_settings(key);
        let Some(session) = self.sessions.get_mut(key) else { return };
        if self.drain != Drain::No {
            return self.give_back(key, ticket);
        }
        let fits = !session.turns.is_empty() && session.pending.is_empty();
        if !fits || !self.fits(key) {
            // A change comes first and needs no lanes; or they are not those of who is first now.
            self.give_back(key, ticket);
            return self.schedule(key, now, out);
        }
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.turns.next(&settings, now) {
            Next::Nothing | Next::Quiet(_) => {
                self.give_back(key, ticket);
                self.schedule(key, now, out);
            }
            Next::Run { turns, overflow: Some(overflow), .. } => {
                session.turns.put_back(turns, None);
                self.tell_overflow(key, ticket, &overflow, now, out);
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
        overflow: &Overflow,
        now: Millis,
        out: &mut Out,
    ) {
        let text = overflow.prompt();
        // A run is dropped once: the last one's name is a new one.
        let last = overflow.lines.last().map_or("", |(run, _)| run.as_str());
        let run = RunId::new(format!("overflow-{last}"));
        if self.runs.contains_key(&run) {
            // Somebody chose just this name: what has it is not touched.
            return self.begin(key, ticket, now, out);
        }
        let waits = Waits::plain(overflow.group.clone(), summary_line(&text));
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

    pub(super) fn start(
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
            compacts: live.waits.arriving == Arriving::Compaction,
        };
        if let Some(session) = self.sessions.get_mut(key) {
            session.generation += 1;
            session.at_once = false;
            session.phase = Phase::Running { ticket, run: lead.clone(), joined, stopping: false };
        }
        self.running += 1;
        self.look_at.get_or_insert(now.plus(WATCH_TICK_MS));
        out.act.push(Act::Start(Box::new(start)));
    }

    /// Other options (O20). What runs goes on as it began; what waits for its lanes waits by the
    /// new limit.
    pub(super) fn configure(&mut self, options: Options, now: Millis, out: &mut Out) {
        self.lanes.set_caps(options.caps);
        self.watch.set_thresholds(options.watch);
        self.options = options;
        let keys: Vec<Key> = self.sessions.keys().map(Arc::clone).collect();
        for key in keys {
            self.reload(&key, out);
            let lined = self.sessions.get(&key);
            let lined = lined.filter(|session| matches!(session.phase, Phase::Lined(_)));
            let limit = self.options.lane_wait_ms;
            if let Some(at) = lined.map(|session| session.lined_at).filter(|_| limit > 0) {
                self.wake(&key, at.plus(limit).max(now));
            }
        }
    }

    /// What is in memory of a session is not what it will go on with (O19).
    pub(super) fn reload(&mut self, key: &Key, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        match session.phase {
            Phase::Running { .. } | Phase::Opening(_) | Phase::Changing(_) | Phase::Mending => {
                session.stale = true;
            }
            Phase::Idle | Phase::Lined(_) => {
                session.stale = session.opening.is_some();
                if std::mem::take(&mut session.open) {
                    out.act.push(Act::Close(Arc::clone(key)));
                }
            }
        }
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
        let key = Arc::clone(&live.key);
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
        self.ground(&key, now, out);
        if let Some(session) = self.sessions.get_mut(&key)
            && (std::mem::take(&mut session.stale) || reload)
        {
            (session.open, session.torn) = (false, session.torn || reload);
            out.act.push(Act::Close(Arc::clone(&key)));
        }
        self.over(run, termination.clone(), None, now, out);
        for other in joined {
            self.over(&other, termination.clone(), Some(run.clone()), now, out);
        }
        self.schedule(&key, now, out);
        Ok(())
    }

    /// Messages that the run was given and did not commit wait again, at their place; those that
    /// were to be taken back from it are given up.
    fn ground(&mut self, key: &Key, now: Millis, out: &mut Out) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let flying: Vec<Turn> = session.turns.iter().filter(|t| t.in_flight).cloned().collect();
        session.turns.ground();
        let mut gone: Vec<(RunId, MsgId, Termination)> = vec![];
        for turn in flying {
            let Some(live) = self.runs.get_mut(&turn.run) else { continue };
            match std::mem::replace(&mut live.stage, Stage::Waiting) {
                Stage::Leaving(how) => {
                    session.turns.remove(&turn.run);
                    gone.push((turn.run, turn.msg, how));
                }
                Stage::Accepting { .. }
                | Stage::Waiting
                | Stage::Steering
                | Stage::Running
                | Stage::Joined(_)
                | Stage::Dropping => {}
            }
        }
        for (run, msg, how) in gone {
            self.drop_runs(key, vec![(run, msg)], how, now, out);
        }
    }
}
