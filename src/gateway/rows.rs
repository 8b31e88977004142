//! How sessions and messages are told: OpenClaw's names and shapes (protocol 4.7, 4.9).

use super::facts::{Facts, ModelFacts};
use super::runs::agent;
use crate::base::RunId;
use crate::engine::sessions::Status;
use crate::engine::{Cause, Termination};
use crate::records::{Listed, Stored};
use crate::transcript::{Entry, EntryKind};
use serde_json::{Map, Value, json};

/// Characters of a title or of a last message in a list.
const GLIMPSE_CHARS: usize = 240;

/// A message as it is told, or nothing for what is not shown.
pub(super) fn of_entry(entry: &Entry, seq: u64, run: Option<&str>) -> Option<Value> {
    let shown = match &entry.kind {
        EntryKind::Message { message } => serde_json::to_value(message).ok()?,
        EntryKind::CustomMessage { content, display: true, .. } => {
            json!({"role": "custom", "content": content, "timestamp": entry.timestamp})
        }
        EntryKind::CustomMessage { display: false, .. }
        | EntryKind::Custom { .. }
        | EntryKind::Compaction { .. }
        | EntryKind::Reset { .. }
        | EntryKind::BranchSummary { .. }
        | EntryKind::ThinkingLevelChange { .. }
        | EntryKind::ModelChange { .. }
        | EntryKind::Label { .. }
        | EntryKind::SessionInfo { .. }
        | EntryKind::Leaf { .. } => return None,
    };
    Some(marked(shown, entry.id.as_str(), seq, run))
}

/// The same of a stored row; one that cannot be read says so in its place.
pub(super) fn of_stored(stored: &Stored, most_chars: usize) -> Option<Value> {
    let run = stored.run.as_deref();
    let kind: Value = serde_json::from_str(&stored.body).unwrap_or(Value::Null);
    let mut shown = match kind["type"].as_str() {
        Some("message") => kind["message"].clone(),
        Some("custom_message") if kind["display"] == true => {
            json!({"role": "custom", "content": kind["content"], "timestamp": stored.at})
        }
        Some(_) => return None,
        None => json!({
            "role": "system", "timestamp": stored.at,
            "content": "[this message is damaged and cannot be read]",
        }),
    };
    cut_texts(&mut shown, most_chars);
    Some(marked(shown, &stored.id, stored.seq, run))
}

fn marked(mut shown: Value, id: &str, seq: u64, run: Option<&str>) -> Value {
    let mut mark = json!({"id": id, "seq": seq});
    if shown["role"] == "user" {
        // Clients know their own message by this key, and by nothing else.
        match shown["idempotencyKey"].as_str() {
            Some(key) => mark["idempotencyKey"] = key.into(),
            None => {
                if let Some(run) = run {
                    let key = format!("{run}:user");
                    mark["idempotencyKey"] = key.as_str().into();
                    shown["idempotencyKey"] = key.into();
                }
            }
        }
    } else if let Some(run) = run {
        mark["runId"] = run.into();
    }
    shown["__openclaw"] = mark;
    shown
}

/// Cuts every text of a message.
fn cut_texts(message: &mut Value, most: usize) {
    let cut = |value: &mut Value| {
        if let Value::String(text) = value
            && let Some((at, _)) = text.char_indices().nth(most)
        {
            text.truncate(at);
            text.push('…');
        }
    };
    match &mut message["content"] {
        Value::Array(blocks) => {
            for block in blocks {
                for name in ["text", "thinking"] {
                    if let Some(value) = block.get_mut(name) {
                        cut(value);
                    }
                }
            }
        }
        text => cut(text),
    }
}

/// Pictures are told by their kind alone: their data stays in the store (decisions 26).
pub(super) fn without_pictures(content: &Value) -> Value {
    let Value::Array(blocks) = content else { return content.clone() };
    let shown = blocks.iter().map(|block| match block["type"].as_str() {
        Some("image") => json!({"type": "image", "mimeType": block["mimeType"], "omitted": true}),
        _ => block.clone(),
    });
    Value::Array(shown.collect())
}

/// What is set for a session.
pub(super) fn meta(listed: &Listed) -> Map<String, Value> {
    let text = listed.row.meta.as_deref();
    match text.and_then(|text| serde_json::from_str(text).ok()) {
        Some(Value::Object(map)) => map,
        Some(_) | None => Map::new(),
    }
}

/// A session's row.
pub(super) fn session(listed: &Listed, facts: &Facts, active: Option<&RunId>) -> Value {
    let row = &listed.row;
    let meta = meta(listed);
    let reference = meta.get("model").and_then(Value::as_str).unwrap_or(&facts.model);
    let (provider, model) = reference.split_once('/').unwrap_or(("", reference));
    let window = facts.model_of(reference).map(|model| model.window);
    let is_main = row.key == facts.main_key();
    let label = meta.get("label").and_then(Value::as_str);
    let title = listed.title.as_deref().and_then(first_words);
    let display = label.map(str::to_owned).or(title.clone());
    let mut shown = json!({
        "key": row.key, "sessionId": row.session_id, "agentId": agent(&row.key),
        "kind": kind(&row.key), "isMain": is_main, "displayName": display,
        "createdAt": row.created_at, "updatedAt": row.updated_at,
        "lastInteractionAt": row.interaction_at, "lastActivityAt": row.updated_at,
        "archived": false, "pinned": false, "unread": false,
        "hasActiveRun": active.is_some(),
        "activeRunIds": active.map_or_else(Vec::new, |run| vec![run.as_str()]),
        "modelProvider": provider, "model": model, "contextTokens": window,
        "thinkingLevel": "off", "thinkingLevels": THINKING.map(|id| json!({"id": id, "label": id})),
        "thinkingOptions": THINKING, "thinkingDefault": "off",
        "lifecycleRevision": row.revision.to_string(),
        "messageCount": row.entries, "parentSessionKey": row.parent_key,
    });
    if meta.contains_key("model") {
        shown["modelOverrideSource"] = "user".into();
    }
    if let Some(title) = title.filter(|_| label.is_none()) {
        shown["autoLabel"] = title.into();
    }
    if let Some(latest) = listed.latest.as_ref().and_then(|latest| of_stored(latest, GLIMPSE_CHARS))
    {
        shown["lastMessagePreview"] = text_of(&latest).into();
    }
    last_run(&mut shown, listed, active);
    for (name, value) in meta {
        if name != "model" {
            shown[name] = value;
        }
    }
    shown
}

/// The levels of reasoning that a model without any has.
pub(super) const THINKING: [&str; 1] = ["off"];

fn last_run(shown: &mut Value, listed: &Listed, active: Option<&RunId>) {
    let Some(last) = &listed.last else { return };
    shown["lastRunId"] = last.run_id.as_str().into();
    shown["startedAt"] = json!(last.started_at);
    shown["endedAt"] = json!(last.ended_at);
    if let (Some(from), Some(to)) = (last.started_at, last.ended_at) {
        shown["runtimeMs"] = to.since(from).into();
    }
    shown["status"] = match (&last.termination, active) {
        (None, _) | (_, Some(_)) => "running",
        (Some(end), None) => word(end),
    }
    .into();
    if let Some(end @ (Termination::ProviderError { .. } | Termination::Failed { .. })) =
        &last.termination
    {
        shown["lastRunError"] = super::ends::summary(end).into();
    }
}

fn word(end: &Termination) -> &'static str {
    match end {
        Termination::Completed { .. } | Termination::PolicyStop { .. } => "done",
        Termination::Aborted { cause: Cause::Timeout } => "timeout",
        Termination::Aborted { .. } | Termination::Superseded { .. } => "killed",
        Termination::ProviderError { .. } | Termination::ToolLoop | Termination::Failed { .. } => {
            "failed"
        }
    }
}

fn kind(key: &str) -> &'static str {
    if key.contains(":group:") || key.contains(":channel:") { "group" } else { "direct" }
}

fn first_words(body: &str) -> Option<String> {
    let kind: Value = serde_json::from_str(body).ok()?;
    let text = text_of(&kind["message"]);
    let line = crate::engine::turns::one_line(&text, GLIMPSE_CHARS.min(80));
    (!line.is_empty()).then_some(line)
}

/// The text of a message.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// What holds for a session without anything set.
pub(super) fn defaults(facts: &Facts) -> Value {
    let (provider, model) = facts.model.split_once('/').unwrap_or(("", &facts.model));
    json!({
        "modelProvider": provider, "model": model,
        "contextTokens": facts.model_of(&facts.model).map(|model| model.window),
        "thinkingLevels": THINKING.map(|id| json!({"id": id, "label": id})),
        "thinkingDefault": "off",
    })
}

/// A model's row.
pub(super) fn model(model: &ModelFacts) -> Value {
    json!({
        "id": model.id, "name": model.name, "provider": model.provider,
        "contextWindow": model.window, "reasoning": model.reasoning,
        "supportsTools": model.tools, "available": true,
        "input": if model.images { json!(["text", "image"]) } else { json!(["text"]) },
    })
}

/// The word for how a run is.
pub(super) fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "ok",
        Status::Error => "error",
        Status::Timeout => "timeout",
    }
}
