//! One running model call as its owner sees it: events out of it, a handle to stop it.

use super::wire::{Delta, End};
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a running call reports. After [`ModelEvent::End`] nothing more comes.
#[derive(Clone, PartialEq, Debug)]
pub enum ModelEvent {
    /// Bytes came, but no delta: a comment, or part of a longer line. The peer lives.
    Alive,
    /// The reply went on.
    Delta(Delta),
    /// The reply is over; exactly one for each call.
    End(Box<End>),
}

/// Stops a call from another thread. Clones stop the same call.
#[derive(Clone, Default)]
pub struct CallHandle(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    stopped: Condvar,
}

#[derive(Default)]
struct State {
    reason: Option<String>,
    cut: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for CallHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallHandle").field("aborted", &self.aborted()).finish()
    }
}

impl CallHandle {
    /// A handle for a call that has not begun.
    #[must_use]
    pub fn new() -> CallHandle {
        CallHandle::default()
    }

    /// Stops the call: its socket is cut at once, its pause ends. A call that has not begun will
    /// not begin; one that is over is not touched. The first reason stays.
    pub fn abort(&self, reason: &str) {
        let cut = {
            let mut state = self.lock();
            state.reason.get_or_insert_with(|| reason.to_owned());
            state.cut.take()
        };
        self.0.stopped.notify_all();
        if let Some(cut) = cut {
            cut();
        }
    }

    /// Why the call was stopped, if it was.
    #[must_use]
    pub fn aborted(&self) -> Option<String> {
        self.lock().reason.clone()
    }

    /// Sets what [`CallHandle::abort`] does; false if it was called already.
    pub(super) fn arm(&self, cut: Box<dyn FnOnce() + Send>) -> bool {
        let mut state = self.lock();
        let free = state.reason.is_none();
        if free {
            state.cut = Some(cut);
        }
        free
    }

    /// Takes back what [`CallHandle::arm`] set; false if it has been used.
    pub(super) fn disarm(&self) -> bool {
        let mut state = self.lock();
        state.cut = None;
        state.reason.is_none()
    }

    /// Waits, but no longer than until the call is stopped; true if it was.
    pub fn pause(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.lock();
        while state.reason.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.0.stopped.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way: a poisoned state is a whole one.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
