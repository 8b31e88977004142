//! Runs that are in memory alone: no row, no claim, nothing to recover.

use super::clock::entropy;
use super::links::Observer;
use super::seat::{Address, Launch, Seat};
use super::settle::{Whole, model_name};
use super::{Reactor, ReactorError};
use crate::base::{MsgId, RunId, SessionId, id};
use crate::engine::Termination;
use crate::engine::sessions::{Event, Key};
use crate::transcript::{Content, Door, User};
use std::sync::Arc;

impl Reactor {
    /// Starts a run that is in memory alone: no row, no claim, no place in a lane (semantics 7.4).
    ///
    /// # Errors
    /// When the loop itself cannot go on.
    pub fn start_detached(
        &mut self,
        run: RunId,
        text: String,
        observer: &mut dyn Observer,
    ) -> Result<(), ReactorError> {
        let now = self.links.clock.now();
        let key: Key = format!("detached:{run}").into();
        let seed = u64::from_be_bytes(entropy());
        let whole = Whole {
            session: SessionId::new(id::uuid_v7(now, entropy())),
            revision: 0,
            branch: vec![],
            door: Door::new(model_name(&self.model), seed),
            left: vec![],
            writer: None,
            notices: vec![],
            seed,
            model: self.model.clone(),
            entries: 0,
        };
        self.next_seat += 1;
        let address = Address { seat: self.next_seat, run: 0 };
        let seat = Seat::detached(address, &key, whole);
        self.seats.insert(address.seat, seat);
        self.by_key.insert(Arc::clone(&key), address.seat);
        self.detached.insert(run.clone(), Arc::clone(&key));
        let content = Content::Text(text);
        let launch = Launch {
            run,
            msg: MsgId(1),
            body: Arc::new(User { content, timestamp: now, idempotency_key: None }),
            merged: vec![],
            joined: vec![],
            accepted_at: now,
            setup: self.setup,
            compacts: false,
            specs: Arc::clone(&self.links.outfit.specs),
        };
        self.with_seat(&key, observer, |seat, links, observer| seat.submit(launch, links, observer))
    }

    /// The end of a detached run is nobody's business but its starter's.
    pub(super) fn detached_end(
        &mut self,
        run: &RunId,
        termination: &Termination,
        observer: &mut dyn Observer,
    ) -> bool {
        let Some(key) = self.detached.remove(run) else { return false };
        if let Some(seat) = self.by_key.remove(&key) {
            self.seats.remove(&seat);
        }
        let (run, termination) = (run.clone(), termination.clone());
        observer.of_sessions(&Event::Ended { key, run, termination, into: None });
        true
    }
}
