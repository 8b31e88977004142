//! The configuration and the log, asked for and changed by clients (protocol 4.13, 4.14).

use super::Said;
use crate::config::{self, Wanted};
use crate::gateway::chores::{Chore, ConfigChanged, ConfigSeen};
use crate::gateway::facts::Facts;
use crate::gateway::frame::{Fault, Params};
use crate::gateway::hub::Gateway;
use crate::gateway::out::Conn;
use serde_json::{Value, json};

/// Lines of the log where nobody says how many.
const LINES: u64 = 500;
/// Bytes of the log where nobody says how many.
const BYTES: u64 = 250_000;

impl Gateway {
    /// `config.*` and `logs.tail`.
    pub(super) fn files(&mut self, conn: Conn, id: &str, method: &str, params: &Params) -> Said {
        let base = || params.text("baseHash").map(str::to_owned);
        let raw = || params.need("raw").to_owned();
        let chore = match method {
            "config.get" => Chore::Config,
            "config.schema" => {
                let mut answer = config::schema();
                answer["version"] = self.facts.version.as_str().into();
                answer["generatedAt"] = self.facts.config.made_at.as_str().into();
                return Ok(Some(answer));
            }
            "config.schema.lookup" => {
                let found = config::lookup(params.need("path"));
                let missing = || Fault::invalid("config schema path not found");
                return found.map(Some).ok_or_else(missing);
            }
            "config.set" => Chore::Change(Wanted::Text(raw()), base()),
            "config.apply" => {
                self.may_write(conn, method)?;
                Chore::Change(Wanted::Text(raw()), base())
            }
            "config.patch" => {
                self.may_write(conn, method)?;
                let paths = params.0.get("replacePaths").and_then(Value::as_array);
                let paths = paths.into_iter().flatten().filter_map(Value::as_str);
                let replace = paths.map(str::to_owned).collect();
                Chore::Change(Wanted::Patch { patch: raw(), replace }, base())
            }
            _ => Chore::Tail {
                cursor: params.number("cursor"),
                limit: params.number("limit").unwrap_or(LINES),
                bytes: params.number("maxBytes").unwrap_or(BYTES),
            },
        };
        self.chore(conn, id, method, chore);
        Ok(None)
    }

    pub(in crate::gateway) fn config_seen(&self, seen: ConfigSeen) -> Value {
        let own = &self.facts.config;
        let valid = seen.issues.is_empty();
        let source = if valid { seen.source } else { json!({}) };
        json!({
            "path": own.path, "exists": seen.exists, "raw": seen.raw.filter(|_| valid),
            "parsed": source, "sourceConfig": source, "resolved": source, "config": source,
            "runtimeConfig": if valid { own.effective.clone() } else { json!({}) },
            "valid": valid, "issues": seen.issues, "warnings": [], "legacyIssues": [],
            "hash": seen.hash, "configRevisionHash": seen.hash, "appliedConfigHash": seen.applied,
        })
    }

    pub(in crate::gateway) fn config_changed(&self, method: &str, of: ConfigChanged) -> Value {
        let mut answer = json!({
            "ok": true, "path": self.facts.config.path, "config": of.source, "hash": of.hash,
            "applied": of.applied, "requiresRestart": of.restart,
        });
        if method == "config.set" {
            return answer;
        }
        if !of.written {
            answer["noop"] = true.into();
        }
        // Nobody but a person ends the process, so nothing is left for its successor to say.
        answer["sentinel"] = Value::Null;
        answer["restart"] = match of.restart.is_empty() {
            true => Value::Null,
            false => json!({"ok": false, "required": true, "scheduled": false,
                "paths": of.restart, "reason": "stop the gateway and start it again"}),
        };
        answer
    }

    /// Another configuration holds: what of the facts follows from it.
    pub fn renew(&mut self, facts: Facts) {
        let own = &mut self.facts;
        (own.model, own.models, own.tools) = (facts.model, facts.models, facts.tools);
        own.config = facts.config;
    }
}
