//! The waiting turns of one session (`spec/turns.md`). Content passes through: the queue holds
//! ids, marks and, for what was dropped, one short line a message.

mod seen;
mod settings;
mod text;

pub use seen::Seen;
pub use settings::{Arriving, DropPolicy, Mode, Partial, Place, QueueSettings, place, resolve};
pub use text::one_line;
pub use text::{after_overflow, collect_prompt, overflow_prompt, summary_line};

use crate::base::limits::{OVERFLOW_GROUPS_MAX, TURNS_CAP_MAX};
use crate::base::{Millis, MsgId, RunId};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;

/// Where a turn comes from and what it may do: turns of different groups never share one (Q7).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Group {
    route: Arc<str>,
    permission: Arc<str>,
}

impl Group {
    /// The group of a channel, an account, a thread and a permission.
    #[must_use]
    pub fn new(channel: &str, account: &str, thread: &str, permission: &str) -> Group {
        // Lengths keep the parts apart: a name may hold any character.
        let route = format!("{}:{channel}{}:{account}{thread}", channel.len(), account.len());
        Group { route: route.into(), permission: permission.into() }
    }
}

/// One waiting turn.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Turn {
    /// The run that it will be, or share.
    pub run: RunId,
    /// Its message.
    pub msg: MsgId,
    /// Whom it may share a turn with.
    pub group: Group,
    /// When it arrived.
    pub at: Millis,
    /// What stands for it if it is dropped, at most 160 characters ([`summary_line`]).
    pub line: Arc<str>,
    /// It is on its way into the active run (Q6).
    pub in_flight: bool,
}

/// What became of an arriving turn (Q4).
#[must_use]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Arrival {
    /// It waits.
    Taken,
    /// It waits; these had to leave, oldest first, and their senders have to be told.
    TakenDropping(Vec<(RunId, MsgId)>),
    /// It does not wait: the queue is full.
    Rejected,
    /// A turn of this run waits already; nothing has changed.
    Doubled,
}

/// Dropped turns of one group that the model is still to be told of (Q8).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Overflow {
    /// Where they came from.
    pub group: Group,
    /// How many they were.
    pub count: u32,
    /// A line for each of the last ones, oldest first; never empty.
    pub lines: Vec<(RunId, Arc<str>)>,
}

impl Overflow {
    /// The text for the model.
    #[must_use]
    pub fn prompt(&self) -> String {
        overflow_prompt(self.count, self.lines.iter().map(|(_, line)| &**line))
    }
}

/// What is to be run.
#[must_use]
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// Nothing waits, or what waits first is on its way already.
    Nothing,
    /// Turns wait for the end of the quiet window.
    Quiet(Millis),
    /// One turn.
    Run {
        /// The run it goes by: the newest of its turns, or the newest dropped one.
        lead: RunId,
        /// Its turns in order: one, or several of one group (collect), or none if it is only the
        /// summary of what was dropped.
        turns: Vec<Turn>,
        /// What the model is told before them.
        overflow: Option<Overflow>,
    },
}

/// The waiting turns of one session, in the order in which they will run.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Turns {
    waiting: VecDeque<Turn>,
    overflow: VecDeque<Overflow>,
    last: Millis,
}

impl Turns {
    /// A turn arrives (Q4).
    pub fn arrive(&mut self, turn: Turn, settings: &QueueSettings, now: Millis) -> Arrival {
        if self.waiting.iter().any(|t| t.run == turn.run) {
            return Arrival::Doubled;
        }
        let limit = settings.limit();
        let over = (self.waiting.len() + 1).saturating_sub(limit);
        let movable = self.waiting.iter().filter(|t| !t.in_flight).count();
        if over > 0 && (settings.drop == DropPolicy::New || movable < over) {
            return Arrival::Rejected;
        }
        let mut dropped = Vec::new();
        for _ in 0..over {
            let Some(at) = self.waiting.iter().position(|t| !t.in_flight) else { break };
            let Some(old) = self.waiting.remove(at) else { break };
            dropped.push((old.run.clone(), old.msg));
            if settings.drop == DropPolicy::Summarize {
                self.spill(old, limit);
            }
        }
        self.waiting.push_back(turn);
        self.last = now;
        self.check();
        if dropped.is_empty() { Arrival::Taken } else { Arrival::TakenDropping(dropped) }
    }

    /// Keeps one line of a dropped turn; at most `limit` lines a group.
    fn spill(&mut self, old: Turn, limit: usize) {
        let line = (old.run, summary_line(&old.line));
        if let Some(overflow) = self.overflow.iter_mut().find(|o| o.group == old.group) {
            overflow.count = overflow.count.saturating_add(1);
            overflow.lines.push(line);
            let excess = overflow.lines.len().saturating_sub(limit);
            overflow.lines.drain(..excess);
            return;
        }
        if self.overflow.len() >= OVERFLOW_GROUPS_MAX {
            self.overflow.pop_front();
        }
        self.overflow.push_back(Overflow { group: old.group, count: 1, lines: vec![line] });
    }

    /// When something can be run, if something waits; it may be in the past (Q5).
    #[must_use]
    pub fn due(&self, settings: &QueueSettings) -> Option<Millis> {
        if self.waiting.front().is_some_and(|t| t.in_flight) || self.is_empty() {
            return None;
        }
        let full = self.waiting.len() >= settings.limit();
        let quiet = settings.mode.waits_for_quiet() && !full;
        Some(if quiet { self.last.plus(settings.debounce_ms.into()) } else { self.last })
    }

    /// Takes what is to be run now; for when no run is active (Q5, Q7, Q8).
    pub fn next(&mut self, settings: &QueueSettings, now: Millis) -> Next {
        match self.due(settings) {
            None => Next::Nothing,
            Some(at) if now < at => Next::Quiet(at),
            Some(_) => self.take(settings),
        }
    }

    fn take(&mut self, settings: &QueueSettings) -> Next {
        let collect = settings.mode == Mode::Collect;
        let overflow = self.overflow.pop_front();
        let first = self.waiting.front().map(|t| &t.group);
        if let Some(overflow) = &overflow
            && !(collect && first == Some(&overflow.group))
            && let Some((lead, _)) = overflow.lines.last()
        {
            let lead = lead.clone();
            return Next::Run { lead, turns: vec![], overflow: Some(overflow.clone()) };
        }
        let same = |t: &&Turn| !t.in_flight && first == Some(&t.group);
        let most = if collect { settings.limit() } else { 1 };
        // No more than the cap, also after turns were put back: what is taken may come back again.
        let count = self.waiting.iter().take(most).take_while(same).count();
        let turns: Vec<Turn> = self.waiting.drain(..count).collect();
        match turns.last().map(|t| t.run.clone()) {
            Some(lead) => Next::Run { lead, turns, overflow },
            None => Next::Nothing,
        }
    }

    /// What could not be run after all goes back to the front, in order (Q6).
    pub fn put_back(&mut self, turns: Vec<Turn>, overflow: Option<Overflow>) {
        for mut turn in turns.into_iter().rev() {
            turn.in_flight = false;
            self.waiting.push_front(turn);
        }
        if let Some(mut back) = overflow {
            // Turns of the same group may have been dropped meanwhile; they are newer.
            if let Some(at) = self.overflow.iter().position(|o| o.group == back.group)
                && let Some(newer) = self.overflow.remove(at)
            {
                back.count = back.count.saturating_add(newer.count);
                back.lines.extend(newer.lines);
                let excess = back.lines.len().saturating_sub(TURNS_CAP_MAX.into());
                back.lines.drain(..excess);
            }
            self.overflow.push_front(back);
        }
        self.check();
    }

    /// Marks a turn as on its way into the active run, or as waiting again; `false` if it is not
    /// here (Q6).
    pub fn mark(&mut self, run: &RunId, in_flight: bool) -> bool {
        let found = self.waiting.iter_mut().find(|t| t.run == *run);
        found.map(|t| t.in_flight = in_flight).is_some()
    }

    /// The active run is over: what was on its way and was not committed waits again (Q6).
    pub fn ground(&mut self) {
        self.waiting.iter_mut().for_each(|t| t.in_flight = false);
    }

    /// Takes a turn out: it was committed, or its sender took it back.
    pub fn remove(&mut self, run: &RunId) -> Option<Turn> {
        let at = self.waiting.iter().position(|t| t.run == *run)?;
        self.waiting.remove(at)
    }

    /// The sender of a dropped turn takes it back: its line is not told; `false` if there is none.
    pub fn forget(&mut self, run: &RunId) -> bool {
        let holds = |o: &Overflow| o.lines.iter().any(|(of, _)| of == run);
        let Some(at) = self.overflow.iter().position(holds) else { return false };
        let overflow = &mut self.overflow[at];
        overflow.lines.retain(|(of, _)| of != run);
        overflow.count = overflow.count.saturating_sub(1);
        if overflow.lines.is_empty() {
            self.overflow.remove(at);
        }
        true
    }

    /// Gives up everything older than the newest turn; what is on its way stays (Q10).
    pub fn interrupt(&mut self) -> Vec<Turn> {
        self.overflow.clear();
        let newest = self.waiting.iter().rposition(|t| !t.in_flight).unwrap_or(0);
        let mut kept = VecDeque::new();
        let mut given_up = Vec::new();
        for (at, turn) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if turn.in_flight || at >= newest {
                kept.push_back(turn);
            } else {
                given_up.push(turn);
            }
        }
        self.waiting = kept;
        given_up
    }

    /// Gives up everything, what is on its way too; nothing is left to tell.
    pub fn clear(&mut self) -> Vec<Turn> {
        self.overflow.clear();
        std::mem::take(&mut self.waiting).into()
    }

    /// What is on its way into the active run waits on, after everything was given up.
    pub fn keep(&mut self, flying: Vec<Turn>) {
        self.waiting.extend(flying);
    }

    /// How many turns wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether nothing waits and nothing is left to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.overflow.is_empty()
    }

    /// The waiting turns in order.
    pub fn iter(&self) -> impl Iterator<Item = &Turn> {
        self.waiting.iter()
    }

    /// Asserts the bounds of this part of the state. What was put back may pass the cap, but not
    /// by more than one turn can hold.
    pub fn check(&self) {
        let most = 2 * usize::from(TURNS_CAP_MAX);
        assert!(self.waiting.len() <= most, "Q4: too many turns wait");
        assert!(self.overflow.len() <= OVERFLOW_GROUPS_MAX + 1, "Q8: too many routes overflow");
        for overflow in &self.overflow {
            assert!(overflow.lines.len() <= TURNS_CAP_MAX.into(), "Q8: too many lines");
            assert!(!overflow.lines.is_empty(), "Q8: a summary of nothing");
        }
    }
}

#[cfg(test)]
mod tests;
