//! What the gateway wants done, and frames as bytes. An event is encoded once for all who get it;
//! each connection adds only its own number.

use super::audit::{Query as AuditQuery, Row};
use super::auth::Change;
use super::chores::Chore;
use super::frame::Fault;
use super::http::{FileWanted, ToolAsked};
use crate::base::Level;
use crate::engine::sessions::{Input, Key, Target};
use crate::records::{Query, Wanted};
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A connection's number in this process.
pub type Conn = u32;

/// A text frame: a beginning that others may share, and an end of one's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Everything but the end.
    pub head: Arc<[u8]>,
    /// The end.
    pub tail: Arc<[u8]>,
}

impl Frame {
    /// The whole text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut bytes = self.head.to_vec();
        bytes.extend_from_slice(&self.tail);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A frame that nobody shares.
    #[must_use]
    pub fn whole(value: &Value) -> Frame {
        Frame { head: encode(value).into(), tail: Arc::default() }
    }

    /// An event's frame for one connection.
    pub(super) fn event(head: &Arc<[u8]>, seq: u64) -> Frame {
        let tail = format!(",\"seq\":{seq}}}");
        Frame { head: Arc::clone(head), tail: tail.into_bytes().into() }
    }
}

/// What is to be done for those who are connected.
#[derive(Clone, PartialEq, Debug)]
pub enum Do {
    /// A frame goes to a client that is no socket.
    Send {
        /// To whom.
        conn: Conn,
        /// What.
        frame: Frame,
    },
    /// Changes of devices are stored.
    Keep(u64, Vec<Change>),
    /// A row of the audit ledger, if there is room for it.
    Audit(Box<Row>),
    /// A page of the audit ledger is read.
    Page(u64, Box<AuditQuery>),
    /// The sessions are given this.
    Give(Input),
    /// The answer to `/stop`, before it is given to the sessions: what it will stop.
    Stop(Conn, String, Target),
    /// The answer to `/queue`.
    ShowQueue(Conn, String, Key),
    /// The store is asked.
    Ask(u64, Query),
    /// A session is changed.
    Want(u64, Key, Wanted),
    /// A file of the Control UI is read.
    File(FileWanted),
    /// A tool runs, outside of a run.
    Tool(ToolAsked),
    /// Work with files is done.
    Chore(u64, Box<Chore>),
    /// A line of the log: how much it matters, of what it is, and the words. It never holds what
    /// somebody said, nor a credential.
    Log(Level, &'static str, String),
}

/// The beginning of an event's frame, without its number and its end.
pub(super) fn event_head(name: &str, payload: &Value, versions: Option<Value>) -> Arc<[u8]> {
    #[derive(Serialize)]
    struct Event<'a> {
        r#type: &'static str,
        event: &'a str,
        payload: &'a Value,
        #[serde(rename = "stateVersion", skip_serializing_if = "Option::is_none")]
        versions: Option<Value>,
    }
    let mut bytes = encode(&Event { r#type: "event", event: name, payload, versions });
    bytes.pop();
    bytes.into()
}

/// The answer to a request.
pub(super) fn answer(id: &str, result: Result<Value, Fault>) -> Value {
    match result {
        Ok(payload) => json!({"type": "res", "id": id, "ok": true, "payload": payload}),
        Err(fault) => {
            let mut frame = json!({"type": "res", "id": id, "ok": false, "error": fault.shape()});
            if let Some(payload) = fault.payload {
                frame["payload"] = payload;
            }
            frame
        }
    }
}

fn encode(value: &impl Serialize) -> Vec<u8> {
    // Our own shapes have text keys and no fallible parts.
    serde_json::to_vec(value).unwrap_or_default()
}
