//! The edge: a `mio` loop that does I/O and decides nothing. It commits `append`, then sends
//! `tell`, then starts `act`; workers answer through a channel and wake it.

mod clock;
mod crew;
pub mod journal;
mod links;
mod seat;
mod settle;
mod workers;
pub mod zone;

pub use clock::Clock;
pub use links::{Observer, Outfit, Report, View};
pub use seat::{Ids, Submission};

use crate::engine::{Cause, Input, QueueKind, Termination};
use crate::model::catalog::Resolved;
use crate::store::{Answer, Job, StoreError, Worker};
use crossbeam_channel::{Receiver, bounded};
use links::Links;
use mio::{Events, Interest, Poll, Token, Waker};
use seat::Seat;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::time::Duration;

const WAKE: Token = Token(0);
const SIGNAL: Token = Token(1);
/// Most reports that wait for the loop; a full channel holds back the worker that fills it.
const REPORTS_MAX: usize = 1024;

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
    /// The fence refused what makes the session whole.
    #[error("the session could not be made whole: {0}")]
    Refused(crate::engine::FenceRefusal),
    /// A run ended before what it had made was stored: the session must be opened again.
    #[error("the session has to be opened again after a failed commit")]
    Spoiled,
    /// The store's worker has ended.
    #[error("the store has stopped")]
    StoreGone,
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> ReactorError {
    move |source| ReactorError::System { what, source }
}

/// The loop and everything it owns.
pub struct Reactor {
    poll: Poll,
    events: Events,
    signals: signal_hook_mio::v1_0::Signals,
    reports: Receiver<Report>,
    links: Links,
    seat: Seat,
    stops: u32,
}

impl Reactor {
    /// Opens a session and makes it whole: an interrupted run is closed, durably, before anything
    /// new begins.
    ///
    /// # Errors
    /// What the store or the system says.
    pub fn open(outfit: Outfit, model: Resolved, key: &str) -> Result<Reactor, ReactorError> {
        let poll = Poll::new().map_err(system("cannot poll"))?;
        let waker = Waker::new(poll.registry(), WAKE).map_err(system("cannot make a waker"))?;
        let mut signals = signal_hook_mio::v1_0::Signals::new(wanted_signals())
            .map_err(system("cannot listen for signals"))?;
        poll.registry()
            .register(&mut signals, SIGNAL, Interest::READABLE)
            .map_err(system("cannot listen for signals"))?;
        let (sender, reports) = bounded(REPORTS_MAX);
        let waker = Arc::new(waker);
        let store = {
            let (sender, waker) = (sender.clone(), Arc::clone(&waker));
            Worker::start(&outfit.database, outfit.synchronous, move |answer| {
                // The loop outlives the store's worker; if it is gone, nobody needs the answer.
                if sender.send(Report::Store(answer)).is_ok() {
                    let _ = waker.wake();
                }
            })?
        };
        let mut links = Links::new(store, sender, waker, outfit);
        let loaded = load(&mut links, &reports, key)?;
        let closed = settle::settle(&links, loaded, key, &model, |links, commit| {
            commit_now(links, &reports, commit)
        })?;
        let seat = Seat::new(key, closed, model);
        let events = Events::with_capacity(64);
        Ok(Reactor { poll, events, signals, reports, links, seat, stops: 0 })
    }

    /// The names of what ran.
    #[must_use]
    pub fn ids(&self) -> Ids {
        self.seat.ids()
    }

    /// A handle for threads that report to this loop.
    pub fn reporter(&self) -> impl Fn(Report) -> bool + Send + use<> {
        let (sender, waker) = self.links.reporter();
        move |report| sender.send(report).is_ok() && waker.wake().is_ok()
    }

    /// Starts a run and drives it to its end; gives its termination, and what went wrong on our
    /// side, if something did.
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn run(
        &mut self,
        submission: Submission,
        observer: &mut dyn Observer,
    ) -> Result<(Termination, Option<String>), ReactorError> {
        self.seat.submit(submission, &mut self.links, observer)?;
        loop {
            for notice in self.seat.take_notices() {
                observer.notice(&notice);
            }
            if let Some(termination) = self.seat.ended() {
                return Ok((termination, self.seat.fault()));
            }
            self.turn(observer)?;
        }
    }

    /// One pass: wait, take what has come, tick.
    fn turn(&mut self, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        let due = self.seat.due();
        let timeout = due.map(|at| Duration::from_millis(at.since(self.links.clock.now())));
        match self.poll.poll(&mut self.events, timeout) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(ReactorError::System { what: "cannot poll", source: e }),
        }
        let signalled = self.events.iter().any(|e| e.token() == SIGNAL);
        if signalled {
            self.on_signals(observer)?;
        }
        while let Ok(report) = self.reports.try_recv() {
            self.on_report(report, observer)?;
        }
        if due.is_some_and(|at| at <= self.links.clock.now()) {
            self.feed(Input::Tick, observer)?;
        }
        Ok(())
    }

    fn feed(&mut self, input: Input, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        self.seat.feed(input, &mut self.links, observer)
    }

    /// The first signal stops the run, the second one the process.
    fn on_signals(&mut self, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        let pending: Vec<i32> = self.signals.pending().collect();
        for signal in pending {
            self.stops += 1;
            if self.stops > 1 {
                self.seat.kill_all();
                std::process::exit(130);
            }
            let cause = if signal == SIGTERM { Cause::Restart } else { Cause::User };
            self.feed(Input::Abort(cause), observer)?;
        }
        Ok(())
    }

    fn on_report(
        &mut self,
        report: Report,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        match report {
            Report::Store(Answer::Written(ticket, result)) => {
                let result = result.map(|_| ());
                self.seat.committed(ticket, result, &mut self.links, observer)
            }
            Report::Store(Answer::Loaded(..) | Answer::Booted(..) | Answer::Found(..)) => Ok(()),
            Report::Model(op, event) => self.seat.model_event(op, event, &mut self.links, observer),
            Report::Failed(op, input) => self.feed(Input::Reply(op, input), observer),
            Report::Tool(op, input) => self.seat.tool_event(op, input, &mut self.links, observer),
            Report::Line(text) => self.on_line(text, observer),
        }
    }

    /// A message typed while the run goes on steers it.
    fn on_line(&mut self, text: String, observer: &mut dyn Observer) -> Result<(), ReactorError> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let shown: String = text.chars().take(60).collect();
        let input = self.seat.message(text, QueueKind::Steer, self.links.clock.now());
        let before = self.seat.refused();
        self.feed(input, observer)?;
        if self.seat.refused() > before {
            observer.notice(&format!("not taken, the run cannot be steered now: {shown}"));
        }
        Ok(())
    }
}

/// What ends a run in good order. A hang-up that was told to be ignored (`nohup`) stays ignored.
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

/// Loads a session before the loop runs.
fn load(
    links: &mut Links,
    reports: &Receiver<Report>,
    key: &str,
) -> Result<crate::store::Loaded, ReactorError> {
    let ticket = links.ticket();
    if !links.store.send(Job::Load(ticket, key.to_owned())) {
        return Err(ReactorError::StoreGone);
    }
    loop {
        match reports.recv() {
            Ok(Report::Store(Answer::Loaded(t, loaded))) if t == ticket => {
                return Ok(*loaded?);
            }
            Ok(_) => {}
            Err(_) => return Err(ReactorError::StoreGone),
        }
    }
}

/// Commits before the loop runs.
fn commit_now(
    links: &Links,
    reports: &Receiver<Report>,
    commit: crate::store::Commit,
) -> Result<(), ReactorError> {
    if !links.store.send(Job::commit(0, commit)) {
        return Err(ReactorError::StoreGone);
    }
    loop {
        match reports.recv() {
            Ok(Report::Store(Answer::Written(0, result))) => {
                return result.map(|_| ()).map_err(|denied| match denied {
                    crate::store::Denied::Failed(error) => ReactorError::Store(error),
                    crate::store::Denied::Fenced(why) => ReactorError::Refused(why),
                });
            }
            Ok(_) => {}
            Err(_) => return Err(ReactorError::StoreGone),
        }
    }
}
