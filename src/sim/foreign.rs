//! Commits that are not the live run's: one that must be refused, one that is allowed.

use super::bodies;
use super::world::World;
use crate::transcript::{Door, Message, ModelName};

impl World {
    /// 2: what a superseded run still wants to write is refused, and changes nothing.
    pub(super) fn late_commit(&mut self) {
        let Some((old, door)) = &mut self.old else { return };
        if self.store.writer.as_ref() == Some(old) {
            return;
        }
        let message = Message::User(crate::transcript::User::clone(&bodies::user("late")));
        let writes = door.append(message, self.now);
        let (before, old) = (self.store.messages.len(), old.clone());
        let done = self.store.commit(Some(&old), Some(&old), &writes);
        if self.knobs.checks {
            let same = self.store.messages.len() == before;
            assert!(done.is_err() && same, "2: a stale writer's commit was taken");
        }
    }

    pub(super) fn announce(&mut self) {
        let mut door = Door::new(ModelName::default(), self.door_seed());
        // An announcement is not allowed between a call and its result.
        if !self.store.owed.is_empty() {
            return;
        }
        let message = Message::Custom(crate::transcript::Custom {
            custom_type: "announcement".into(),
            content: crate::transcript::Content::Text("news".into()),
            display: true,
            details: None,
            timestamp: self.now,
        });
        let writes = door.append(message, self.now);
        let _ = self.store.commit(None, None, &writes);
    }
}
