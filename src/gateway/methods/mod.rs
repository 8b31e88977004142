//! What each method does. Its scope and its params were checked.

mod config;
mod history;
mod info;
mod run;
mod sessions;
mod still;

pub(super) use history::previewed;
pub(super) use run::{Message, images};
pub(super) use sessions::changed_session;

use super::frame::{Fault, Params};
use super::hub::{Gateway, Sight};
use super::out::Conn;
use crate::base::SessionKey;
use crate::engine::sessions::Key;
use serde_json::Value;

/// What a method says at once; the others answer later.
type Said = Result<Option<Value>, Fault>;

impl Gateway {
    pub(super) fn method(
        &mut self,
        conn: Conn,
        id: String,
        method: &str,
        params: Params,
        sight: Sight<'_>,
    ) -> Result<(), Fault> {
        let params = &params;
        let asker = (conn, id.clone());
        let said: Said = match method {
            "agent" => self.agent(asker, params),
            "agent.wait" => self.wait(asker, params),
            "sessions.compact" => self.compact(asker, params),
            "chat.send" => self.chat_send(asker, params),
            "sessions.send" => self.session_send(asker, params, false),
            "sessions.steer" => self.session_send(asker, params, true),
            "chat.abort" => self.abort(params, sight),
            "sessions.abort" => self.session_abort(params, sight),
            "chat.inject" => self.inject(asker, params),
            "chat.history" => self.history(asker, params, false),
            "chat.startup" => self.history(asker, params, true),
            "chat.message.get" => self.message(asker, params),
            "chat.metadata" => Ok(Some(self.metadata())),
            "sessions.get" => self.messages(asker, params),
            "sessions.preview" => self.preview(asker, params),
            "sessions.list" => self.list(asker, params, false),
            "sessions.subscribe" => self.subscribe(asker, params),
            "sessions.unsubscribe" => self.unsubscribe(conn),
            "sessions.messages.subscribe" => self.follow(conn, params, true),
            "sessions.messages.unsubscribe" => self.follow(conn, params, false),
            "sessions.describe" => self.describe(asker, params),
            "sessions.resolve" => self.resolve(asker, params),
            "sessions.create" => self.create(asker, params),
            "sessions.fork" => self.fork(asker, params),
            "sessions.patch" => self.patch(asker, params),
            "sessions.reset" => self.reset(asker, params),
            "sessions.delete" => self.delete(asker, params),
            "health" => self.health(asker),
            "status" => self.status(asker),
            "tools.invoke" => self.invoke(asker, params),
            "audit.list" => self.audit_list(conn, &id, params, false),
            "audit.activity.list" => self.audit_list(conn, &id, params, true),
            method if method.starts_with("config.") || method == "logs.tail" => {
                self.files(conn, &id, method, params)
            }
            method if method.starts_with("device.") => {
                self.device(conn, &id, method, &Value::Object(params.0.clone()))
            }
            _ => self.told_at_once(conn, method, sight),
        };
        if let Some(payload) = said? {
            self.respond(conn, &id, Ok(payload));
        }
        Ok(())
    }

    /// The conversation that a key means.
    pub(super) fn key(&self, params: &Params, name: &str) -> Result<Key, Fault> {
        let text = params.text(name).unwrap_or("main");
        self.key_of(text, params.text("agentId")).map_err(|fault| match fault.details {
            None => Fault::invalid(format!("at /{name}: {}", fault.message)),
            Some(_) => fault,
        })
    }

    pub(super) fn key_of(&self, text: &str, agent: Option<&str>) -> Result<Key, Fault> {
        let served = &self.facts.agent;
        let of = agent.map_or_else(|| served.clone(), crate::base::key::agent_id);
        let key = SessionKey::parse_for(text, &of).map_err(|e| Fault::invalid(e.to_string()))?;
        if agent.is_some() && key.agent() != of {
            let words = format!("{} is no conversation of agent {of}", key.as_str());
            return Err(Fault::invalid(words));
        }
        if key.agent() != served {
            let gone = format!("Agent \"{}\" no longer exists in configuration", key.agent());
            let details = serde_json::json!({"code": "UNKNOWN_AGENT_ID"});
            return Err(Fault { details: Some(details), ..Fault::invalid(gone) });
        }
        Ok(key.as_str().into())
    }
}
