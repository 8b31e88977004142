//! What clients ask of the store beside the runs: questions, and changes of sessions that are not
//! the machine's matter.

use super::clock::entropy;
use super::desk::words;
use super::links::{Observer, Owner};
use super::{Reactor, ReactorError};
use crate::base::{SessionId, id};
use crate::engine::sessions::{Input, Key};
use crate::records::{Query, Wanted};
use crate::store::{Change, Job, Make, Manage, Part, PartResult};
use crate::transcript::{Assistant, Block, Door, StopReason};
use std::sync::Arc;

impl Reactor {
    /// Asks the store; the answer comes to the observer under this number.
    ///
    /// # Errors
    /// When the store has gone.
    pub fn ask(&mut self, ticket: u64, query: Query) -> Result<(), ReactorError> {
        let own = self.links.ticket(Owner::Client(ticket, None));
        self.links.send(Job::Query(own, Box::new(query)))
    }

    /// Changes a session; the outcome comes to the observer under this number. Gives the id of the
    /// entry that is to be stored, if there is one.
    ///
    /// # Errors
    /// When the store has gone.
    pub fn want(
        &mut self,
        ticket: u64,
        key: &Key,
        wanted: Wanted,
    ) -> Result<Option<String>, ReactorError> {
        let at = self.links.clock.now();
        self.ahead = None;
        let mut entry_id = None;
        let what = match wanted {
            Wanted::Make { parent, meta, fork } => Change::Make(Box::new(Make {
                session: SessionId::new(id::uuid_v7(at, entropy())),
                cwd: self.links.outfit.cwd.to_string_lossy().into_owned(),
                parent: parent.map(|key| key.to_string()),
                meta,
                fork,
            })),
            Wanted::Meta { before, after } => Change::Meta { before, after },
            Wanted::Inject { text } => {
                let mut door = Door::new(Default::default(), u64::from_be_bytes(entropy()));
                let entry = door.words_entry(note(text, at), at);
                entry_id = Some(entry.id.to_string());
                Change::Inject(Box::new(entry))
            }
        };
        let stale = (!matches!(what, Change::Make(_))).then(|| Arc::clone(key));
        let own = self.links.ticket(Owner::Client(ticket, stale));
        let manage = Manage { key: key.to_string(), at, what };
        self.links.send(Job::Write(own, Part::Manage(Box::new(manage))))?;
        Ok(entry_id)
    }

    pub(super) fn client_changed(
        &mut self,
        ticket: u64,
        result: PartResult,
        stale: Option<Key>,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let result = result.map(|_| ()).map_err(|denied| words(&denied));
        let done = result.is_ok();
        observer.changed(ticket, result);
        match stale.filter(|_| done) {
            Some(key) => self.decide(Input::Reload(key), observer),
            None => Ok(()),
        }
    }
}

/// Words that the gateway puts into a conversation, as OpenClaw names their author.
fn note(text: String, at: crate::base::Millis) -> Assistant {
    Assistant {
        content: vec![Block::text(text)],
        api: "openclaw".to_owned(),
        provider: "openclaw".to_owned(),
        model: "gateway-injected".to_owned(),
        response_model: None,
        response_id: None,
        usage: None,
        stop_reason: StopReason::Stop,
        error_message: None,
        error_code: None,
        timestamp: at,
    }
}
