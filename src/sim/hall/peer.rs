//! A client's view of its socket, and what a store would say.

use crate::base::{Millis, SessionId};
use crate::engine::Termination;
use crate::engine::sessions::Outcome;
use crate::records::{Found, Listed, Page, Query, SessionRow};
use serde_json::Value;

/// A socket, as its client sees it.
#[derive(Debug, Default)]
pub(super) struct Peer {
    bytes: Vec<u8>,
    upgraded: bool,
    seq: u64,
}

impl Peer {
    /// Takes bytes: the head of the upgrade, then frames whose events count up.
    pub fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        if !self.upgraded {
            let Some(at) = self.bytes.windows(4).position(|w| w == b"\r\n\r\n") else { return };
            self.bytes.drain(..at + 4);
            self.upgraded = true;
        }
        while let Some((head, length)) = self.length() {
            if self.bytes.len() < head + length {
                return;
            }
            let opcode = self.bytes[0] & 15;
            let text = String::from_utf8_lossy(&self.bytes[head..head + length]).into_owned();
            self.bytes.drain(..head + length);
            let frame: Value = match opcode {
                1 => serde_json::from_str(&text).unwrap_or_default(),
                _ => continue,
            };
            if let Some(seq) = frame["seq"].as_u64() {
                assert_eq!(seq, self.seq + 1, "9: the numbers of a connection: {text}");
                self.seq = seq;
            }
        }
    }

    fn length(&self) -> Option<(usize, usize)> {
        let second = usize::from(*self.bytes.get(1)?);
        match second {
            126 => {
                let b = self.bytes.get(2..4)?;
                Some((4, usize::from(b[0]) << 8 | usize::from(b[1])))
            }
            127 => {
                let b = self.bytes.get(2..10)?;
                Some((10, b.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))))
            }
            n => Some((2, n)),
        }
    }
}

/// What the store knows of a run.
pub(super) fn outcome(end: Option<&Termination>) -> Outcome {
    Outcome {
        accepted_at: Millis(1),
        started_at: None,
        ended_at: end.map(|_| Millis(2)),
        termination: end.cloned(),
        into: None,
    }
}

/// The store's answer to a question.
pub(super) fn answer(query: &Query, there: bool) -> Found {
    let one = |key: &str| Listed { row: row(key), last: None, title: None, latest: None };
    match query {
        Query::List(_) => Found::List(vec![one("agent:main:main")], 1),
        Query::Session(key) => Found::Session(there.then(|| Box::new(one(key)))),
        Query::History { key, .. } => Found::History(Box::new(Page {
            session: there.then(|| one(key)),
            entries: vec![],
            total: 0,
            waiting: vec![],
        })),
        Query::Entry { .. } => Found::Entry(None),
        Query::Preview { .. } => Found::Preview(vec![]),
        Query::KeyOf(_) | Query::Labelled(_) => Found::Keys(vec![]),
    }
}

fn row(key: &str) -> SessionRow {
    SessionRow {
        key: key.to_owned(),
        session_id: SessionId::new("s"),
        revision: 0,
        active_run: None,
        cwd: String::new(),
        created_at: Millis(1),
        updated_at: Millis(1),
        entries: 0,
        leaf: None,
        started_at: Millis(1),
        interaction_at: Millis(1),
        interrupted: false,
        queue_settings: None,
        parent_key: None,
        meta: None,
    }
}
