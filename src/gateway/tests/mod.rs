//! The gateway alone: what comes in, what goes out.

mod http;
mod requests;
mod slow;

use super::Sight;
use crate::base::{Millis, SessionId};
use crate::engine::sessions::{Options, Sessions};
use crate::records::{Listed, SessionRow};

/// Sessions in which nothing happens.
fn sessions() -> Sessions {
    Sessions::new(Options {
        caps: Default::default(),
        queue: Default::default(),
        reset: Default::default(),
        watch: Default::default(),
        lane_wait_ms: 0,
        keep_ms: 0,
    })
}

fn sight(sessions: &Sessions) -> Sight<'_> {
    Sight { now: Millis(5), boundary: None, sessions, fresh: ([1; 32], [2; 10]) }
}

/// A conversation as the store lists it.
fn listed() -> Listed {
    let row = SessionRow {
        key: "agent:main:main".into(),
        session_id: SessionId::new("s1"),
        revision: 1,
        active_run: None,
        cwd: "/".into(),
        created_at: Millis(1),
        updated_at: Millis(2),
        entries: 2,
        leaf: Some("e2".into()),
        started_at: Millis(1),
        interaction_at: Millis(2),
        interrupted: false,
        queue_settings: None,
        parent_key: None,
        meta: None,
    };
    Listed { row, last: None, title: None, latest: None }
}
