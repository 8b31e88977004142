//! What a seat needs of the world around it: store, workers, clock, journal, observers.

use super::clock::Clock;
use super::crew::Crew;
use super::journal::Journal;
use crate::base::OpId;
use crate::engine::{Event, batch, reply};
use crate::model::call::ModelEvent;
use crate::model::http::Pool;
use crate::store::{Answer, Synchronous, Worker};
use crate::tools::ToolSpec;
use crate::tools::run::FileOrder;
use crate::transcript::OpenCall;
use crossbeam_channel::Sender;
use mio::Waker;
use std::path::PathBuf;
use std::sync::Arc;

/// What a process is equipped with; fixed for its life.
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
    /// The system prompt.
    pub system: String,
    /// The optional journal.
    pub journal: Option<Journal>,
}

/// What workers report to the loop.
#[derive(Debug)]
pub enum Report {
    /// The store answered.
    Store(Answer),
    /// A model's stream moved.
    Model(OpId, ModelEvent),
    /// A model call could not be started.
    Failed(OpId, reply::Input),
    /// A tool moved.
    Tool(OpId, batch::Input),
    /// A line was typed.
    Line(String),
}

/// What an observer may look at beside an event.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The calls of the current batch: names, arguments, outcomes.
    pub calls: &'a [OpenCall],
}

/// Somebody who is told what happens, after it was committed.
pub trait Observer {
    /// One event.
    fn told(&mut self, event: &Event, view: View<'_>);

    /// Something that a person should know beside the events: a repair, damage, a refusal.
    fn notice(&mut self, text: &str);
}

/// The links of a seat.
pub(super) struct Links {
    pub store: Worker,
    pub clock: Clock,
    pub outfit: Outfit,
    pub pool: Arc<Pool>,
    pub order: FileOrder,
    pub crew: Crew,
    sender: Sender<Report>,
    waker: Arc<Waker>,
    tickets: u64,
}

impl Links {
    pub fn new(store: Worker, sender: Sender<Report>, waker: Arc<Waker>, outfit: Outfit) -> Links {
        Links {
            store,
            clock: Clock::start(),
            outfit,
            pool: Arc::new(Pool::new()),
            order: FileOrder::new(),
            crew: Crew::new(),
            sender,
            waker,
            tickets: 0,
        }
    }

    /// A ticket for the store.
    pub fn ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    /// Where workers report.
    pub fn reporter(&self) -> (Sender<Report>, Arc<Waker>) {
        (self.sender.clone(), Arc::clone(&self.waker))
    }
}
