//! Work with files that the edge does beside the loop: the config and the log (Y19 to Y22).

use super::frame::Fault;
use super::hub::{Gateway, Sight};
use super::out::{Conn, Do};
use crate::base::Millis;
use crate::config::Wanted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};

/// What is to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum Chore {
    /// The config is read.
    Config,
    /// The config is changed, if it is the one of this hash.
    Change(Wanted, Option<String>),
    /// The end of the log is read.
    Tail {
        /// From this byte on.
        cursor: Option<u64>,
        /// Most lines.
        limit: u64,
        /// Most bytes.
        bytes: u64,
    },
}

/// What has come of it.
#[derive(Clone, PartialEq, Debug)]
pub enum ChoreGot {
    /// The config.
    Config(Box<ConfigSeen>),
    /// The config is changed.
    Changed(Box<ConfigChanged>),
    /// The change was refused, and nothing was written.
    Refused {
        /// Why, in words.
        message: String,
        /// What is wrong with the config: objects with `path` and `message`.
        issues: Vec<Value>,
    },
    /// A piece of the log, as clients are told.
    Tail(Value),
    /// It could not be done.
    Failed(String),
}

/// The config as it is stored, marks in place of secrets.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ConfigSeen {
    /// Whether there is a file.
    pub exists: bool,
    /// Its text; nothing if it is wrong.
    pub raw: Option<String>,
    /// What it says.
    pub source: Value,
    /// The hash of its bytes.
    pub hash: Option<String>,
    /// The hash of what holds in this process.
    pub applied: Option<String>,
    /// What is wrong with it: objects with `path` and `message`.
    pub issues: Vec<Value>,
}

/// A change of the config that was made.
#[derive(Clone, PartialEq, Debug)]
pub struct ConfigChanged {
    /// The config as it is now, marks in place of secrets.
    pub source: Value,
    /// The hash of its bytes.
    pub hash: Option<String>,
    /// The file was written; it is not if nothing would differ.
    pub written: bool,
    /// The paths of what holds now and did not before.
    pub applied: Vec<String>,
    /// The paths of what waits for the next start.
    pub restart: Vec<String>,
}

/// Writes of one client within this time, ms, are counted together (protocol 1.6).
const WRITES_MS: u64 = 60_000;
/// Most writes of one method by one client in that time.
const WRITES_MAX: usize = 30;
/// Clients and methods that are counted; who comes when all are in use waits.
const WRITERS_MAX: usize = 1_024;

/// Who has written lately, by method, device and address.
pub(super) type Writes = BTreeMap<(String, String), VecDeque<Millis>>;

impl Gateway {
    /// Has something done; the answer to the request follows it.
    pub(super) fn chore(&mut self, conn: Conn, id: &str, method: &str, chore: Chore) {
        let ticket = self.ticket();
        self.chores.insert(ticket, (conn, id.to_owned(), method.to_owned()));
        self.out.push(Do::Chore(ticket, Box::new(chore)));
    }

    /// It is done.
    pub fn chore_done(&mut self, ticket: u64, got: ChoreGot, sight: Sight<'_>) {
        self.see(sight);
        let Some((conn, id, method)) = self.chores.remove(&ticket) else { return };
        let answer = match got {
            ChoreGot::Config(seen) => Ok(self.config_seen(*seen)),
            ChoreGot::Changed(changed) => Ok(self.config_changed(&method, *changed)),
            ChoreGot::Refused { message, issues } => {
                let fault = Fault::invalid(message);
                let details = (!issues.is_empty()).then(|| json!({ "issues": issues }));
                Err(Fault { details, ..fault })
            }
            ChoreGot::Tail(tail) => Ok(tail),
            ChoreGot::Failed(why) => Err(Fault::failed(why)),
        };
        self.respond(conn, &id, answer);
    }

    /// Refuses a client that writes too often.
    pub(super) fn may_write(&mut self, conn: Conn, method: &str) -> Result<(), Fault> {
        let client = self.clients.get(&conn);
        let who = client.map_or(String::new(), |client| {
            let (device, ip) = (client.device.as_deref(), client.ip.as_deref());
            format!("{} {}", device.unwrap_or_default(), ip.unwrap_or_default())
        });
        let now = self.now;
        self.writes.retain(|_, times| {
            times.retain(|at| now.since(*at) < WRITES_MS);
            !times.is_empty()
        });
        let key = (method.to_owned(), who);
        let full = self.writes.len() >= WRITERS_MAX && !self.writes.contains_key(&key);
        let times = if full { None } else { Some(self.writes.entry(key).or_default()) };
        let first = match times {
            Some(times) if times.len() < WRITES_MAX => {
                times.push_back(now);
                return Ok(());
            }
            Some(times) => times.front().copied().unwrap_or(now),
            None => now,
        };
        let wait = WRITES_MS.saturating_sub(now.since(first)).max(1);
        let fault = Fault::unavailable(format!("too many calls of {method}"));
        let details = json!({"method": method, "limit": format!("{WRITES_MAX} per 60s")});
        Err(Fault { retry_after_ms: Some(wait), details: Some(details), ..fault })
    }
}
