//! A wish to stop, which a tool can ask for and wait for.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::{Arc, Mutex, PoisonError};

/// Never sent: the channel only ever ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Never {}

/// A clonable wish to stop one call. It cannot be taken back.
#[derive(Clone, Debug)]
pub struct Cancel {
    sender: Arc<Mutex<Option<Sender<Never>>>>,
    receiver: Receiver<Never>,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel::new()
    }
}

impl Cancel {
    /// One that has not been asked for.
    #[must_use]
    pub fn new() -> Cancel {
        let (sender, receiver) = bounded(0);
        Cancel { sender: Arc::new(Mutex::new(Some(sender))), receiver }
    }

    /// Asks for it.
    pub fn cancel(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Whether it was asked for.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// A channel that disconnects when it is asked for; nothing is ever sent.
    #[must_use]
    pub fn receiver(&self) -> &Receiver<Never> {
        &self.receiver
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// tools#11.
    #[test]
    fn all_clones_see_it() {
        let cancel = Cancel::new();
        let clone = cancel.clone();
        assert!(!clone.is_cancelled());
        assert!(clone.receiver().try_recv().is_err_and(|e| e.is_empty()));
        cancel.cancel();
        cancel.cancel();
        assert!(clone.is_cancelled());
        assert!(clone.receiver().recv().is_err());
    }
}
