//! What binds the gateway to the reactor: observers' words go in, what is to be done comes out and
//! is done.

use super::files::Files;
use super::log::Log;
use super::reload::{Done, Settled};
use crate::base::{Level, Millis};
use crate::engine::Event;
use crate::engine::sessions::{self, Key};
use crate::gateway::audit::{Page, Query};
use crate::gateway::auth::Change;
use crate::gateway::{
    Chore, ChoreGot, Conn, Do, Facts, FileGot, FileWanted, Frame, Gateway, Sight, ToolAsked, Ways,
};
use crate::reactor::{At, Observer, Reactor, ReactorError, View, entropy, plain, request};
use crate::records::Found;
use crate::store::StoreError;
use crate::store::state::{Answer, State};
use crate::transcript::{Entry, ToolOutput};
use crossbeam_channel::{Receiver, Sender};
use serde_json::Value;
use std::collections::{BTreeSet, VecDeque};
use std::io::Write;
use std::sync::Arc;

/// The connection that is a pair of pipes.
const PIPE: Conn = 0;

/// How long clients have to take the last frames, ms.
const GOODBYE_MS: u64 = 1_000;

/// Answers of the store that wait for a look at the sessions.
enum Answered {
    Found(u64, Result<Found, String>),
    Changed(u64, Result<(), String>),
    Kept(u64, Result<(), String>),
    Page(u64, Result<Page, String>),
    File(u64, FileGot),
    Tool(u64, Result<ToolOutput, String>),
    Chore(u64, Box<Done>),
}

pub(super) struct House {
    pub gateway: Gateway,
    pub drained: bool,
    safe: BTreeSet<String>,
    out: std::io::BufWriter<std::io::Stdout>,
    answered: VecDeque<Answered>,
    /// The gateway's own database, and its answers.
    state: Option<State>,
    kept: Option<Receiver<Answer>>,
    /// Files of the Control UI.
    files: Option<Arc<Files>>,
    /// The config, as far as it is taken up.
    settled: Option<Settled>,
    log: Log,
    at: Millis,
    /// What workers have done aside.
    aside: (Sender<Answered>, Receiver<Answered>),
    /// Sockets that may have something to read.
    pub(super) unread: BTreeSet<Conn>,
    /// Sockets that may take more.
    pub(super) unwritten: BTreeSet<Conn>,
    pub(super) buffer: Vec<u8>,
}

impl House {
    pub fn new(facts: Facts, safe: BTreeSet<String>, log: Log) -> House {
        let ways = Ways { identity: request, plain };
        House {
            gateway: Gateway::new(facts, ways, Millis(0)),
            drained: false,
            safe,
            out: std::io::BufWriter::new(std::io::stdout()),
            answered: VecDeque::new(),
            state: None,
            kept: None,
            files: None,
            settled: None,
            log,
            at: crate::reactor::Clock::start().now(),
            aside: crossbeam_channel::unbounded(),
            unread: BTreeSet::new(),
            unwritten: BTreeSet::new(),
            buffer: vec![],
        }
    }

    /// The gateway has a database of its own.
    pub fn keeps(&mut self, state: State, answers: Receiver<Answer>) {
        (self.state, self.kept) = (Some(state), Some(answers));
    }

    /// The directory of the Control UI.
    pub fn serves(&mut self, files: Option<Files>) {
        self.files = files.map(Arc::new);
    }

    /// Where the config comes from.
    pub fn settles(&mut self, settled: Settled) {
        self.settled = Some(settled);
    }

    /// A line of the log about the process itself.
    pub fn note(&mut self, of: &'static str, words: &str, now: Millis) {
        self.log.write(now, Level::Info, of, words.to_owned());
    }

    fn chore(&mut self, ticket: u64, chore: Chore, reactor: &Reactor) {
        let Some(settled) = &self.settled else {
            let got = ChoreGot::Failed("this gateway has no config".to_owned());
            return self.answered.push_back(Answered::Chore(ticket, Box::new(got.into())));
        };
        let (sender, wake) = (self.aside.0.clone(), reactor.waking());
        let work = settled.work(chore, move |done| {
            if sender.send(Answered::Chore(ticket, Box::new(done))).is_ok() {
                wake();
            }
        });
        if !reactor.aside(work) {
            let got = ChoreGot::Failed("the system gives no thread for that".to_owned());
            self.answered.push_back(Answered::Chore(ticket, Box::new(got.into())));
        }
    }

    /// What was done with the config holds before its asker is told.
    fn chore_done(
        &mut self,
        ticket: u64,
        mut done: Done,
        reactor: &mut Reactor,
    ) -> Result<(), ReactorError> {
        let taken = done.config.take().zip(self.settled.as_ref());
        let taken = taken.map(|(config, settled)| (settled.taken(&config), config.log));
        match taken {
            Some((Ok((facts, renewal)), level)) => {
                self.log.level = level;
                self.gateway.renew(facts);
                reactor.renew(renewal, self)?;
            }
            // It was tried before the file was written.
            Some((Err(failed), _)) => done.got = ChoreGot::Failed(failed),
            None => {}
        }
        if let Some(words) = done.note {
            self.note("config", &words, reactor.now());
        }
        self.gateway.chore_done(ticket, done.got, sight(reactor));
        Ok(())
    }

    fn file(&mut self, wanted: FileWanted, reactor: &Reactor) {
        let ticket = wanted.ticket;
        let Some(files) = self.files.clone() else {
            return self.answered.push_back(Answered::File(ticket, FileGot::Missing));
        };
        let (sender, wake) = (self.aside.0.clone(), reactor.waking());
        let work = move || {
            if sender.send(Answered::File(ticket, files.read(&wanted))).is_ok() {
                wake();
            }
        };
        if !reactor.aside(work) {
            let got = FileGot::Failed("the system gives no thread to read the file".to_owned());
            self.answered.push_back(Answered::File(ticket, got));
        }
    }

    fn tool(&mut self, asked: ToolAsked, reactor: &Reactor) {
        let ToolAsked { ticket, name, args } = asked;
        let (sender, wake) = (self.aside.0.clone(), reactor.waking());
        let done = move |output| {
            if sender.send(Answered::Tool(ticket, Ok(output))).is_ok() {
                wake();
            }
        };
        if let Err(why) = reactor.invoke(&name, &args, done) {
            self.answered.push_back(Answered::Tool(ticket, Err(why)));
        }
    }

    fn keep(&mut self, ticket: u64, changes: Vec<Change>) {
        let failed = match &self.state {
            None => Some("there is no database for devices".to_owned()),
            Some(state) => state.write(ticket, changes).err().map(|e| e.to_string()),
        };
        if let Some(why) = failed {
            self.answered.push_back(Answered::Kept(ticket, Err(why)));
        }
    }

    fn page(&mut self, ticket: u64, query: Query, now: Millis) {
        let asked = match &self.state {
            None => Err("this gateway has no ledger".to_owned()),
            Some(state) => state.page(ticket, query, now).map_err(|e| e.to_string()),
        };
        if let Err(why) = asked {
            self.answered.push_back(Answered::Page(ticket, Err(why)));
        }
    }

    /// A parent process is at the other end of the pipes.
    pub fn open_pipe(&mut self, now: Millis) {
        self.gateway.join(PIPE, now);
    }

    /// A line for the parent.
    pub fn say(&mut self, value: &Value) {
        self.write(&Frame::whole(value));
    }

    fn write(&mut self, frame: &Frame) {
        // A parent that has gone does not stop what was accepted.
        let _ = self.out.write_all(&frame.head);
        let _ = self.out.write_all(&frame.tail);
        let _ = self.out.write_all(b"\n");
    }

    pub fn flush(&mut self) {
        let _ = self.out.flush();
    }

    /// A line from the parent.
    pub fn line(&mut self, reactor: &mut Reactor, line: &str) -> Result<(), ReactorError> {
        if line.trim().is_empty() {
            return Ok(());
        }
        self.gateway.text(PIPE, line, sight(reactor));
        self.settle(reactor)
    }

    /// Does what the gateway wants done, until it wants nothing more.
    pub fn settle(&mut self, reactor: &mut Reactor) -> Result<(), ReactorError> {
        loop {
            while let Some(answer) = self.kept.as_ref().and_then(|kept| kept.try_recv().ok()) {
                self.answered.push_back(match answer {
                    Answer::Written(ticket, result) => {
                        Answered::Kept(ticket, result.map_err(|e| e.to_string()))
                    }
                    Answer::Page(ticket, page) => {
                        Answered::Page(ticket, page.map_err(|e| e.to_string()))
                    }
                });
            }
            self.answered.extend(self.aside.1.try_iter());
            while let Some(answered) = self.answered.pop_front() {
                match answered {
                    Answered::File(ticket, got) => self.gateway.file(ticket, got, sight(reactor)),
                    Answered::Tool(ticket, result) => {
                        self.gateway.tool_done(ticket, result, sight(reactor));
                    }
                    Answered::Chore(ticket, done) => self.chore_done(ticket, *done, reactor)?,
                    Answered::Page(ticket, page) => {
                        self.gateway.paged(ticket, page, sight(reactor));
                    }
                    Answered::Kept(ticket, result) => {
                        self.gateway.device_kept(ticket, result, sight(reactor));
                    }
                    Answered::Found(ticket, found) => {
                        self.gateway.found(ticket, found, sight(reactor));
                    }
                    Answered::Changed(ticket, result) => {
                        self.gateway.changed(ticket, result, sight(reactor));
                    }
                }
            }
            let now = reactor.now();
            if self.gateway.due().is_some_and(|at| at <= now) {
                self.gateway.tick(now);
                self.gateway.lines_tick(sight(reactor));
            }
            let wanted = self.gateway.take();
            if wanted.is_empty() {
                self.write_sockets(reactor);
                reactor.wake_at(self.gateway.due());
                return Ok(());
            }
            for what in wanted {
                self.perform(what, reactor)?;
            }
        }
    }

    /// Everybody is told that the process ends; who takes it has a moment for that.
    pub fn goodbye(&mut self, reactor: &mut Reactor) -> Result<(), ReactorError> {
        let until = reactor.now().plus(GOODBYE_MS);
        while reactor.now() < until && self.gateway.connected() > 0 {
            reactor.wake_at(Some(until));
            reactor.turn(self)?;
            self.net(reactor)?;
            self.settle(reactor)?;
        }
        Ok(())
    }

    fn perform(&mut self, what: Do, reactor: &mut Reactor) -> Result<(), ReactorError> {
        self.gateway.look(&what, reactor.sessions());
        match what {
            Do::Send { frame, .. } => self.write(&frame),
            Do::Keep(ticket, changes) => self.keep(ticket, changes),
            Do::Audit(row) => {
                if let Some(state) = &self.state {
                    state.audit(*row, reactor.now());
                }
            }
            Do::Page(ticket, query) => self.page(ticket, *query, reactor.now()),
            Do::File(wanted) => self.file(wanted, reactor),
            Do::Tool(asked) => self.tool(asked, reactor),
            Do::Chore(ticket, chore) => self.chore(ticket, *chore, reactor),
            Do::Log(level, of, words) => self.log.write(reactor.now(), level, of, words),
            Do::Give(input) => reactor.give(input, self)?,
            Do::Ask(ticket, query) => reactor.ask(ticket, query)?,
            Do::Want(ticket, key, wanted) => {
                if let Some(entry) = reactor.want(ticket, &key, wanted)? {
                    self.gateway.entry_named(ticket, entry);
                }
            }
            Do::Stop(..) | Do::ShowQueue(..) => {}
        }
        Ok(())
    }
}

pub(super) fn sight(reactor: &Reactor) -> Sight<'_> {
    let (now, boundary) = (reactor.now(), reactor.boundary());
    Sight { now, boundary, sessions: reactor.sessions(), fresh: (entropy(), entropy()) }
}

impl Observer for House {
    fn told(&mut self, at: &At<'_>, event: &Event, view: View<'_>) {
        let safe = &self.safe;
        self.gateway.told(at.key, at.run, event, view.calls, |name| safe.contains(name));
    }

    fn of_sessions(&mut self, event: &sessions::Event) {
        self.drained |= matches!(event, sessions::Event::Drained);
        self.gateway.of_sessions(event);
    }

    fn stored(&mut self, at: &At<'_>, entries: &[Entry], first: u64) {
        self.gateway.stored(at.key, at.session.as_str(), at.run, entries, first);
    }

    fn found(&mut self, ticket: u64, found: Result<Found, StoreError>) {
        self.answered.push_back(Answered::Found(ticket, found.map_err(|e| e.to_string())));
    }

    fn changed(&mut self, ticket: u64, changed: Result<(), String>) {
        self.answered.push_back(Answered::Changed(ticket, changed));
    }

    fn clock(&mut self, now: Millis) {
        self.at = now;
        self.gateway.clock(now);
    }

    fn notice(&mut self, key: Option<&Key>, text: &str) {
        // The words may repeat what was stored; the log says only that there were some.
        let about = key.map_or_else(|| "the process".to_owned(), |key| key.to_string());
        let line = format!("a notice about {about} is on standard error");
        self.log.write(self.at, Level::Warn, "notices", line);
        let of = key.map_or(String::new(), |key| format!("{key}: "));
        eprintln!("stepclaw: {of}{text}");
    }
}
