//! What was said: pages of history, single messages, previews (protocol 4.7, 4.8).

use super::Said;
use crate::engine::sessions::Sessions;
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::Gateway;
use crate::gateway::out::Conn;
use crate::gateway::pending::{After, HistoryWanted};
use crate::gateway::rows;
use crate::records::{Page, Query, Stored};
use serde_json::{Value, json};

/// How many messages a page has where nobody says, and at most.
const PAGE: u64 = 200;
const PAGE_MAX: u64 = 1_000;
/// Characters of one text where nobody says (protocol 4.7).
const TEXT_CHARS: u64 = 8_000;
/// Most bytes of one message, and of a whole answer.
const MESSAGE_BYTES_MAX: usize = 131_072;
const ANSWER_BYTES_MAX: usize = 6_291_456;
/// Characters of a single message where nobody says.
const SINGLE_CHARS: u64 = 1_000_000;
/// Most conversations in one preview.
const PREVIEW_KEYS_MAX: usize = 64;

type Asker = (Conn, String);

fn whole(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl Gateway {
    pub(super) fn history(&mut self, (conn, id): Asker, params: &Params, startup: bool) -> Said {
        if params.text("shortId").is_some() {
            let resolution = json!({"ok": false, "candidates": []});
            return Ok(Some(json!({ "resolution": resolution })));
        }
        if startup && params.text("sessionKey").is_none() {
            let words = "invalid chat.startup params: must have required property 'sessionKey'";
            return Err(Fault::invalid(words));
        }
        if params.text("cursor").is_some() {
            // No cursor was ever given: the whole page is asked for again.
            return Ok(Some(json!({"kind": "reset"})));
        }
        let limit = params.number("limit").unwrap_or(PAGE).min(PAGE_MAX);
        let offset = params.number("offset").unwrap_or(0);
        let wanted = HistoryWanted {
            key: self.key(params, "sessionKey")?,
            startup,
            offset,
            limit,
            most_chars: whole(params.number("maxChars").unwrap_or(TEXT_CHARS)),
            most_bytes: params
                .number("maxBytes")
                .map_or(ANSWER_BYTES_MAX, |bytes| whole(bytes).min(ANSWER_BYTES_MAX)),
        };
        let query = Query::History {
            key: wanted.key.to_string(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
        };
        self.ask(conn, id, query, After::History(Box::new(wanted)));
        Ok(None)
    }

    /// A page of history, as it is told.
    pub(in crate::gateway) fn page(
        &mut self,
        wanted: &HistoryWanted,
        page: &Page,
        sessions: &Sessions,
    ) -> Value {
        let key = &wanted.key;
        let (messages, left) = fitting(&page.entries, wanted);
        let told = wanted.offset + u64::try_from(page.entries.len()).unwrap_or(0) - left;
        let more = told < page.total;
        let mut answer = json!({
            "sessionKey": key, "messages": messages,
            "pendingInputs": {"items": [], "total": page.waiting.len()},
            "offset": wanted.offset, "hasMore": more, "totalMessages": page.total,
            "completeSnapshot": !more && wanted.offset == 0,
            "defaults": rows::defaults(&self.facts), "thinkingLevel": "off",
        });
        if more {
            answer["nextOffset"] = told.into();
        }
        let active = sessions.active(key);
        let mut info = json!({"key": key, "hasActiveRun": active.is_some()});
        if let Some(listed) = &page.session {
            self.learn_id(key, listed.row.session_id.as_str());
            info = rows::session(listed, &self.facts, active);
            info["activeLeafEntryId"] = json!(listed.row.leaf);
            answer["sessionId"] = json!(listed.row.session_id);
            for name in ["verboseLevel", "fastMode", "thinkingLevel"] {
                if let Some(level) = info.get(name).filter(|level| !level.is_null()) {
                    answer[name] = level.clone();
                }
            }
        }
        answer["sessionInfo"] = info;
        if let Some(run) = active {
            let live = self.live.get(run);
            answer["inFlightRun"] = json!({
                "runId": run, "text": live.map_or("", |live| live.text.as_str()),
                "startedAt": live.and_then(|live| live.started), "sessionAbortable": true,
            });
        }
        if wanted.startup {
            answer["metadata"] = self.metadata();
        }
        answer
    }

    pub(super) fn messages(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "key")?;
        let limit = params.number("limit").unwrap_or(PAGE).min(PAGE_MAX);
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        let query = Query::History { key: key.to_string(), limit, offset: 0 };
        self.ask(conn, id, query, After::Messages);
        Ok(None)
    }

    pub(super) fn message(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let key = self.key(params, "sessionKey")?;
        let most_chars = whole(params.number("maxChars").unwrap_or(SINGLE_CHARS));
        let query = Query::Entry { key: key.to_string(), id: params.need("messageId").to_owned() };
        self.ask(conn, id, query, After::Message { most_chars });
        Ok(None)
    }

    pub(super) fn preview(&mut self, (conn, id): Asker, params: &Params) -> Said {
        let asked = params.0.get("keys").and_then(Value::as_array);
        let asked = asked.into_iter().flatten().filter_map(Value::as_str);
        let mut keys = Vec::new();
        for text in asked.take(PREVIEW_KEYS_MAX) {
            keys.push(self.key_of(text, None)?.to_string());
        }
        let limit = params.number("limit").unwrap_or(12).min(50);
        let limit = u32::try_from(limit).unwrap_or(50);
        let most_chars = whole(params.number("maxChars").unwrap_or(240));
        self.ask(conn, id, Query::Preview { keys, limit }, After::Preview { most_chars });
        Ok(None)
    }
}

/// The newest messages that fit, the oldest first, and how many entries were left out for size.
fn fitting(entries: &[Stored], wanted: &HistoryWanted) -> (Vec<Value>, u64) {
    let (mut messages, mut bytes, mut left) = (Vec::new(), 0, 0);
    for entry in entries.iter().rev() {
        if left > 0 {
            left += 1;
            continue;
        }
        let Some(mut message) = rows::of_stored(entry, wanted.most_chars) else { continue };
        let mut size = message.to_string().len();
        if size > MESSAGE_BYTES_MAX {
            message["content"] = rows::without_pictures(&message["content"]);
            size = message.to_string().len();
        }
        if size > MESSAGE_BYTES_MAX {
            message["content"] = "[this message is too large to be shown]".into();
            size = message.to_string().len();
        }
        if bytes + size > wanted.most_bytes && !messages.is_empty() {
            left = 1;
            continue;
        }
        bytes += size;
        messages.push(message);
    }
    messages.reverse();
    (messages, left)
}

/// What previews say of a conversation.
pub(in crate::gateway) fn previewed(
    key: &str,
    entries: Option<&[Stored]>,
    most_chars: usize,
) -> Value {
    let Some(entries) = entries else {
        return json!({"key": key, "status": "missing", "items": []});
    };
    let items: Vec<Value> = entries
        .iter()
        .filter_map(|entry| rows::of_stored(entry, most_chars))
        .map(|message| json!({"role": message["role"], "text": rows::text_of(&message)}))
        .filter(|item| item["text"] != "")
        .collect();
    let status = if items.is_empty() { "empty" } else { "ok" };
    json!({"key": key, "status": status, "items": items})
}
