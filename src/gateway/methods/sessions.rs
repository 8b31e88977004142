//! Sessions as a whole: lists, subscriptions, making, setting, resetting, deleting (protocol 4.9).

use super::{Message, Said};
use crate::base::RunId;
use crate::engine::reset::ResetReason;
use crate::engine::sessions::{Input, Key};
use crate::engine::turns::Partial;
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::Gateway;
use crate::gateway::out::{Conn, Do};
use crate::gateway::pending::{After, Asked, Want};
use crate::gateway::rows;
use crate::records::{Fork, Listed, Query, Sort, Wanted, Which};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// How many sessions a list has where nobody says.
const LIST: u64 = 100;
/// Most conversations that one connection follows.
const FOLLOWED_MAX: usize = 1_024;

/// What `sessions.patch` sets and what is told again as it was set.
const PLAIN_FIELDS: [&str; 13] = [
    "label",
    "autoLabel",
    "icon",
    "color",
    "category",
    "archived",
    "pinned",
    "unread",
    "verboseLevel",
    "traceLevel",
    "reasoningLevel",
    "responseUsage",
    "fastMode",
];

type Asker = (Conn, String);

impl Gateway {
    pub(super) fn list(&mut self, (conn, id): Asker, params: &Params, subscribed: bool) -> Said {
        let limit = params.number("limit").unwrap_or(LIST).clamp(1, 1_000);
        let offset = params.number("offset").unwrap_or(0);
        let minutes = params.number("activeMinutes");
        let which = Which {
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            since: minutes.map(|minutes| {
                crate::base::Millis(self.now.0.saturating_sub(minutes.saturating_mul(60_000)))
            }),
            sort: match params.text("sortBy") {
                Some("lastInteractionAt") => Sort::Interaction,
                _ => Sort::Updated,
            },
            search: params.text("search").filter(|text| !text.is_empty()).map(str::to_owned),
            label: params.text("label").map(str::to_owned),
            parent: params.text("spawnedBy").map(str::to_owned),
            archived: match params.0.get("archived") {
                Some(Value::String(_)) => None,
                Some(Value::Bool(archived)) => Some(*archived),
                _ => Some(false),
            },
            pinned: params.0.get("pinned").and_then(Value::as_bool),
            category: params.text("group").filter(|text| !text.is_empty()).map(str::to_owned),
            no_children: params.flag("excludeSubagents"),
            no_cron: params.flag("excludeCron"),
            titles: true,
            last: params.flag("includeLastMessage"),
        };
        let after = After::List { subscribed, offset, limit };
        self.ask(conn, id, Query::List(which), after);
        Ok(None)
    }

    /// A list, as it is told.
    pub(in crate::gateway) fn listed(
        &self,
        listed: &[Listed],
        total: u64,
        (offset, limit): (u64, u64),
        sessions: &crate::engine::sessions::Sessions,
    ) -> Value {
        let rows: Vec<Value> = listed
            .iter()
            .map(|one| rows::session(one, &self.facts, sessions.active(&one.row.key)))
            .collect();
        let end = offset + u64::try_from(rows.len()).unwrap_or(0);
        let more = end < total;
        json!({
            "ts": self.now, "path": self.facts.database, "count": rows.len(),
            "totalCount": total, "limitApplied": limit, "offset": offset,
            "nextOffset": more.then_some(end), "hasMore": more, "owners": [],
            "defaults": rows::defaults(&self.facts), "sessions": rows,
        })
    }

    pub(super) fn subscribe(&mut self, (conn, id): Asker, params: &Params) -> Said {
        if let Some(client) = self.clients.get_mut(&conn) {
            client.subscribed = true;
        }
        if params.0.is_empty() {
            return Ok(Some(json!({"subscribed": true})));
        }
        self.list((conn, id), params, true)
    }

    pub(super) fn unsubscribe(&mut self, conn: Conn) -> Said {
        if let Some(client) = self.clients.get_mut(&conn) {
            client.subscribed = false;
        }
        Ok(Some(json!({"subscribed": false})))
    }

    pub(super) fn follow(&mut self, conn: Conn, params: &Params, follow: bool) -> Said {
        let key = self.key(params, "key")?;
        if let Some(client) = self.clients.get_mut(&conn) {
            if !follow {
                client.keys.remove(&key);
            } else if client.keys.len() < FOLLOWED_MAX || client.keys.contains(&key) {
                client.keys.insert(Arc::clone(&key));
            } else {
                let words = format!("a connection follows at most {FOLLOWED_MAX} sessions");
                return Err(Fault::invalid(words));
            }
        }
        let mut answer = json!({"subscribed": follow, "key": key});
        if params.flag("includeApprovals") {
            answer["approvalReplay"] = json!([]);
        }
        Ok(Some(answer))
    }

    pub(super) fn describe(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "key")?;
        self.ask(conn, id, Query::Session(key.to_string()), After::Describe(key));
        Ok(None)
    }

    pub(super) fn resolve(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let reference = params.0.get("reference").and_then(|of| of["key"].as_str());
        let allow_missing = params.flag("allowMissing");
        let (by, query) = if let Some(key) = params.text("key").or(reference) {
            let key = self.key_of(key, params.text("agentId"))?;
            (key.to_string(), Query::Session(key.to_string()))
        } else if let Some(session) = params.text("sessionId") {
            (session.to_owned(), Query::KeyOf(crate::base::SessionId::new(session)))
        } else if let Some(label) = params.text("label") {
            (label.to_owned(), Query::Labelled(label.to_owned()))
        } else if params.text("shortId").is_some() {
            return Ok(Some(json!({"ok": false, "candidates": []})));
        } else {
            let words = "sessions.resolve needs one of key, sessionId, label, reference, shortId";
            return Err(Fault::invalid(words));
        };
        self.ask(conn, id, query, After::Resolve { by, allow_missing });
        Ok(None)
    }

    pub(super) fn create(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let fresh = crate::base::id::uuid_v7(self.now, self.random_id());
        let key = match params.text("key") {
            Some(text) => self.key_of(text, params.text("agentId"))?,
            None => self.key_of(&format!("chat-{fresh}"), params.text("agentId"))?,
        };
        let parent = params.text("parentSessionKey").map(|text| self.key_of(text, None));
        let parent = parent.transpose()?;
        let fork = params.flag("fork") || params.text("forkFrom").is_some();
        if fork && parent.is_none() {
            return Err(Fault::invalid("fork needs parentSessionKey"));
        }
        let mut fields = Map::new();
        for (name, stored) in
            [("label", "label"), ("displayName", "label"), ("category", "category")]
        {
            if let Some(text) = params.text(name) {
                fields.entry(stored).or_insert_with(|| text.into());
            }
        }
        for name in ["model", "thinkingLevel"] {
            if let Some(text) = params.text(name) {
                fields.insert(name.to_owned(), text.into());
            }
        }
        let meta = self.merged(Map::new(), &fields)?;
        let meta = (!meta.is_empty()).then(|| Value::Object(meta).to_string());
        let words = params.text("message").or(params.text("task"));
        let message = words.filter(|text| !text.trim().is_empty()).map(|text| {
            let run = params.text("idempotencyKey").map_or_else(|| fresh.clone(), str::to_owned);
            Box::new(Message {
                key: Arc::clone(&key),
                text: text.to_owned(),
                images: vec![],
                run: RunId::new(run),
                inline: Partial::default(),
                budget_ms: params.number("timeoutMs"),
                commands: false,
                want: Want::Created,
            })
        });
        let fork = fork.then_some(Fork::Completed);
        // A session that merely follows another one does not depend on it.
        let parent = parent.filter(|_| fork.is_some() || !params.flag("succeedsParent"));
        self.make(conn, id, key, Wanted::Make { parent, meta, fork }, message)
    }

    pub(super) fn fork(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let parent = Some(self.key(params, "sessionKey")?);
        let fresh = crate::base::id::uuid_v7(self.now, self.random_id());
        let key = self.key_of(&format!("fork-{fresh}"), params.text("agentId"))?;
        let fork = Some(Fork::Through(params.need("entryId").to_owned()));
        self.make(conn, id, key, Wanted::Make { parent, meta: None, fork }, None)
    }

    fn make(
        &mut self,
        conn: Conn,
        id: String,
        key: Key,
        wanted: Wanted,
        message: Option<Box<Message>>,
    ) -> Said {
        let ticket = self.ticket();
        let after = After::Made { key: Arc::clone(&key), message };
        self.asked.insert(ticket, (conn, id, after));
        self.out.push(Do::Want(ticket, key, wanted));
        Ok(None)
    }

    pub(super) fn patch(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "key")?;
        let envelope = ["key", "agentId", "expectedSessionId", "expectedLifecycleRevision"];
        let mut fields = params.0.clone();
        fields.retain(|name, _| !envelope.contains(&name.as_str()));
        // What cannot be set is told before anything is asked for.
        self.merged(Map::new(), &fields)?;
        let expected = params.text("expectedSessionId").map(str::to_owned);
        let after = After::Patch { key: Arc::clone(&key), fields, expected };
        self.ask(conn, id, Query::Session(key.to_string()), after);
        Ok(None)
    }

    /// What is set, with these fields changed; `null` takes one back.
    pub(in crate::gateway) fn merged(
        &self,
        mut meta: Map<String, Value>,
        fields: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Fault> {
        for (name, value) in fields {
            let mut value = value.clone();
            match (name.as_str(), value.as_str()) {
                (_, _) if value.is_null() => {}
                ("model", Some(model)) => value = self.model_named(model)?.into(),
                ("thinkingLevel", Some(level)) => {
                    if !rows::THINKING.contains(&level) {
                        let known = rows::THINKING.join(", ");
                        let words =
                            format!("thinkingLevel {level:?} is not supported; use {known}");
                        return Err(Fault::invalid(words));
                    }
                }
                (plain, _) if PLAIN_FIELDS.contains(&plain) => {}
                (other, _) => {
                    return Err(Fault::invalid(format!("{other} cannot be set here")));
                }
            }
            // What is off by itself need not be kept.
            if value.is_null() || value == false {
                meta.remove(name);
            } else {
                meta.insert(name.clone(), value);
            }
        }
        Ok(meta)
    }

    /// The reference of a model that a client names with or without its provider.
    fn model_named(&self, name: &str) -> Result<String, Fault> {
        let found = self.facts.models.iter().find(|model| {
            model.reference().eq_ignore_ascii_case(name) || model.id.eq_ignore_ascii_case(name)
        });
        found.map(|model| model.reference()).ok_or_else(|| {
            let known: Vec<String> = self.facts.models.iter().map(|m| m.reference()).collect();
            Fault::invalid(format!("there is no model {name:?}; configured: {}", known.join(", ")))
        })
    }

    pub(super) fn reset(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "key")?;
        let reason = match params.text("reason") {
            Some("new") => ResetReason::New,
            _ => ResetReason::Reset,
        };
        if let (Some(expected), Some(known)) =
            (params.text("expectedSessionId"), self.ids.get(&key))
            && expected != known
        {
            return Err(changed_session());
        }
        self.changes.push((Arc::clone(&key), conn, id, Asked::Reset(reason)));
        self.out.push(Do::Give(Input::Reset(key, reason)));
        Ok(None)
    }

    pub(super) fn delete(&mut self, (conn, id): Asker, params: &Params) -> Said {
        if params.0.get("deleteTranscript") == Some(&Value::Bool(false)) {
            let words = "deleteTranscript: the transcript goes with its session";
            return Err(Fault::invalid(words));
        }
        let key = self.key(params, "key")?;
        let expected = params.text("expectedSessionId").map(str::to_owned);
        let archived = params.flag("archivedOnly");
        let after = After::Delete { key: Arc::clone(&key), expected, archived };
        self.ask(conn, id, Query::Session(key.to_string()), after);
        Ok(None)
    }
}

/// The session is another one than the client has seen.
pub(in crate::gateway) fn changed_session() -> Fault {
    Fault::invalid("the session is another one by now").because("session-routing-changed")
}
