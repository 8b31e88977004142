//! What the gateway is and how it does (protocol 4.14).

use super::Said;
use crate::gateway::hub::Gateway;
use crate::gateway::out::Conn;
use crate::gateway::pending::After;
use crate::gateway::rows;
use crate::records::{Listed, Query, Which};
use serde_json::{Value, json};

/// How many sessions the health and the state name.
const RECENT: u32 = 10;

type Asker = (Conn, String);

impl Gateway {
    pub(super) fn health(&mut self, (conn, id): Asker) -> Said {
        self.ask(conn, id, recent(), After::Health);
        Ok(None)
    }

    pub(super) fn status(&mut self, (conn, id): Asker) -> Said {
        self.ask(conn, id, recent(), After::Status);
        Ok(None)
    }

    /// The health, with the sessions that were changed last.
    pub(in crate::gateway) fn health_of(
        &self,
        listed: &[Listed],
        total: u64,
        runs: usize,
        in_use: usize,
    ) -> Value {
        let agent = self.facts.agent.as_str();
        let sessions = self.brief(listed, total);
        json!({
            "ok": true, "ts": self.now, "durationMs": 0, "runs": runs, "inUse": in_use,
            "channels": {}, "channelOrder": [], "channelLabels": {}, "heartbeatSeconds": 0,
            "defaultAgentId": agent,
            "agents": [{"agentId": agent, "name": agent, "isDefault": true, "sessions": sessions,
                "heartbeat": {"enabled": false, "every": "disabled", "everyMs": null}}],
            "sessions": sessions, "plugins": {"loaded": [], "errors": []},
        })
    }

    fn brief(&self, listed: &[Listed], total: u64) -> Value {
        let recent: Vec<Value> = listed
            .iter()
            .map(|one| {
                let age = self.now.since(one.row.updated_at);
                json!({"key": one.row.key, "updatedAt": one.row.updated_at, "age": age})
            })
            .collect();
        json!({"path": self.facts.database, "count": total, "recent": recent})
    }

    /// The state, with the sessions that were changed last.
    pub(in crate::gateway) fn status_of(&self, listed: &[Listed], total: u64) -> Value {
        let facts = &self.facts;
        let defaults = rows::defaults(facts);
        let recent: Vec<Value> = listed
            .iter()
            .map(|one| rows::session(one, facts, None))
            .map(with_age(self.now.0))
            .collect();
        let by_agent = json!([{
            "agentId": facts.agent, "path": facts.database, "count": total, "recent": recent,
        }]);
        json!({
            "runtimeVersion": facts.version, "pid": facts.pid, "hostDesktop": false,
            "heartbeat": {"defaultAgentId": facts.agent, "agents": [{
                "agentId": facts.agent, "enabled": false, "every": "disabled", "everyMs": null,
            }]},
            "channelSummary": [], "queuedSystemEvents": [], "degradedSecretOwners": [],
            "degradedPlugins": [],
            "tasks": {"total": 0, "active": 0, "terminal": 0, "failures": 0,
                "byStatus": {}, "byRuntime": {}},
            "taskAudit": {"total": 0, "warnings": 0, "errors": 0, "byCode": {}},
            "uptimeMs": self.now.since(self.started),
            "sessions": {
                "paths": [facts.database], "count": total, "defaults": {
                    "model": defaults["model"], "contextTokens": defaults["contextTokens"],
                },
                "recent": recent, "byAgent": by_agent,
            },
        })
    }

    /// What a chat needs to know of models and commands.
    pub(super) fn metadata(&self) -> Value {
        json!({"models": self.models(), "commands": self.commands()["commands"]})
    }

    pub(super) fn models(&self) -> Value {
        Value::Array(self.facts.models.iter().map(rows::model).collect())
    }

    /// The commands that a message may be (Y4).
    pub(super) fn commands(&self) -> Value {
        let rows = COMMANDS.map(|(name, description, category, args)| {
            json!({
                "name": name, "nativeName": name, "textAliases": [format!("/{name}")],
                "description": description, "category": category, "source": "native",
                "scope": "both", "acceptsArgs": args,
            })
        });
        json!({ "commands": rows })
    }
}

/// Name, what it does, its group, whether words may follow it.
const COMMANDS: [(&str, &str, &str, bool); 5] = [
    ("new", "Begin a new conversation; a message may follow.", "session", true),
    (
        "queue",
        "Show or set what happens to messages that come while a run goes on.",
        "options",
        true,
    ),
    ("reset", "Forget what was said; a message may follow.", "session", true),
    ("steer", "Give a message to the run that goes on.", "session", true),
    ("stop", "Stop what runs and what waits.", "session", false),
];

fn recent() -> Query {
    Query::List(Which { limit: RECENT, ..Which::default() })
}

fn with_age(now: u64) -> impl Fn(Value) -> Value {
    move |mut row| {
        let updated = row["updatedAt"].as_u64().unwrap_or(now);
        row["age"] = now.saturating_sub(updated).into();
        row
    }
}
