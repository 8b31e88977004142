//! The writer worker: one thread, one connection, group commit.

use super::{
    Boot, Commit, Loaded, Part, PartResult, StoreError, Synchronous, boot, execute_all, open,
    query, read,
};
use crate::records::{Found, Query, RunRow};
use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Most jobs that wait for the writer; a full queue holds back the one who fills it.
const JOBS_MAX: usize = 256;
/// Most parts that one transaction takes.
const GROUP_MAX: usize = 64;

/// Work for the writer; `u64` is the caller's ticket.
#[derive(Debug)]
pub enum Job {
    /// Commit one part.
    Write(u64, Part),
    /// Read one session.
    Load(u64, String),
    /// Read what was under way.
    Boot(u64),
    /// Read one run.
    Find(u64, String),
    /// Answer a client's question.
    Query(u64, Box<Query>),
}

impl Job {
    /// Commits what a run writes.
    #[must_use]
    pub fn commit(ticket: u64, commit: Commit) -> Job {
        Job::Write(ticket, Part::Commit(Box::new(commit)))
    }
}

/// The writer's answer to a ticket.
#[derive(Debug)]
pub enum Answer {
    /// To a write.
    Written(u64, PartResult),
    /// To a load.
    Loaded(u64, Result<Box<Loaded>, StoreError>),
    /// To a start.
    Booted(u64, Result<Box<Boot>, StoreError>),
    /// To a search for a run.
    Found(u64, Result<Option<Box<RunRow>>, StoreError>),
    /// To a client's question.
    Queried(u64, Result<Found, StoreError>),
}

/// The writer thread.
#[derive(Debug)]
pub struct Worker {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Opens the database on the caller's thread, so that errors are known at once, and starts
    /// the writer. `answer` is called on the writer's thread.
    ///
    /// # Errors
    /// What opening says.
    pub fn start(
        path: &Path,
        synchronous: Synchronous,
        answer: impl Fn(Answer) + Send + 'static,
    ) -> Result<Worker, StoreError> {
        let db = open(path, synchronous)?;
        let (jobs, inbox) = bounded(JOBS_MAX);
        let path = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("store".into())
            .stack_size(512 * 1024)
            .spawn({
                let path = path.clone();
                move || work(db, &path, &inbox, &answer)
            })
            .map_err(|e| StoreError::from_io(&path, &e))?;
        Ok(Worker { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Hands over a job; `false` if the writer has ended.
    pub fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl Drop for Worker {
    /// What was handed over is written before the writer ends.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn work(mut db: Connection, path: &Path, inbox: &Receiver<Job>, answer: &impl Fn(Answer)) {
    let path: PathBuf = path.to_owned();
    let mut next = inbox.recv().ok();
    while let Some(job) = next.take() {
        match job {
            Job::Load(ticket, key) => {
                let loaded = named(&path, read::load(&db, &key).map(Box::new));
                answer(Answer::Loaded(ticket, loaded));
            }
            Job::Boot(ticket) => {
                answer(Answer::Booted(ticket, named(&path, boot::boot(&db).map(Box::new))));
            }
            Job::Find(ticket, run) => {
                let found = read::run(&db, &run).map(|row| row.map(Box::new));
                answer(Answer::Found(ticket, named(&path, found)));
            }
            Job::Query(ticket, question) => {
                answer(Answer::Queried(ticket, named(&path, query::query(&db, &question))));
            }
            Job::Write(ticket, part) => {
                let (mut tickets, mut parts) = (vec![ticket], vec![part]);
                while parts.len() < GROUP_MAX {
                    match inbox.try_recv() {
                        Ok(Job::Write(ticket, part)) => {
                            tickets.push(ticket);
                            parts.push(part);
                        }
                        Ok(other) => {
                            next = Some(other);
                            break;
                        }
                        Err(_) => break,
                    }
                }
                let results = execute_all(&mut db, &path, &parts);
                for (ticket, result) in tickets.into_iter().zip(results) {
                    answer(Answer::Written(ticket, result));
                }
            }
        }
        if next.is_none() {
            next = inbox.recv().ok();
        }
    }
}

fn named<T>(path: &Path, result: rusqlite::Result<T>) -> Result<T, StoreError> {
    result.map_err(|e| StoreError::from_sqlite(path, &e))
}
