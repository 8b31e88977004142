//! What stands for a real run: it claims its session, works for a while and ends, as the moves
//! have it.

use super::store::{Hand, No};
use super::world::Town;
use crate::base::{FailKind, Millis, MsgId, RunId};
use crate::engine::sessions::{Input, Key, Start};
use crate::engine::watch::{Activity, WaitsFor};
use crate::engine::{Cause, Fault, Termination};
use crate::sim::Sabotage;
use std::sync::Arc;

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Part {
    Begin,
    Claim(Hand),
    Work(Hand),
    /// Its end is still to be stored.
    Ending(Hand, Termination),
    /// It never claimed, and its end is still to be stored.
    Unclaimed(Termination),
    /// Its end is still to be told.
    Over(Termination, bool),
}

/// A run on the stage.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    pub start: Start,
    pub part: Part,
    pub aborted: Option<Cause>,
    /// It does not listen to those who stop it.
    pub deaf: bool,
    /// Messages that it was handed, and whether it has taken them.
    pub mail: Vec<(RunId, MsgId, bool)>,
    /// Messages that it has stored, and nobody was told yet.
    pub stored: Vec<RunId>,
    pub progress: Millis,
    pub since: Millis,
}

impl Actor {
    pub(super) fn new(start: Start, now: Millis) -> Actor {
        let (part, mail, stored) = (Part::Begin, vec![], vec![]);
        Actor { start, part, aborted: None, deaf: false, mail, stored, progress: now, since: now }
    }

    pub(super) fn activity(&self) -> Activity {
        let over = matches!(self.part, Part::Over(..));
        Activity {
            active: true,
            queued: 0,
            owner: true,
            waits_for: if over { WaitsFor::TerminalCommitted } else { WaitsFor::Tool },
            last_progress: self.progress,
            started: self.since,
            repeats_since: None,
        }
    }

    /// The session is taken from it.
    pub(super) fn lose(&mut self) {
        let how = Termination::Superseded { by: None };
        self.deaf = false;
        self.part = match std::mem::replace(&mut self.part, Part::Begin) {
            Part::Begin | Part::Claim(_) => Part::Unclaimed(how),
            Part::Work(hand) => Part::Ending(hand, how),
            part @ (Part::Ending(..) | Part::Unclaimed(_) | Part::Over(..)) => part,
        };
    }
}

impl Town {
    /// A run does something. Nothing happens where it cannot.
    pub(super) fn go(&mut self, key: &Key, how: u8) {
        let stored =
            self.process.actors.get_mut(key).map(|actor| std::mem::take(&mut actor.stored));
        for run in stored.unwrap_or_default() {
            let deaths = self.stats.crashes;
            self.answer(Input::Joined(run), None);
            if self.stats.crashes != deaths {
                return;
            }
        }
        let Some(mut actor) = self.process.actors.remove(key) else { return };
        let part = std::mem::replace(&mut actor.part, Part::Begin);
        let (next, input) = match part {
            Part::Begin => match self.store.snapshot(key) {
                Some(hand) => (Part::Claim(hand), None),
                None => (Part::Unclaimed(Termination::Superseded { by: None }), None),
            },
            Part::Claim(hand) => self.claim(&mut actor, key, hand),
            Part::Work(hand) => self.work(&mut actor, key, hand, how),
            Part::Ending(hand, end) => (self.end(&actor, key, hand, end), None),
            Part::Unclaimed(end) => {
                let (lead, joined) = (&actor.start.run, &actor.start.joined);
                match self.store.end_unclaimed(key, lead, joined, &end) {
                    Ok(()) => (Part::Over(end, false), None),
                    Err(_) => (Part::Unclaimed(end), None),
                }
            }
            Part::Over(end, reload) => {
                if self.is(Sabotage::TownSteerAcross) {
                    let left = actor.mail.iter().filter(|(_, _, taken)| *taken);
                    self.process.carried.extend(left.cloned());
                }
                let run = actor.start.run.clone();
                return self.answer(Input::Ended { run, termination: end, reload }, None);
            }
        };
        actor.part = next;
        self.process.actors.insert(Arc::clone(key), actor);
        for input in input.into_iter().flatten() {
            self.feed(input);
        }
    }

    fn claim(&mut self, actor: &mut Actor, key: &Key, hand: Hand) -> (Part, Option<Vec<Input>>) {
        if let Some(cause) = actor.aborted.filter(|_| !actor.deaf) {
            return (Part::Unclaimed(Termination::Aborted { cause }), None);
        }
        let run = actor.start.run.clone();
        let part = match self.store.claim(key, &run, &hand, &actor.start.msgs) {
            Ok(()) => {
                actor.progress = self.now;
                self.stats.runs += 1;
                return (Part::Work(hand), Some(vec![Input::Turned(run)]));
            }
            Err(No::Disk) => Part::Unclaimed(Termination::Failed { fault: Fault::Store }),
            Err(No::Fence(by)) => Part::Unclaimed(Termination::Superseded { by }),
            Err(No::Over) => panic!("4: run {run} is over and begins"),
        };
        (part, None)
    }

    fn work(
        &mut self,
        actor: &mut Actor,
        key: &Key,
        hand: Hand,
        how: u8,
    ) -> (Part, Option<Vec<Input>>) {
        if actor.deaf {
            // It says nothing, and nothing reaches it.
            return (Part::Work(hand), None);
        }
        if how == 9 {
            actor.deaf = true;
            return (Part::Work(hand), None);
        }
        actor.progress = self.now;
        if let Some(cause) = actor.aborted {
            return (Part::Ending(hand, Termination::Aborted { cause }), None);
        }
        let run = actor.start.run.clone();
        actor.mail.append(&mut self.process.carried);
        let taken: Vec<(RunId, MsgId)> = actor
            .mail
            .iter()
            .filter(|(_, _, taken)| *taken)
            .map(|(r, m, _)| (r.clone(), *m))
            .collect();
        if !taken.is_empty() {
            let msgs: Vec<MsgId> = taken.iter().map(|(_, msg)| *msg).collect();
            actor.mail.retain(|(_, _, taken)| !*taken);
            return match self.store.join(key, &run, &hand, &msgs) {
                Ok(()) => {
                    actor.stored.extend(taken.into_iter().map(|(run, _)| run));
                    (Part::Work(hand), None)
                }
                Err(no) => (self.lost(&run, no), None),
            };
        }
        let part = match how {
            0..=3 => Part::Work(hand),
            4 => Part::Ending(hand, Termination::ProviderError { fail: FailKind::ServerError }),
            _ => Part::Ending(hand, Termination::Completed { cut: false }),
        };
        (part, None)
    }

    fn end(&mut self, actor: &Actor, key: &Key, hand: Hand, how: Termination) -> Part {
        match self.store.end(key, &actor.start.run, &hand, &how) {
            Ok(()) => Part::Over(how, false),
            Err(no) => self.lost(&actor.start.run, no),
        }
    }

    /// A commit of a writer was refused: it ends, and the session has to be opened again.
    fn lost(&mut self, run: &RunId, no: No) -> Part {
        match no {
            No::Disk => {
                let how = Termination::Failed { fault: Fault::Store };
                self.process.torn.insert(run.clone(), how.clone());
                self.told_torn.insert(run.clone());
                Part::Over(how, true)
            }
            No::Fence(by) => Part::Over(Termination::Superseded { by }, true),
            No::Over => panic!("4: run {run} is over and writes"),
        }
    }

    /// A run takes its first message, or refuses it.
    pub(super) fn hears(&mut self, key: &Key, takes: bool) {
        let Some(actor) = self.process.actors.get_mut(key) else { return };
        let works = matches!(actor.part, Part::Begin | Part::Claim(_) | Part::Work(_));
        let takes = takes && works && actor.aborted.is_none();
        let Some(at) = actor.mail.iter().position(|(_, _, taken)| !*taken) else { return };
        let run = actor.mail[at].0.clone();
        if takes {
            actor.mail[at].2 = true;
        } else {
            actor.mail.remove(at);
        }
        self.process.replies.push_back(Input::Steered { run, taken: takes });
    }
}
