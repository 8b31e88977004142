//! What a seat needs of the world around it: store, workers, clock, journal, observers.

use super::ReactorError;
use super::clock::Clock;
use super::crew::Crew;
use super::journal::Journal;
use super::prompter::{Prompted, Prompter};
use super::seat::Address;
use crate::base::{Millis, OpId, RunId, SessionId};
use crate::engine::sessions::{self, Key};
use crate::engine::{Assembled, Event, batch, reply};
use crate::model::call::ModelEvent;
use crate::model::http::Pool;
use crate::records::Found;
use crate::store::{Job, StoreError, Synchronous, Worker};
use crate::tools::ToolSpec;
use crate::tools::run::FileOrder;
use crate::transcript::{Entry, OpenCall};
use crossbeam_channel::Sender;
use mio::Waker;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What a process is equipped with; fixed for its life, but for what a [`super::Renewal`] brings.
#[derive(Debug)]
pub struct Outfit {
    /// The agent's database.
    pub database: PathBuf,
    /// When commits are on the disk.
    pub synchronous: Synchronous,
    /// Where tools work.
    pub cwd: PathBuf,
    /// This program, to start commands in a session of their own.
    pub helper: Option<PathBuf>,
    /// The user's shell.
    pub shell: Option<String>,
    /// The environment of commands.
    pub env: Arc<Vec<(String, String)>>,
    /// How long a command may run, seconds.
    pub exec_timeout_s: u64,
    /// `apply_patch` stays in the workspace.
    pub workspace_only_patch: bool,
    /// The tools.
    pub specs: Arc<Vec<ToolSpec>>,
    /// Makes system prompts.
    pub prompter: Arc<Prompter>,
    /// How histories are compacted; not at all by themselves where it is off.
    pub compaction: Option<super::compact::Compaction>,
    /// The optional journal.
    pub journal: Option<Journal>,
}

/// What workers report to the loop.
#[derive(Debug)]
pub enum Report {
    /// A model's stream moved.
    Model(Address, OpId, ModelEvent),
    /// A model call could not be started.
    Failed(Address, OpId, reply::Input),
    /// What stands before the conversation is ready.
    Prompted(Address, OpId, Assembled, Box<Prompted>),
    /// A tool moved.
    Tool(Address, OpId, batch::Input),
    /// A history was compacted, or not.
    Compacted(Address, OpId, Box<super::compact::Made>),
}

/// Whose answer the store gives.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Owner {
    /// A seat's commit.
    Seat(u32),
    /// An act of the sessions that is answered in the same words.
    Act(OpId),
    /// A session is being loaded.
    Load(OpId, Key),
    /// A session is being loaded before it is asked for.
    Ahead(Key),
    /// A loaded session is being made whole.
    Settle(OpId),
    /// What a client asked or changed, by its own number; a change with the conversation whose
    /// memory it makes stale.
    Client(u64, Option<Key>),
    /// A history is read back to be compacted.
    Compact(super::compact::For),
    /// The start.
    Boot,
    /// What nobody waits for.
    Nobody,
}

/// What an observer may look at beside an event.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The calls of the current batch: names, arguments, outcomes.
    pub calls: &'a [OpenCall],
}

/// Whose event it is.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The conversation.
    pub key: &'a Key,
    /// The run.
    pub run: &'a RunId,
    /// The session.
    pub session: &'a SessionId,
}

/// Somebody who is told what happens, after it was committed.
pub trait Observer {
    /// One event of a run.
    fn told(&mut self, at: &At<'_>, event: &Event, view: View<'_>);

    /// One event of the sessions: acceptance, ends, waits.
    fn of_sessions(&mut self, event: &sessions::Event);

    /// Something that a person should know beside the events: a repair, damage, a refusal. For a
    /// conversation, where it is about one.
    fn notice(&mut self, key: Option<&Key>, text: &str);

    /// What follows happens at this time.
    fn clock(&mut self, _now: Millis) {}

    /// Entries were stored; the first has this place in its session.
    fn stored(&mut self, _at: &At<'_>, _entries: &[Entry], _first: u64) {}

    /// The answer to a question that was asked under this number.
    fn found(&mut self, _ticket: u64, _found: Result<Found, StoreError>) {}

    /// A change that was asked for under this number is stored, or why not.
    fn changed(&mut self, _ticket: u64, _changed: Result<(), String>) {}
}

/// The links of a seat.
pub(super) struct Links {
    pub store: Worker,
    pub clock: Clock,
    pub outfit: Outfit,
    pub pool: Arc<Pool>,
    pub order: FileOrder,
    pub crew: Crew,
    /// The estimate of the tools that go with every request, tokens.
    pub overhead: u64,
    sender: Sender<Report>,
    waker: Arc<Waker>,
    tickets: u64,
    owed: BTreeMap<u64, Owner>,
}

impl Links {
    pub fn new(store: Worker, sender: Sender<Report>, waker: Arc<Waker>, outfit: Outfit) -> Links {
        let overhead = super::compact::overhead(&outfit.specs);
        Links {
            store,
            overhead,
            clock: Clock::start(),
            outfit,
            pool: Arc::new(Pool::new()),
            order: FileOrder::new(),
            crew: Crew::new(),
            sender,
            waker,
            tickets: 0,
            owed: BTreeMap::new(),
        }
    }

    /// A ticket for the store, and whose answer comes with it.
    pub fn ticket(&mut self, owner: Owner) -> u64 {
        self.tickets += 1;
        self.owed.insert(self.tickets, owner);
        self.tickets
    }

    /// Whose answer it is.
    pub fn owner(&mut self, ticket: u64) -> Owner {
        self.owed.remove(&ticket).unwrap_or(Owner::Nobody)
    }

    /// Hands a job to the store.
    ///
    /// # Errors
    /// The store has ended.
    pub fn send(&self, job: Job) -> Result<(), ReactorError> {
        if self.store.send(job) { Ok(()) } else { Err(ReactorError::StoreGone) }
    }

    /// Asks for what is stored of a session, for its compaction.
    ///
    /// # Errors
    /// The store has ended.
    pub fn load_for(&mut self, at: Address, op: OpId, key: &str) -> Result<(), ReactorError> {
        let ticket = self.ticket(Owner::Compact((at, op)));
        self.send(Job::Load(ticket, key.to_owned()))
    }

    /// Where workers report.
    pub fn reporter(&self) -> (Sender<Report>, Arc<Waker>) {
        (self.sender.clone(), Arc::clone(&self.waker))
    }
}
