//! What is done with the store's answers.

use super::auth::Scope;
use super::frame::Fault;
use super::hub::{Gateway, Sight};
use super::methods::{Message, changed_session, previewed};
use super::out::{Conn, Do};
use super::pending::{After, Asked};
use super::rows;
use crate::base::RunId;
use crate::engine::sessions::{Input, Key};
use crate::records::{Found, Listed, Query, Wanted};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Characters of one text where a request cannot say (Y14).
const TEXT_CHARS: usize = 8_000;

impl Gateway {
    /// The store has answered a question.
    pub fn found(&mut self, ticket: u64, found: Result<Found, String>, sight: Sight<'_>) {
        self.see(sight);
        let Some((conn, id, after)) = self.asked.remove(&ticket) else { return };
        let found = match found {
            Ok(found) => found,
            Err(why) => return self.respond(conn, &id, Err(Fault::failed(why))),
        };
        let result = self.follow_up(conn, &id, after, found, sight);
        match result {
            Ok(Some(payload)) => self.respond(conn, &id, Ok(payload)),
            Ok(None) => {}
            Err(fault) => self.respond(conn, &id, Err(fault)),
        }
    }

    fn follow_up(
        &mut self,
        conn: Conn,
        id: &str,
        after: After,
        found: Found,
        sight: Sight<'_>,
    ) -> Result<Option<Value>, Fault> {
        let sessions = sight.sessions;
        let unfit = || Fault::failed("the store has answered another question");
        Ok(Some(match (after, found) {
            (After::List { subscribed, offset, limit }, Found::List(listed, total)) => {
                let list = self.listed(&listed, total, (offset, limit), sessions);
                if subscribed { json!({"subscribed": true, "list": list}) } else { list }
            }
            (After::Describe(key), Found::Session(listed)) => {
                let active = sessions.active(&key);
                let row = listed.map(|one| rows::session(&one, &self.facts, active));
                json!({ "session": row })
            }
            (After::History(wanted), Found::History(page)) => self.page(&wanted, &page, sessions),
            (After::Messages, Found::History(page)) => {
                let all = page.entries.iter().filter_map(|e| rows::of_stored(e, TEXT_CHARS));
                json!({ "messages": all.collect::<Vec<Value>>() })
            }
            (After::Message { most_chars }, Found::Entry(entry)) => {
                match entry.map(|entry| rows::of_stored(&entry, most_chars)) {
                    None => json!({"ok": false, "unavailableReason": "not_found"}),
                    Some(None) => json!({"ok": false, "unavailableReason": "not_visible"}),
                    Some(Some(message)) => json!({"ok": true, "message": message}),
                }
            }
            (After::Preview { most_chars }, Found::Preview(of)) => {
                let told = |(key, entries): (String, Option<Vec<_>>)| {
                    previewed(&key, entries.as_deref(), most_chars)
                };
                json!({"ts": self.now, "previews": of.into_iter().map(told).collect::<Vec<_>>()})
            }
            (After::Resolve { by, allow_missing }, found) => {
                let keys = match found {
                    Found::Session(listed) => listed.map(|one| one.row.key).into_iter().collect(),
                    Found::Keys(keys) => keys,
                    _ => return Err(unfit()),
                };
                return resolved(&by, keys, allow_missing).map(Some);
            }
            (After::Check { session, leaf, message }, Found::Session(listed)) => {
                self.checked(conn, id, session, leaf, *message, listed.as_deref())?;
                return Ok(None);
            }
            (After::Patch { key, fields, expected }, Found::Session(listed)) => {
                self.change_meta(conn, id, &key, &fields, expected, listed.as_deref())?;
                return Ok(None);
            }
            (After::Entry { key, reason, told }, Found::Session(listed)) => {
                self.entry(&key, (reason, told), listed.as_deref(), sight)
            }
            (After::Created { key, message }, Found::Session(listed)) => {
                return Ok(self.created((conn, id), &key, message, listed.as_deref(), sight));
            }
            (After::Delete { key, expected, archived }, Found::Session(listed)) => {
                return self.delete_found(conn, id, key, (expected, archived), listed.as_deref());
            }
            (After::Health, Found::List(listed, total)) => {
                self.health_for(conn, &listed, total, sessions)
            }
            (After::Status, Found::List(listed, total)) => self.status_of(&listed, total),
            _ => return Err(unfit()),
        }))
    }

    /// Whoever asks may know how it does; whose conversations there are, and where, is for readers.
    fn health_for(
        &self,
        conn: Conn,
        listed: &[Listed],
        total: u64,
        sessions: &crate::engine::sessions::Sessions,
    ) -> Value {
        let reads = self.clients.get(&conn).is_none_or(|c| c.scopes.covers(Scope::Read));
        let listed = if reads { listed } else { &[] };
        let mut health = self.health_of(listed, total, sessions.unfinished(), sessions.in_use());
        if !reads {
            without_path(&mut health["sessions"]);
            without_path(&mut health["agents"][0]["sessions"]);
        }
        health
    }

    /// A change that was asked for is stored, or not.
    pub fn changed(&mut self, ticket: u64, result: Result<(), String>, sight: Sight<'_>) {
        self.see(sight);
        let Some((conn, id, after)) = self.asked.remove(&ticket) else { return };
        if let Err(why) = result {
            return self.respond(conn, &id, Err(Fault::invalid(why)));
        }
        match after {
            After::Patched(key) => {
                let query = Query::Session(key.to_string());
                self.ask(conn, id, query, After::Entry { key, reason: "patch", told: false });
            }
            After::Made { key, message } => {
                let query = Query::Session(key.to_string());
                self.ask(conn, id, query, After::Created { key, message });
            }
            After::Injected { key, text, entry } => self.injected(conn, &id, &key, text, entry),
            _ => {}
        }
    }

    /// The entry that a change will store has this id.
    pub fn entry_named(&mut self, ticket: u64, name: String) {
        if let Some((_, _, After::Injected { entry, .. })) = self.asked.get_mut(&ticket) {
            *entry = Some(name);
        }
    }

    fn injected(&mut self, conn: Conn, id: &str, key: &Key, text: String, entry: Option<String>) {
        let entry = entry.unwrap_or_default();
        let content = json!([{"type": "text", "text": text}]);
        let message = json!({
            "role": "assistant", "content": content, "timestamp": self.now,
            "__openclaw": {"id": entry},
        });
        let run = RunId::new(format!("inject-{entry}"));
        let mut chat = self.payload(key, &run);
        chat["seq"] = 0.into();
        chat["state"] = "final".into();
        chat["message"] = message;
        self.broadcast("chat", &chat, &super::hub::Audience::Run(key));
        self.respond(conn, id, Ok(json!({"ok": true, "messageId": entry})));
    }

    /// The sender's view is compared with what is stored; then the message is sent.
    fn checked(
        &mut self,
        conn: Conn,
        id: &str,
        session: Option<String>,
        leaf: Option<Option<String>>,
        message: Message,
        listed: Option<&Listed>,
    ) -> Result<(), Fault> {
        if let Some(listed) = listed {
            let stored = listed.row.session_id.as_str();
            self.learn_id(&message.key, stored);
            if session.is_some_and(|expected| expected != stored) {
                return Err(changed_session());
            }
        }
        let stored = listed.and_then(|listed| listed.row.leaf.clone());
        if leaf.is_some_and(|expected| expected != stored) {
            let fault = Fault::invalid("the conversation has gone on meanwhile");
            return Err(fault.because("active-leaf-changed"));
        }
        self.sends(conn, id.to_owned(), message);
        Ok(())
    }

    fn change_meta(
        &mut self,
        conn: Conn,
        id: &str,
        key: &Key,
        fields: &Map<String, Value>,
        expected: Option<String>,
        listed: Option<&Listed>,
    ) -> Result<(), Fault> {
        let Some(listed) = listed else {
            return Err(Fault::invalid(format!("session not found: {key}")));
        };
        if expected.is_some_and(|expected| expected != listed.row.session_id.as_str()) {
            return Err(changed_session());
        }
        let meta = self.merged(rows::meta(listed), fields)?;
        let after = (!meta.is_empty()).then(|| Value::Object(meta).to_string());
        let before = listed.row.meta.clone();
        let ticket = self.ticket();
        self.asked.insert(ticket, (conn, id.to_owned(), After::Patched(Arc::clone(key))));
        self.out.push(Do::Want(ticket, Arc::clone(key), Wanted::Meta { before, after }));
        Ok(())
    }

    /// A session after its change.
    fn entry(
        &mut self,
        key: &Key,
        (reason, told): (&'static str, bool),
        listed: Option<&Listed>,
        sight: Sight<'_>,
    ) -> Value {
        let active = sight.sessions.active(key);
        let row = listed.map(|one| rows::session(one, &self.facts, active));
        if let Some(listed) = listed {
            self.learn_id(key, listed.row.session_id.as_str());
        }
        let row = row.unwrap_or_else(|| json!({ "key": key }));
        if !told {
            let mut change = row.clone();
            change["reason"] = reason.into();
            change["session"] = row.clone();
            self.session_changed(key, change);
        }
        json!({
            "ok": true, "key": key, "reason": reason, "path": self.facts.database, "entry": row,
            "resolved": {
                "modelProvider": row["modelProvider"], "model": row["model"],
                "thinkingLevel": "off", "runtimeSelectionLocked": false,
            },
        })
    }

    fn created(
        &mut self,
        (conn, id): (Conn, &str),
        key: &Key,
        message: Option<Box<Message>>,
        listed: Option<&Listed>,
        sight: Sight<'_>,
    ) -> Option<Value> {
        let mut answer = self.entry(key, ("create", false), listed, sight);
        answer["sessionId"] = answer["entry"]["sessionId"].clone();
        answer["runStarted"] = false.into();
        let Some(message) = message else { return Some(answer) };
        answer["runId"] = message.run.as_str().into();
        // The answer waits for what becomes of the message.
        self.creating.insert((conn, id.to_owned()), answer);
        self.sends(conn, id.to_owned(), *message);
        None
    }

    fn delete_found(
        &mut self,
        conn: Conn,
        id: &str,
        key: Key,
        (expected, archived): (Option<String>, bool),
        listed: Option<&Listed>,
    ) -> Result<Option<Value>, Fault> {
        let Some(listed) = listed else {
            let answer = json!({"ok": true, "key": key, "deleted": false, "archived": []});
            return Ok(Some(answer));
        };
        if expected.is_some_and(|expected| expected != listed.row.session_id.as_str()) {
            return Err(changed_session());
        }
        if archived && rows::meta(listed).get("archived") != Some(&Value::Bool(true)) {
            return Err(Fault::invalid("the session is not archived"));
        }
        self.changes.push((Arc::clone(&key), conn, id.to_owned(), Asked::Delete));
        self.out.push(Do::Give(Input::Delete(key)));
        Ok(None)
    }
}

fn without_path(sessions: &mut Value) {
    if let Value::Object(fields) = sessions {
        fields.remove("path");
    }
}

fn resolved(by: &str, mut keys: Vec<String>, allow_missing: bool) -> Result<Value, Fault> {
    match keys.len() {
        0 if allow_missing => Ok(json!({ "ok": false })),
        0 => Err(Fault::invalid(format!("No session found: {by}"))),
        1 => {
            let key = keys.remove(0);
            Ok(json!({"ok": true, "agentId": super::runs::agent(&key), "key": key}))
        }
        _ => {
            let candidates: Vec<Value> = keys.iter().map(|key| json!({ "key": key })).collect();
            Ok(json!({"ok": false, "candidates": candidates}))
        }
    }
}
