//! The writer of the gateway's database. It is a thread only while there is something to write.

use super::{devices, ledger};
use crate::base::Millis;
use crate::gateway::audit::{Page, Query, Row};
use crate::gateway::auth::Change;
use crate::store::StoreError;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most writes and readings that wait; then who asks waits too.
const JOBS_MAX: usize = 256;
/// Most audit rows that wait; further ones are dropped.
const ROWS_WAITING_MAX: usize = 4_096;
/// Most audit rows of one transaction: not more than one transaction can drop.
const ROWS_TOGETHER_MAX: usize = 512;
/// How long rows wait for others.
const GATHER: Duration = Duration::from_millis(150);
/// How long the thread stays without work.
const IDLE: Duration = Duration::from_secs(10);

/// An answer to a ticket.
#[derive(Debug)]
pub enum Answer {
    /// To [`State::write`].
    Written(u64, Result<(), StoreError>),
    /// To [`State::page`].
    Page(u64, Result<Page, StoreError>),
}

#[derive(Debug)]
enum Job {
    Write(u64, Vec<Change>),
    Page(u64, Query, Millis),
    Prune(Millis),
}

/// The connection, and how many rows the ledger has.
#[derive(Debug)]
struct Held {
    db: Connection,
    rows: u64,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    audit: VecDeque<Row>,
    /// The time of the last audit rows.
    now: Millis,
    /// Audit rows that were not written.
    dropped: u64,
    /// The connection, while no thread has it.
    held: Option<Held>,
    ending: bool,
}

struct Shared {
    path: PathBuf,
    queue: Mutex<Queue>,
    /// Something has come, or somebody ends.
    work: Condvar,
    /// There is room again.
    room: Condvar,
    answer: Box<dyn Fn(Answer) + Send + Sync>,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole between any two statements: who panicked left it so.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The gateway's database.
pub struct State {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl State {
    pub(super) fn new(
        path: PathBuf,
        db: Connection,
        rows: u64,
        answer: impl Fn(Answer) + Send + Sync + 'static,
    ) -> State {
        let queue = Queue { held: Some(Held { db, rows }), ..Queue::default() };
        let shared = Shared {
            path,
            queue: Mutex::new(queue),
            work: Condvar::new(),
            room: Condvar::new(),
            answer: Box::new(answer),
        };
        State { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// Writes changes in one transaction; [`Answer::Written`] tells when they are stored.
    ///
    /// # Errors
    /// When the writer cannot be started; nothing is written then.
    pub fn write(&self, ticket: u64, changes: Vec<Change>) -> Result<(), StoreError> {
        self.push(Job::Write(ticket, changes))
    }

    /// Reads a page of the ledger; [`Answer::Page`] brings it.
    ///
    /// # Errors
    /// When the worker cannot be started.
    pub fn page(&self, ticket: u64, query: Query, now: Millis) -> Result<(), StoreError> {
        self.push(Job::Page(ticket, query, now))
    }

    /// Drops what the ledger holds too long; to be asked for every hour.
    ///
    /// # Errors
    /// When the worker cannot be started.
    pub fn prune(&self, now: Millis) -> Result<(), StoreError> {
        self.push(Job::Prune(now))
    }

    /// Hands over a row for the ledger. It is dropped and counted when too many wait, or when it
    /// cannot be written; nobody waits for it (U8).
    pub fn audit(&self, row: Row, now: Millis) {
        let mut queue = self.shared.queue();
        if queue.audit.len() >= ROWS_WAITING_MAX {
            queue.dropped += 1;
            return;
        }
        queue.audit.push_back(row);
        queue.now = now;
        // The writer waits for more anyway: it is woken for the first one, and for a full lot.
        let woken = queue.audit.len() > 1 && !queue.audit.len().is_multiple_of(ROWS_TOGETHER_MAX);
        if !woken && self.wake(&mut queue).is_err() {
            queue.dropped += queue.audit.len() as u64;
            queue.audit.clear();
        }
    }

    /// How many rows of the ledger were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.queue().dropped
    }

    fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut queue = self.shared.queue();
        while queue.jobs.len() >= JOBS_MAX {
            queue = self.shared.room.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        self.wake(&mut queue)?;
        queue.jobs.push_back(job);
        Ok(())
    }

    /// A thread has the connection after this, and looks at the queue.
    fn wake(&self, queue: &mut MutexGuard<'_, Queue>) -> Result<(), StoreError> {
        let Some(held) = queue.held.take() else {
            self.shared.work.notify_one();
            return Ok(());
        };
        let shared = Arc::clone(&self.shared);
        // The connection goes over by a slot: a thread that does not start leaves it here.
        let slot = Arc::new(Mutex::new(Some(held)));
        let theirs = Arc::clone(&slot);
        let started = std::thread::Builder::new()
            .name("state".into())
            .stack_size(512 * 1024)
            .spawn(move || {
                let held = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(held) = held {
                    work(&shared, held);
                }
            });
        match started {
            Ok(thread) => {
                let mut own = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
                *own = Some(thread);
                Ok(())
            }
            Err(error) => {
                queue.held = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                Err(StoreError::from_io(&self.shared.path, &error))
            }
        }
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("path", &self.shared.path).finish_non_exhaustive()
    }
}

impl Drop for State {
    /// What was handed over is written before the writer ends.
    fn drop(&mut self) {
        self.shared.queue().ending = true;
        self.shared.work.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared, mut held: Held) {
    loop {
        let mut queue = shared.queue();
        while queue.jobs.is_empty() && queue.audit.is_empty() && !queue.ending {
            let waited = shared.work.wait_timeout(queue, IDLE);
            let (back, out) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = back;
            if out.timed_out() {
                break;
            }
        }
        queue = gathered(shared, queue);
        let jobs: Vec<Job> = queue.jobs.drain(..).collect();
        let together = queue.audit.len().min(ROWS_TOGETHER_MAX);
        let rows: Vec<Row> = queue.audit.drain(..together).collect();
        let now = queue.now;
        if jobs.is_empty() && rows.is_empty() {
            // Under the queue's lock: whoever comes next finds the connection.
            queue.held = Some(held);
            return;
        }
        drop(queue);
        shared.room.notify_all();
        do_jobs(shared, &mut held, jobs, (rows, now));
    }
}

/// Rows alone wait a moment for others: one transaction holds them all.
fn gathered<'q>(shared: &'q Shared, mut queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
    let until = Instant::now() + GATHER;
    loop {
        let alone = queue.jobs.is_empty() && !queue.audit.is_empty() && !queue.ending;
        let left = until.saturating_duration_since(Instant::now());
        if !alone || left.is_zero() || queue.audit.len() >= ROWS_TOGETHER_MAX {
            return queue;
        }
        let waited = shared.work.wait_timeout(queue, left);
        queue = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
}

fn do_jobs(shared: &Shared, held: &mut Held, jobs: Vec<Job>, mut audit: (Vec<Row>, Millis)) {
    let mut writes = Vec::new();
    for job in jobs {
        match job {
            Job::Write(ticket, changes) => writes.push((ticket, changes)),
            Job::Page(ticket, query, now) => {
                // A page shows what was handed over before it.
                commit(shared, held, std::mem::take(&mut writes));
                record_all(shared, held, &mut audit);
                let page = ledger::page(&held.db, &query, now)
                    .map_err(|e| StoreError::from_sqlite(&shared.path, &e));
                (shared.answer)(Answer::Page(ticket, page));
            }
            Job::Prune(now) => {
                commit(shared, held, std::mem::take(&mut writes));
                record_all(shared, held, &mut audit);
                // What is not dropped now is too old in an hour as well.
                held.rows = ledger::prune_all(&mut held.db, now).unwrap_or(held.rows);
            }
        }
    }
    commit(shared, held, writes);
    record_all(shared, held, &mut audit);
}

/// Writes rows of the ledger, or counts them as dropped.
fn record_all(shared: &Shared, held: &mut Held, audit: &mut (Vec<Row>, Millis)) {
    let rows = std::mem::take(&mut audit.0);
    if !rows.is_empty() && record(held, &rows, audit.1).is_err() {
        shared.queue().dropped += rows.len() as u64;
    }
}

/// Writes what waits in one transaction, and answers every ticket.
fn commit(shared: &Shared, held: &mut Held, writes: Vec<(u64, Vec<Change>)>) {
    if writes.is_empty() {
        return;
    }
    let mut all = || {
        let tx = held.db.transaction()?;
        for change in writes.iter().flat_map(|(_, changes)| changes) {
            devices::write(&tx, change)?;
        }
        tx.commit()
    };
    let result = all().map_err(|e| StoreError::from_sqlite(&shared.path, &e));
    for (ticket, _) in writes {
        (shared.answer)(Answer::Written(ticket, result.clone()));
    }
}

/// Writes rows of the ledger and drops what is too much then.
fn record(held: &mut Held, rows: &[Row], now: Millis) -> rusqlite::Result<()> {
    let tx = held.db.transaction()?;
    let mut count = held.rows;
    for row in rows {
        count += u64::from(ledger::write(&tx, row)?);
    }
    let (left, _) = ledger::prune(&tx, count, now)?;
    tx.commit()?;
    held.rows = left;
    Ok(())
}
