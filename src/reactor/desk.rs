//! The acts of the sessions: what they ask of the store and of the seats, and whose answer is
//! whose.

use super::clock::entropy;
use super::links::{Observer, Owner, Report};
use super::seat::{Address, Launch, Said, Seat};
use super::settle::{Whole, settle};
use super::{Reactor, ReactorError, stored};
use crate::base::{MsgId, OpId, RunId, SessionId, id};
use crate::engine::sessions::{Act, Admission, Arrival, Change, Event, Input, Key, Start};
use crate::engine::turns::collect_prompt;
use crate::engine::{Input as RunInput, Termination};
use crate::store::{
    Admit, Admitted, Answer, Change as Managed, Denied, Fact, Job, Loaded, Manage, Part, StoreError,
};
use crate::tools::replayable;
use crate::transcript::{Content, Door, User};
use std::sync::Arc;

impl Reactor {
    /// One input for the sessions, and everything that follows from it.
    pub(super) fn decide(
        &mut self,
        input: Input,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.decisions.push_back(input);
        // What follows may be decided on the way: one after the other.
        if std::mem::replace(&mut self.deciding, true) {
            return Ok(());
        }
        let mut done = Ok(());
        while let (Some(input), true) = (self.decisions.pop_front(), done.is_ok()) {
            let now = self.links.clock.now();
            let step = self.sessions.step(input, now);
            for event in &step.tell {
                if let Event::Ended { run, .. } | Event::Refused(run, _) | Event::Conflict(run) =
                    event
                    // What is refused may bear the name of a run that goes on.
                    && !self.sessions.is_live(run)
                {
                    self.bodies.remove(run);
                }
                observer.of_sessions(event);
            }
            for act in step.act {
                done = done.and_then(|()| self.perform(act, observer));
            }
        }
        self.deciding = false;
        done
    }

    fn perform(&mut self, act: Act, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        match act {
            Act::Admit(op, msg, arrival) => self.admit(op, msg, *arrival),
            Act::Open(op, key) => self.open_seat(op, key, observer),
            Act::Close(key) => {
                if let Some(seat) = self.by_key.remove(&key) {
                    self.seats.remove(&seat);
                }
                Ok(())
            }
            Act::Change(op, key, change) => self.change(op, &key, change),
            Act::Find(op, run) => {
                let ticket = self.links.ticket(Owner::Act(op));
                self.links.send(Job::Find(ticket, run.to_string()))
            }
            Act::Start(start) => self.start(*start, observer),
            Act::Steer { key, run, msg } => self.steer(&key, run, msg, observer),
            Act::Unsteer { key, run, msg } => {
                if !self.is_open(&key) {
                    return self.decide(Input::Steered { run, taken: true }, observer);
                }
                self.feed_seat(&key, RunInput::Cancel(msg), observer)
            }
            Act::Abort(key, cause) => self.feed_seat(&key, RunInput::Abort(cause), observer),
            Act::Supersede(key) => {
                let by = RunId::new("recovery");
                self.feed_seat(&key, RunInput::Superseded(by), observer)
            }
            Act::Look => {
                let active = self.seats.values().filter(|seat| seat.active());
                let seen = active.map(|seat| (Arc::clone(seat.key()), seat.activity())).collect();
                self.decide(Input::Seen(seen), observer)
            }
            Act::Resume { key, run, attempt, narrowed } => {
                let arrival = self.resumption(key, &run, attempt, narrowed);
                self.decide(Input::Arrive(Box::new(arrival)), observer)
            }
        }
    }

    fn is_open(&self, key: &Key) -> bool {
        self.by_key.contains_key(key)
    }

    fn admit(&mut self, op: OpId, msg: MsgId, arrival: Arrival) -> Result<(), ReactorError> {
        let now = self.links.clock.now();
        let cwd = self.links.outfit.cwd.to_string_lossy().into_owned();
        let turn = stored::text(&arrival.wait);
        self.bodies.insert(arrival.run.clone(), (msg, Arc::clone(&arrival.body)));
        let admit = Admit {
            key: arrival.key.to_string(),
            fresh: SessionId::new(id::uuid_v7(now, entropy())),
            cwd,
            run: arrival.run,
            request: arrival.request.to_string(),
            turn,
            msg,
            body: arrival.body,
            interaction: arrival.interaction,
            at: now,
        };
        let ticket = self.links.ticket(Owner::Act(op));
        self.links.send(Job::Write(ticket, Part::Admit(Box::new(admit))))
    }

    fn change(&mut self, op: OpId, key: &Key, change: Change) -> Result<(), ReactorError> {
        let at = self.links.clock.now();
        // What was read ahead is not what is stored any more.
        self.ahead = None;
        let what = match change {
            Change::Drop { runs, termination } => Managed::Drop { runs, termination },
            Change::Reset(reason) => {
                // The entry's id is drawn here; the door of the session itself is at rest.
                let mut door = Door::new(Default::default(), u64::from_be_bytes(entropy()));
                self.resetting.insert(op, Arc::clone(key));
                Managed::Reset { entry: Box::new(door.reset_entry(reason.word(), at)) }
            }
            Change::Delete => Managed::Delete,
            Change::Settings(partial) => {
                let empty = partial == Default::default();
                Managed::Settings(
                    (!empty).then(|| serde_json::to_string(&partial).unwrap_or_default()),
                )
            }
            Change::GivenUp => Managed::GivenUp,
        };
        let manage = Manage { key: key.to_string(), at, what };
        let ticket = self.links.ticket(Owner::Act(op));
        self.links.send(Job::Write(ticket, Part::Manage(Box::new(manage))))
    }

    fn start(&mut self, start: Start, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        let Start { key, run, msgs, joined, accepted_at, narrowed, budget_ms, compacts, .. } =
            start;
        let runs = joined.iter().chain([&run]);
        let mut bodies: Vec<(MsgId, Arc<User>)> = Vec::new();
        for of in runs {
            bodies.extend(self.bodies.get(of).cloned());
        }
        bodies.sort_by_key(|(id, _)| msgs.iter().position(|m| m == id));
        let Some((msg, body)) = combined(&bodies) else {
            observer.notice(Some(&key), &format!("run {run} has lost its message: it is closed"));
            self.write_off(&key, run.clone(), MsgId(0), "its message is missing", observer)?;
            let termination = Termination::Failed { fault: crate::engine::Fault::Broken };
            return self.decide(Input::Ended { run, termination, reload: true }, observer);
        };
        let merged = bodies.iter().map(|(id, _)| *id).filter(|id| *id != msg).collect();
        let specs = if narrowed {
            Arc::new(replayable(&self.links.outfit.specs))
        } else {
            Arc::clone(&self.links.outfit.specs)
        };
        let mut setup = self.setup;
        if let Some(budget_ms) = budget_ms {
            setup.limits.budget_ms = budget_ms;
        }
        let launch = Launch { run, msg, body, merged, joined, accepted_at, setup, specs, compacts };
        self.with_seat(&key, observer, |seat, links, observer| seat.submit(launch, links, observer))
    }

    fn steer(
        &mut self,
        key: &Key,
        run: RunId,
        msg: MsgId,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let body = self.bodies.get(&run).map(|(_, body)| Arc::clone(body));
        match body.filter(|_| self.is_open(key)) {
            Some(body) => self.with_seat(key, observer, |seat, links, observer| {
                seat.steer(run, msg, body, links, observer)
            }),
            None => self.decide(Input::Steered { run, taken: false }, observer),
        }
    }

    pub(super) fn feed_seat(
        &mut self,
        key: &Key,
        input: RunInput,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.with_seat(key, observer, |seat, links, observer| seat.feed(input, links, observer))
    }

    /// Does something with a session's seat, and takes up what it says.
    pub(super) fn with_seat(
        &mut self,
        key: &Key,
        observer: &mut dyn Observer,
        act: impl FnOnce(
            &mut Seat,
            &mut super::links::Links,
            &mut dyn Observer,
        ) -> Result<(), ReactorError>,
    ) -> Result<(), ReactorError> {
        let Some(id) = self.by_key.get(key).copied() else { return Ok(()) };
        self.with(id, observer, act)
    }

    pub(super) fn with(
        &mut self,
        id: u32,
        observer: &mut dyn Observer,
        act: impl FnOnce(
            &mut Seat,
            &mut super::links::Links,
            &mut dyn Observer,
        ) -> Result<(), ReactorError>,
    ) -> Result<(), ReactorError> {
        let Some(seat) = self.seats.get_mut(&id) else { return Ok(()) };
        act(seat, &mut self.links, observer)?;
        let key = Arc::clone(seat.key());
        for notice in seat.take_notices() {
            observer.notice(Some(&key), &notice);
        }
        let said = seat.take_said();
        if said.iter().any(|s| matches!(s, Said::Ended { .. })) && seat.fault().is_some() {
            observer.notice(Some(&key), seat.fault().unwrap_or_default());
        }
        self.note_due(id);
        for said in said {
            let input = match said {
                Said::Steered { run, taken } => Input::Steered { run, taken },
                Said::Joined(run) => Input::Joined(run),
                Said::Turned(run) if self.detached.contains_key(&run) => continue,
                Said::Turned(run) => Input::Turned(run),
                Said::Ended { run, termination, .. }
                    if self.detached_end(&run, &termination, observer) =>
                {
                    continue;
                }
                Said::Ended { run, termination, reload } => {
                    Input::Ended { run, termination, reload }
                }
            };
            self.decide(input, observer)?;
        }
        Ok(())
    }

    fn open_seat(
        &mut self,
        op: OpId,
        key: Key,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        if self.is_open(&key) {
            return self.decide(Input::Opened(op), observer);
        }
        if let Some((_, loaded)) = self.ahead.take().filter(|(of, _)| *of == key) {
            return self.loaded(op, key, Ok(loaded), observer);
        }
        let ticket = self.links.ticket(Owner::Load(op, Arc::clone(&key)));
        self.links.send(Job::Load(ticket, key.to_string()))
    }

    fn loaded(
        &mut self,
        op: OpId,
        key: Key,
        loaded: Result<Box<Loaded>, StoreError>,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let loaded = match loaded {
            Ok(loaded) => *loaded,
            Err(error) => {
                observer.notice(Some(&key), &error.to_string());
                return self.decide(Input::OpenFailed(op), observer);
            }
        };
        let (model, gone) = self.model_of(loaded.session.as_ref());
        let (mut whole, commit) = settle(&self.links, loaded, &key, model);
        whole.notices.extend(gone);
        let Some(commit) = commit else { return self.seat(op, key, whole, observer) };
        self.settling.insert(op, (key, whole));
        let ticket = self.links.ticket(Owner::Settle(op));
        self.links.send(Job::commit(ticket, commit))
    }

    fn seat(
        &mut self,
        op: OpId,
        key: Key,
        whole: Whole,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        self.next_seat += 1;
        let id = self.next_seat;
        let mut seat = Seat::new(Address { seat: id, run: 0 }, &key, whole);
        for notice in seat.take_notices() {
            observer.notice(Some(&key), &notice);
        }
        self.seats.insert(id, seat);
        self.by_key.insert(key, id);
        self.decide(Input::Opened(op), observer)
    }

    /// The store has answered.
    pub(super) fn answered(
        &mut self,
        answer: Answer,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        match answer {
            Answer::Written(ticket, result) => match self.links.owner(ticket) {
                Owner::Seat(id) => self.with(id, observer, |seat, links, observer| {
                    seat.committed(ticket, result.map(|_| ()), links, observer)
                }),
                Owner::Act(op) => self.written(op, result, observer),
                Owner::Settle(op) => self.settled(op, result.map(|_| ()), observer),
                Owner::Client(ticket, stale) => {
                    self.client_changed(ticket, result, stale, observer)
                }
                Owner::Load(..)
                | Owner::Ahead(_)
                | Owner::Compact(_)
                | Owner::Boot
                | Owner::Nobody => Ok(()),
            },
            Answer::Queried(ticket, found) => {
                if let Owner::Client(ticket, _) = self.links.owner(ticket) {
                    observer.found(ticket, found);
                }
                Ok(())
            }
            Answer::Loaded(ticket, loaded) => match self.links.owner(ticket) {
                Owner::Load(op, key) => self.loaded(op, key, loaded, observer),
                Owner::Compact((at, op)) => self.of_run(at, observer, |seat, links, observer| {
                    seat.compact_loaded(op, loaded, links, observer)
                }),
                Owner::Ahead(key) => {
                    // What is wrong with it is said when it is asked for; a session that is not
                    // there yet will have been made by then.
                    let there = loaded.ok().filter(|loaded| loaded.session.is_some());
                    self.ahead = there.map(|loaded| (key, loaded));
                    Ok(())
                }
                Owner::Seat(_)
                | Owner::Act(_)
                | Owner::Settle(_)
                | Owner::Client(..)
                | Owner::Boot
                | Owner::Nobody => Ok(()),
            },
            Answer::Booted(ticket, boot) => {
                self.links.owner(ticket);
                self.booted(*boot?, observer)
            }
            Answer::Found(ticket, found) => {
                let Owner::Act(op) = self.links.owner(ticket) else { return Ok(()) };
                let row = found?;
                self.decide(Input::Found(op, row.as_deref().map(stored::outcome)), observer)
            }
        }
    }

    fn settled(
        &mut self,
        op: OpId,
        result: Result<(), Denied>,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let Some((key, whole)) = self.settling.remove(&op) else { return Ok(()) };
        match result {
            Ok(()) => self.seat(op, key, whole, observer),
            Err(denied) => {
                observer.notice(Some(&key), &words(&denied));
                self.decide(Input::OpenFailed(op), observer)
            }
        }
    }

    fn written(
        &mut self,
        op: OpId,
        result: Result<Fact, Denied>,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let reset = self.resetting.remove(&op);
        let input = match result {
            Ok(Fact::Written) => {
                let seat = reset.and_then(|key| self.by_key.get(&key));
                if let Some(seat) = seat.and_then(|id| self.seats.get_mut(id)) {
                    seat.reset();
                }
                Input::Changed(op)
            }
            Ok(Fact::Admitted(admitted)) => Input::Admitted(
                op,
                match admitted {
                    Admitted::New(seen) => Admission::New(stored::facts(&seen)),
                    Admitted::Known(row) => Admission::Known(stored::outcome(&row)),
                    Admitted::Conflict => Admission::Conflict,
                },
            ),
            Err(denied) if self.sessions.admits(op) => {
                Input::Admitted(op, Admission::Failed(words(&denied).into()))
            }
            Err(denied) => Input::ChangeFailed(op, words(&denied).into()),
        };
        self.decide(input, observer)
    }

    /// A report from a worker.
    pub(super) fn reported(
        &mut self,
        report: Report,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        match report {
            Report::Model(at, op, event) => self.of_run(at, observer, |seat, links, observer| {
                seat.model_event(op, event, links, observer)
            }),
            Report::Failed(at, op, input) => self.of_run(at, observer, |seat, links, observer| {
                seat.feed(RunInput::Reply(op, input), links, observer)
            }),
            Report::Prompted(at, op, facts, prompted) => {
                self.of_run(at, observer, |seat, links, observer| {
                    seat.prompted(op, facts, &prompted, links, observer)
                })
            }
            Report::Tool(at, op, input) => self.of_run(at, observer, |seat, links, observer| {
                seat.tool_event(op, input, links, observer)
            }),
            Report::Compacted(at, op, made) => {
                self.of_run(at, observer, |seat, links, observer| {
                    seat.compact_made(op, *made, links, observer)
                })
            }
        }
    }

    /// A report of a run that is not the seat's any more finds nobody.
    fn of_run(
        &mut self,
        at: Address,
        observer: &mut dyn Observer,
        act: impl FnOnce(
            &mut Seat,
            &mut super::links::Links,
            &mut dyn Observer,
        ) -> Result<(), ReactorError>,
    ) -> Result<(), ReactorError> {
        let current = self.seats.get(&at.seat).is_some_and(|seat| seat.address == at);
        if current { self.with(at.seat, observer, act) } else { Ok(()) }
    }
}

/// Several messages are one turn, by the name of the last (semantics 6.1).
fn combined(bodies: &[(MsgId, Arc<User>)]) -> Option<(MsgId, Arc<User>)> {
    let (msg, last) = bodies.last()?;
    if bodies.len() == 1 {
        return Some((*msg, Arc::clone(last)));
    }
    let texts: Vec<String> = bodies.iter().map(|(_, body)| body.content.to_text()).collect();
    let blocks: Vec<(Option<&str>, &str)> = texts.iter().map(|t| (None, t.as_str())).collect();
    let content = Content::Text(collect_prompt(&blocks));
    let (timestamp, idempotency_key) = (last.timestamp, last.idempotency_key.clone());
    Some((*msg, Arc::new(User { content, timestamp, idempotency_key })))
}

pub(super) fn words(denied: &Denied) -> String {
    match denied {
        Denied::Fenced(why) => why.to_string(),
        Denied::Failed(error) => error.to_string(),
    }
}
