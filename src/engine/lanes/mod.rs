//! Who may run now (`spec/lanes.md`): first the conversation's own lane, then a global one.
//!
//! Nothing here runs anything. Work asks with a ticket, [`Lanes::grants`] says which tickets may
//! begin, and [`Lanes::release`] tells that one has ended. Every question costs what it moves, not
//! what waits: queues are ordered maps, and only lines that something has changed are looked at.

mod name;
#[cfg(test)]
mod tests;

pub use name::{Caps, Lane};

use crate::base::limits::{
    LANE_NAME_BYTES_MAX, LANE_NOTICE_MS, LANE_SESSION_BYTES_MAX, LANE_TICKETS_MAX,
};
use crate::base::{Millis, key};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// One piece of work that asks to run. The caller gives it a number that no other has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Who goes first; inside one priority the order of coming decides (N4).
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Somebody waits for it.
    Foreground,
    /// Anything else.
    #[default]
    Normal,
    /// What can wait.
    Background,
}

/// Why work is not taken; nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LaneRefusal {
    /// The ticket is known already.
    Known,
    /// [`LANE_TICKETS_MAX`] tickets are here.
    Full,
    /// The name of a lane is too long.
    Name,
    /// The name of a conversation or an owner is longer than [`LANE_SESSION_BYTES_MAX`].
    Session,
}

impl fmt::Display for LaneRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LaneRefusal::Known => "this work is in the lanes already",
            LaneRefusal::Full => "too much work is waiting",
            LaneRefusal::Name => "the lane's name is too long",
            LaneRefusal::Session => "the conversation's name is too long",
        })
    }
}

impl std::error::Error for LaneRefusal {}

/// Where a ticket is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Place {
    /// Its conversation is busy.
    Session {
        /// How many go before it there.
        ahead: usize,
    },
    /// It has its conversation and waits for the global lane.
    Lane {
        /// How many go before it there.
        ahead: usize,
    },
    /// It runs: it holds both.
    Holds,
}

/// The order of coming inside a priority.
type Turn = (Priority, u64);

/// A queue with a capacity of its own: a lane, and of the children's lane one for each owner.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Line {
    lane: Lane,
    owner: Option<Arc<str>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stage {
    Session(Turn),
    Lane(Turn),
    Holds,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Work {
    session: Arc<str>,
    line: Line,
    priority: Priority,
    asked: Millis,
    stage: Stage,
}

/// A conversation's lane, which has one slot. It exists while the slot is taken.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Seat {
    taken: Ticket,
    queue: BTreeMap<Turn, Ticket>,
}

/// The traffic of a line. It exists while something waits or runs in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Traffic {
    running: usize,
    queue: BTreeMap<Turn, Ticket>,
}

/// All lanes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lanes {
    caps: Caps,
    work: BTreeMap<Ticket, Work>,
    seats: BTreeMap<Arc<str>, Seat>,
    lines: BTreeMap<Line, Traffic>,
    /// Lines in which something may have become possible.
    changed: BTreeSet<Line>,
    notices: BTreeSet<(Millis, Ticket)>,
    turns: u64,
}

impl Lanes {
    /// Empty lanes.
    #[must_use]
    pub fn new(caps: Caps) -> Lanes {
        Lanes {
            caps,
            work: BTreeMap::new(),
            seats: BTreeMap::new(),
            lines: BTreeMap::new(),
            changed: BTreeSet::new(),
            notices: BTreeSet::new(),
            turns: 0,
        }
    }

    /// Other capacities. What runs goes on, also where it is now too much (N2).
    pub fn set_caps(&mut self, caps: Caps) {
        self.caps = caps;
        let waiting = self.lines.iter().filter(|(_, traffic)| !traffic.queue.is_empty());
        self.changed.extend(waiting.map(|(line, _)| line.clone()));
    }

    /// Work asks to run (N1). `session` is a key or the name of its lane; `owner` is the one whose
    /// children share a bound, and counts in [`Lane::Subagent`] only (N5).
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn ask(
        &mut self,
        ticket: Ticket,
        session: &str,
        lane: Lane,
        owner: Option<Arc<str>>,
        priority: Priority,
        now: Millis,
    ) -> Result<(), LaneRefusal> {
        let owner = owner.filter(|_| lane == Lane::Subagent);
        let long = |name: &str| name.len() > LANE_SESSION_BYTES_MAX;
        let session = key::lane(session);
        if self.work.contains_key(&ticket) {
            return Err(LaneRefusal::Known);
        }
        if self.work.len() >= LANE_TICKETS_MAX {
            return Err(LaneRefusal::Full);
        }
        if lane.name().len() > LANE_NAME_BYTES_MAX {
            return Err(LaneRefusal::Name);
        }
        if long(&session) || owner.as_deref().is_some_and(long) {
            return Err(LaneRefusal::Session);
        }
        let turn = self.turn(priority);
        // The name is held once, by the seat, and shared from there.
        let known = self.seats.get_key_value(session.as_str()).map(|(name, _)| name.clone());
        let session = known.unwrap_or_else(|| session.into());
        let work = Work {
            session: session.clone(),
            line: Line { lane, owner },
            priority,
            asked: now,
            stage: Stage::Session(turn),
        };
        self.work.insert(ticket, work);
        self.notices.insert((now.plus(LANE_NOTICE_MS), ticket));
        if let Some(seat) = self.seats.get_mut(&session) {
            seat.queue.insert(turn, ticket);
        } else {
            self.seats.insert(session, Seat { taken: ticket, queue: BTreeMap::new() });
            self.line_up(ticket);
        }
        Ok(())
    }

    fn turn(&mut self, priority: Priority) -> Turn {
        self.turns += 1;
        (priority, self.turns)
    }

    /// A ticket that has its conversation's slot joins the queue of its line.
    fn line_up(&mut self, ticket: Ticket) {
        #[cfg(test)]
        tests::count();
        let Some(priority) = self.work.get(&ticket).map(|w| w.priority) else { return };
        let turn = self.turn(priority);
        let Some(work) = self.work.get_mut(&ticket) else { return };
        work.stage = Stage::Lane(turn);
        self.lines.entry(work.line.clone()).or_default().queue.insert(turn, ticket);
        self.changed.insert(work.line.clone());
    }

    /// Everything that may begin now, in order (N4); each of it holds its conversation and its
    /// place in the lane from here on.
    pub fn grants(&mut self) -> Vec<Ticket> {
        let mut granted: Vec<(Turn, Ticket)> = Vec::new();
        while let Some(line) = self.changed.pop_first() {
            #[cfg(test)]
            tests::count();
            if shares(&line.lane) {
                self.changed.remove(&line_of(Lane::CronNested));
                self.changed.remove(&line_of(Lane::HookDispatch));
                while let Some(line) = self.first_of_two() {
                    granted.extend(self.take(&line));
                }
            } else {
                while self.is_free(&line)
                    && let Some(taken) = self.take(&line)
                {
                    granted.push(taken);
                }
            }
        }
        granted.sort_unstable();
        granted.into_iter().map(|(_, ticket)| ticket).collect()
    }

    /// Of the two lanes with one budget: the one whose first goes next.
    fn first_of_two(&self) -> Option<Line> {
        let lines = [Lane::CronNested, Lane::HookDispatch].map(line_of);
        let first = |line: &Line| self.lines.get(line)?.queue.keys().next().copied();
        let open = lines.into_iter().filter(|line| self.is_free(line));
        open.filter_map(|line| Some((first(&line)?, line))).min().map(|(_, line)| line)
    }

    fn running(&self, line: &Line) -> usize {
        self.lines.get(line).map_or(0, |traffic| traffic.running)
    }

    fn is_free(&self, line: &Line) -> bool {
        let own = self.caps.of(&line.lane).is_none_or(|cap| self.running(line) < cap);
        let both = || {
            let [nested, hooks] = [Lane::CronNested, Lane::HookDispatch].map(line_of);
            self.running(&nested) + self.running(&hooks) < self.caps.shared()
        };
        own && (!shares(&line.lane) || both())
    }

    /// Takes the first of a line, which then runs.
    fn take(&mut self, line: &Line) -> Option<(Turn, Ticket)> {
        #[cfg(test)]
        tests::count();
        let traffic = self.lines.get_mut(line)?;
        let (turn, ticket) = traffic.queue.pop_first()?;
        traffic.running += 1;
        if let Some(work) = self.work.get_mut(&ticket) {
            work.stage = Stage::Holds;
            self.notices.remove(&(work.asked.plus(LANE_NOTICE_MS), ticket));
        }
        Some((turn, ticket))
    }

    /// The run of a ticket has ended: its place in the lane is free, and its conversation's next.
    /// False if the ticket does not run.
    pub fn release(&mut self, ticket: Ticket) -> bool {
        let Some(work) = self.leave(ticket, |stage| stage == Stage::Holds) else { return false };
        if let Some(traffic) = self.lines.get_mut(&work.line) {
            traffic.running -= 1;
            let waits = !traffic.queue.is_empty();
            if waits || shares(&work.line.lane) {
                self.changed.insert(work.line.clone());
            }
        }
        self.sweep(&work.line);
        self.next_in(&work.session);
        true
    }

    /// A waiting ticket leaves. False if it is not here, or runs: what runs is released.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(work) = self.leave(ticket, |stage| stage != Stage::Holds) else { return false };
        self.notices.remove(&(work.asked.plus(LANE_NOTICE_MS), ticket));
        match work.stage {
            Stage::Session(turn) => {
                if let Some(seat) = self.seats.get_mut(&work.session) {
                    seat.queue.remove(&turn);
                }
            }
            Stage::Lane(turn) => {
                if let Some(traffic) = self.lines.get_mut(&work.line) {
                    traffic.queue.remove(&turn);
                }
                self.sweep(&work.line);
                self.next_in(&work.session);
            }
            Stage::Holds => {}
        }
        true
    }

    fn leave(&mut self, ticket: Ticket, fits: impl Fn(Stage) -> bool) -> Option<Work> {
        #[cfg(test)]
        tests::count();
        self.work.get(&ticket).filter(|work| fits(work.stage))?;
        self.work.remove(&ticket)
    }

    /// Forgets a line in which nothing is left.
    fn sweep(&mut self, line: &Line) {
        let idle = |traffic: &Traffic| traffic.running == 0 && traffic.queue.is_empty();
        if self.lines.get(line).is_some_and(idle) {
            self.lines.remove(line);
        }
    }

    /// The slot of a conversation is free: its next one takes it, or it is forgotten.
    fn next_in(&mut self, session: &Arc<str>) {
        #[cfg(test)]
        tests::count();
        let Some(seat) = self.seats.get_mut(session) else { return };
        match seat.queue.pop_first() {
            Some((_, ticket)) => {
                seat.taken = ticket;
                self.line_up(ticket);
            }
            None => {
                self.seats.remove(session);
            }
        }
    }

    /// Those that have waited for long, once each (N7), with the milliseconds they have waited.
    pub fn waiting_notice(&mut self, now: Millis) -> Vec<(Ticket, u64)> {
        let mut told = Vec::new();
        while let Some((due, ticket)) = self.notices.first().copied().filter(|n| n.0 <= now) {
            self.notices.remove(&(due, ticket));
            told.extend(self.work.get(&ticket).map(|work| (ticket, now.since(work.asked))));
        }
        told
    }

    /// When the next notice is due.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        self.notices.first().map(|(due, _)| *due)
    }

    /// Where a ticket is. Counts who is ahead, so it costs what waits there: for people who ask.
    #[must_use]
    pub fn place(&self, ticket: Ticket) -> Option<Place> {
        let work = self.work.get(&ticket)?;
        Some(match work.stage {
            Stage::Session(turn) => {
                let queue = &self.seats.get(&work.session)?.queue;
                Place::Session { ahead: queue.range(..turn).count() }
            }
            Stage::Lane(turn) => {
                let queue = &self.lines.get(&work.line)?.queue;
                Place::Lane { ahead: queue.range(..turn).count() }
            }
            Stage::Holds => Place::Holds,
        })
    }

    /// The ticket that has a conversation's slot: it runs, or waits for its global lane.
    #[must_use]
    pub fn holder(&self, session: &str) -> Option<Ticket> {
        self.seats.get(key::lane(session).as_str()).map(|seat| seat.taken)
    }

    /// How many tickets are here.
    #[must_use]
    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Whether nothing waits and nothing runs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.work.is_empty()
    }
}

fn line_of(lane: Lane) -> Line {
    Line { lane, owner: None }
}

/// Whether a lane is one of the two with one budget.
fn shares(lane: &Lane) -> bool {
    matches!(lane, Lane::CronNested | Lane::HookDispatch)
}
