//! `sessions.changed`, a little later than the change (protocol 5.5): a run that is sent and begins
//! at once is one piece of news. Ends are told at once, and nothing overtakes anything.

use super::hub::{Audience, Gateway};
use super::runs::agent;
use crate::base::Millis;
use crate::engine::sessions::Key;
use serde_json::Value;

/// How long a change waits for another one of the same session, ms.
const QUIET_MS: u64 = 100;
/// How long it waits at most, ms.
const LATEST_MS: u64 = 500;
/// Sessions whose changes wait at once; with more of them nothing waits.
const WAITING_MAX: usize = 1_024;

/// A change that is not told yet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Later {
    payload: Value,
    first: Millis,
    last: Millis,
}

impl Later {
    fn due(&self) -> Millis {
        self.last.plus(QUIET_MS).min(self.first.plus(LATEST_MS))
    }
}

/// Whether a change is one of those with which a run comes in: the later one tells all that the
/// earlier one did.
fn begins(payload: &Value) -> bool {
    payload["reason"] == "send" || payload["phase"] == "start"
}

impl Gateway {
    /// Something about a session has changed.
    pub(super) fn session_changed(&mut self, key: &Key, what: Value) {
        let mut payload = what;
        payload["sessionKey"] = (&**key).into();
        payload["agentId"] = agent(key).into();
        payload["ts"] = self.now.0.into();
        payload["updatedAt"] = self.now.0.into();
        if let Some(id) = self.ids.get(key) {
            payload["sessionId"] = id.as_str().into();
        }
        let now = self.now;
        let mut first = now;
        match self.later.remove(key) {
            Some(later) if begins(&later.payload) && begins(&payload) => {
                first = later.first;
                if payload["runId"] != later.payload["runId"] || payload["reason"] == "send" {
                    // Another run's beginning says nothing of the one before.
                    self.tell_change(&later.payload);
                    first = now;
                }
            }
            Some(later) => self.tell_change(&later.payload),
            None => {}
        }
        let waits = begins(&payload) && self.later.len() < WAITING_MAX;
        if !waits {
            return self.tell_change(&payload);
        }
        self.later.insert(key.clone(), Later { payload, first, last: now });
    }

    fn tell_change(&mut self, payload: &Value) {
        self.broadcast("sessions.changed", payload, &Audience::Subscribed);
    }

    /// When a change is to be told.
    pub(super) fn changes_due(&self) -> Option<Millis> {
        self.later.values().map(Later::due).min()
    }

    /// Tells the changes that have waited long enough.
    pub(super) fn tell_due_changes(&mut self) {
        let now = self.now;
        let due = self.later.iter().filter(|(_, later)| later.due() <= now);
        for key in due.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            if let Some(later) = self.later.remove(&key) {
                self.tell_change(&later.payload);
            }
        }
    }

    /// Tells all of them: the process is about to end.
    pub fn tell_changes(&mut self) {
        for later in std::mem::take(&mut self.later).into_values() {
            self.tell_change(&later.payload);
        }
    }
}
