//! The edge: a `mio` loop that does I/O and decides nothing. It commits `append`, then sends
//! `tell`, then starts `act`; workers answer through a channel and wake it.

mod acts;
mod boot;
mod briefing;
mod clients;
mod clock;
mod compact;
mod crew;
mod desk;
mod detached;
mod history;
pub mod journal;
mod learn;
mod links;
mod net;
mod phases;
pub mod prompter;
mod renew;
mod seat;
mod settle;
mod stored;
mod workers;
pub mod zone;

pub use clock::Clock;
pub use clock::{can_keep_secrets, entropy};
pub use compact::Compaction;
pub use links::{At, Observer, Outfit, Report, View};
pub use net::{Got, NetEvent};
pub use renew::Renewal;
pub use seat::Address;
pub use stored::{plain, request};

use crate::base::{Millis, MsgId, OpId, RunId};
use crate::engine::sessions::{Input, Key, Options, Sessions};
use crate::engine::{Cause, Input as RunInput, Setup};
use crate::model::catalog::Resolved;
use crate::records::SessionRow;
use crate::store::{Answer, Job, Loaded, StoreError, Worker};
use crate::transcript::User;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use links::{Links, Owner};
use mio::{Events, Interest, Poll, Token, Waker};
use seat::Seat;
use settle::Whole;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

const WAKE: Token = Token(0);
const SIGNAL: Token = Token(1);
/// Most reports that wait for the loop; a full channel holds back the worker that fills it.
const REPORTS_MAX: usize = 1024;
/// Most lines of standard input that wait.
const LINES_MAX: usize = 256;
/// Most of them that one pass takes: runs go on between.
const LINES_PASS: usize = 64;

/// Why the reactor could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ReactorError {
    /// The store could not be opened or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system refused something the loop needs.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// The journal cannot be written.
    #[error("the journal cannot be written: {0}")]
    Journal(std::io::Error),
    /// The store's worker has ended.
    #[error("the store has stopped")]
    StoreGone,
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> ReactorError {
    move |source| ReactorError::System { what, source }
}

/// What a signal asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Somebody stops what runs.
    Interrupt,
    /// The process is to end, and to be started again later.
    Terminate,
}

/// What a loop is made for.
#[derive(Debug)]
pub struct Plan {
    /// How sessions are treated.
    pub options: Options,
    /// Options of every run.
    pub setup: Setup,
    /// A process for one conversation leaves all others as they are.
    pub only: Option<Key>,
    /// Models that a session may be set to.
    pub models: Vec<Resolved>,
    /// The model that was asked for holds, whatever is set for a session.
    pub forced: bool,
}

/// The loop and everything it owns.
pub struct Reactor {
    poll: Poll,
    events: Events,
    net: Option<net::Net>,
    signals: signal_hook_mio::v1_0::Signals,
    signalled: Vec<i32>,
    reports: Receiver<Report>,
    answers: Receiver<Answer>,
    /// Lines of standard input; who reads them waits while it is full.
    typed: Receiver<Option<String>>,
    line_sender: Sender<Option<String>>,
    links: Links,
    model: Resolved,
    models: Vec<Resolved>,
    forced: bool,
    setup: Setup,
    only: Option<Key>,
    sessions: Sessions,
    decisions: VecDeque<Input>,
    deciding: bool,
    ready: bool,
    seats: BTreeMap<u32, Seat>,
    by_key: BTreeMap<Key, u32>,
    next_seat: u32,
    /// When seats want to be woken.
    dues: BTreeSet<(Millis, u32)>,
    due_of: BTreeMap<u32, Millis>,
    /// Sessions that are being made whole.
    settling: BTreeMap<OpId, (Key, Whole)>,
    /// Runs that are in memory alone.
    detached: BTreeMap<RunId, Key>,
    /// A session that was loaded before it was asked for.
    ahead: Option<(Key, Box<Loaded>)>,
    /// Resets on their way to the store.
    resetting: BTreeMap<OpId, Key>,
    /// Messages of runs that have not ended.
    bodies: BTreeMap<RunId, (MsgId, Arc<User>)>,
    lines: VecDeque<Option<String>>,
    /// When whoever runs the loop wants to be woken.
    wake: Option<Millis>,
    /// The next pass does not wait.
    busy: bool,
    daily_hour: Option<u8>,
    /// Where the day begins; read only if a reset policy asks for it.
    zone: jiff::tz::TimeZone,
}

impl Reactor {
    /// Opens an agent's database and takes up what the last process left.
    ///
    /// # Errors
    /// What the store or the system says.
    pub fn open(
        outfit: Outfit,
        model: Resolved,
        plan: Plan,
        observer: &mut dyn Observer,
    ) -> Result<Reactor, ReactorError> {
        let poll = Poll::new().map_err(system("cannot poll"))?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(system("cannot make a waker"))?;
        let signals = listen(&poll)?;
        let (sender, reports) = bounded(REPORTS_MAX);
        let (line_sender, typed) = bounded(LINES_MAX);
        // The loop may wait for the store to take a job, so the store never waits for the loop to
        // take an answer (X13): there are no more of these than jobs that were handed over.
        let (answer_sender, answers) = unbounded();
        let waker = Arc::new(waker);
        let store = {
            let waker = Arc::clone(&waker);
            Worker::start(&outfit.database, outfit.synchronous, move |answer| {
                // The loop outlives the store's worker; if it is gone, nobody needs the answer.
                if answer_sender.send(answer).is_ok() {
                    let _ = waker.wake();
                }
            })?
        };
        let mut links = Links::new(store, sender, waker, outfit);
        read_first(&mut links, plan.only.as_ref())?;
        let mut reactor = Reactor {
            poll,
            events: Events::with_capacity(64),
            net: None,
            signals,
            signalled: vec![],
            reports,
            answers,
            typed,
            line_sender,
            links,
            model,
            models: plan.models,
            forced: plan.forced,
            setup: plan.setup,
            only: plan.only,
            decisions: VecDeque::new(),
            deciding: false,
            ready: false,
            seats: BTreeMap::new(),
            by_key: BTreeMap::new(),
            next_seat: 0,
            dues: BTreeSet::new(),
            due_of: BTreeMap::new(),
            settling: BTreeMap::new(),
            ahead: None,
            detached: BTreeMap::new(),
            resetting: BTreeMap::new(),
            bodies: BTreeMap::new(),
            lines: VecDeque::new(),
            wake: None,
            busy: false,
            daily_hour: plan.options.reset.daily_hour,
            zone: match plan.options.reset.daily_hour {
                Some(_) => jiff::tz::TimeZone::system(),
                None => jiff::tz::TimeZone::UTC,
            },
            sessions: Sessions::new(plan.options),
        };
        while !reactor.ready {
            reactor.turn(observer)?;
        }
        Ok(reactor)
    }

    /// The model that is set for a session, or the default one.
    fn model_of(&self, session: Option<&SessionRow>) -> (Resolved, Option<String>) {
        let meta = session.and_then(|row| row.meta.as_deref());
        let meta = meta.and_then(|meta| serde_json::from_str::<serde_json::Value>(meta).ok());
        let wanted = meta.as_ref().and_then(|meta| meta["model"].as_str());
        let wanted = wanted.filter(|_| !self.forced);
        let Some(wanted) = wanted else { return (self.model.clone(), None) };
        match self.models.iter().find(|model| model.reference == wanted) {
            Some(model) => (model.clone(), None),
            None if wanted == self.model.reference => (self.model.clone(), None),
            None => {
                let gone = format!(
                    "its model {wanted} is not configured any more: {} is used",
                    self.model.reference
                );
                (self.model.clone(), Some(gone))
            }
        }
    }

    /// A handle for a thread that reads lines; `None` is their end. It holds the thread back while
    /// the loop has enough to do.
    pub fn line_taker(&self) -> impl Fn(Option<String>) -> bool + Send + use<> {
        let (_, waker) = self.links.reporter();
        let sender = self.line_sender.clone();
        move |line| sender.send(line).is_ok() && waker.wake().is_ok()
    }

    /// The time, as the loop counts it.
    #[must_use]
    pub fn now(&self) -> Millis {
        self.links.clock.now()
    }

    /// The last local daily hour, where the reset policy has one.
    #[must_use]
    pub fn boundary(&self) -> Option<Millis> {
        let hour = self.daily_hour?;
        Some(zone::daily_boundary(self.now(), hour, &self.zone))
    }

    /// Stops every run that is in memory alone.
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn stop_detached(
        &mut self,
        cause: Cause,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let keys: Vec<Key> = self.detached.values().map(Arc::clone).collect();
        for key in keys {
            self.feed_seat(&key, RunInput::Abort(cause), observer)?;
        }
        Ok(())
    }

    /// Whoever runs the loop has more to do: it does not wait.
    pub fn keep_busy(&mut self) {
        self.busy = true;
    }

    /// The loop turns no later than then.
    pub fn wake_at(&mut self, at: Option<Millis>) {
        self.wake = at;
    }

    /// The sessions, to look at.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.sessions
    }

    /// Something happens to the sessions.
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn give(&mut self, input: Input, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        self.decide(input, observer)
    }

    /// The next line of standard input, if one has come; `None` inside is its end.
    pub fn next_line(&mut self) -> Option<Option<String>> {
        self.lines.pop_front()
    }

    /// What signals have asked for since the last time.
    pub fn take_signals(&mut self) -> Vec<Wish> {
        let wish = |signal: i32| if signal == SIGTERM { Wish::Terminate } else { Wish::Interrupt };
        std::mem::take(&mut self.signalled).into_iter().map(wish).collect()
    }

    /// Ends every tool at once: the process is leaving.
    pub fn kill_all(&mut self) {
        for seat in self.seats.values_mut() {
            seat.kill_all();
        }
    }

    /// One pass: wait, take what has come, tick.
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn turn(&mut self, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        let due = self.due();
        let timeout = due.map(|at| Duration::from_millis(at.since(self.links.clock.now())));
        // What was left over in the last pass is not waited for.
        let left = !self.typed.is_empty() || !self.reports.is_empty() || !self.answers.is_empty();
        let left = left || self.net.as_ref().is_some_and(net::Net::has_more) || self.busy;
        let timeout = if left { Some(Duration::ZERO) } else { timeout };
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ReactorError::System { what: "cannot poll", source: e }),
        }
        if self.events.iter().any(|e| e.token() == SIGNAL) {
            self.signalled.extend(self.signals.pending());
        }
        self.busy = false;
        if let Some(net) = &mut self.net {
            for event in self.events.iter().filter(|e| e.token() != WAKE && e.token() != SIGNAL) {
                net.ready(event.token(), self.poll.registry());
            }
            net.accept(self.poll.registry());
        }
        observer.clock(self.links.clock.now());
        while let Ok(answer) = self.answers.try_recv() {
            self.answered(answer, observer)?;
        }
        for report in self.reports.try_iter().take(REPORTS_MAX).collect::<Vec<_>>() {
            self.reported(report, observer)?;
        }
        let room = LINES_PASS.saturating_sub(self.lines.len());
        self.lines.extend(self.typed.try_iter().take(room));
        // A line does not overtake a signal that was sent before it and came after the poll.
        if !self.lines.is_empty() {
            self.signalled.extend(self.signals.pending());
        }
        self.tick(observer)
    }

    fn due(&self) -> Option<Millis> {
        let seats = self.dues.first().map(|(at, _)| *at);
        seats.into_iter().chain(self.sessions.due()).chain(self.wake).min()
    }

    fn tick(&mut self, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        let now = self.links.clock.now();
        while let Some((_, id)) = self.dues.first().copied().filter(|(at, _)| *at <= now) {
            self.undue(id);
            self.with(id, observer, |seat, links, observer| {
                seat.feed(RunInput::Tick, links, observer)
            })?;
        }
        if self.sessions.due().is_some_and(|at| at <= now) {
            self.decide(Input::Tick, observer)?;
        }
        Ok(())
    }

    fn undue(&mut self, id: u32) {
        if let Some(at) = self.due_of.remove(&id) {
            self.dues.remove(&(at, id));
        }
    }

    /// A seat may want to be woken at another time now.
    fn note_due(&mut self, id: u32) {
        let due = self.seats.get(&id).and_then(Seat::due);
        if self.due_of.get(&id).copied() == due {
            return;
        }
        self.undue(id);
        if let Some(at) = due {
            self.due_of.insert(id, at);
            self.dues.insert((at, id));
        }
    }
}

/// What a start needs of the store; a process for one conversation will ask for that at once, so
/// what is read now need not be waited for then.
fn read_first(links: &mut Links, only: Option<&Key>) -> Result<(), ReactorError> {
    let ticket = links.ticket(Owner::Boot);
    links.send(Job::Boot(ticket))?;
    let Some(key) = only else { return Ok(()) };
    let ticket = links.ticket(Owner::Ahead(Arc::clone(key)));
    links.send(Job::Load(ticket, key.to_string()))
}

/// Signals wake the loop.
fn listen(poll: &Poll) -> Result<signal_hook_mio::v1_0::Signals, ReactorError> {
    let what = "cannot listen for signals";
    let mut signals =
        signal_hook_mio::v1_0::Signals::new(wanted_signals()).map_err(system(what))?;
    poll.registry().register(&mut signals, SIGNAL, Interest::READABLE).map_err(system(what))?;
    Ok(signals)
}

/// What ends a process in good order. A hang-up that was told to be ignored (`nohup`) stays
/// ignored.
fn wanted_signals() -> Vec<i32> {
    let mut wanted = vec![SIGINT, SIGTERM];
    if !hangup_ignored() {
        wanted.push(SIGHUP);
    }
    wanted
}

/// Whether this process was started with SIGHUP ignored, where the system tells.
fn hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).is_some_and(|bits| bits & 1 == 1)
}
