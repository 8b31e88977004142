//! Methods that are answered at once: what is known of the process, and what there is none of.
//! Pages of clients ask for the latter whether or not it is offered; an empty answer is the truth.

use super::Said;
use crate::gateway::frame::Fault;
use crate::gateway::hub::{Gateway, Sight};
use crate::gateway::out::Conn;
use serde_json::{Value, json};

impl Gateway {
    pub(super) fn told_at_once(&mut self, conn: Conn, method: &str, sight: Sight<'_>) -> Said {
        let facts = &self.facts;
        Ok(Some(match method {
            "agents.list" => self.agents(),
            "agent.identity.get" => json!({
                "agentId": facts.agent, "name": facts.agent, "nameSource": "default",
                "avatarStatus": "none",
            }),
            "models.list" => json!({ "models": self.models() }),
            "models.authStatus" => json!({"ts": self.now, "providers": []}),
            "commands.list" => self.commands(),
            "tools.catalog" => self.tools("profiles"),
            "tools.effective" => self.tools("profile"),
            "skills.status" => json!({
                "workspaceDir": facts.workspace, "managedSkillsDir": facts.state_dir, "skills": [],
            }),
            "system-presence" => self.presence(),
            "system.info" => json!({
                "hostname": facts.host, "platform": facts.platform, "pid": facts.pid,
                "uptimeMs": self.now.since(self.started), "version": facts.version,
            }),
            "users.self" => json!({ "profile": null }),
            "chat.toolTitles" => json!({"titles": {}, "disabled": true}),
            "sessions.branches.list" => json!({ "branches": [] }),
            other => return empty(other, self.now.0, sight.sessions.unfinished(), conn),
        }))
    }

    fn agents(&self) -> Value {
        let facts = &self.facts;
        json!({
            "defaultId": facts.agent, "mainKey": "main", "scope": "per-sender",
            "agents": [{
                "id": facts.agent, "kind": "agent", "name": facts.agent,
                "identity": {"name": facts.agent}, "workspace": facts.workspace,
                "model": {"primary": facts.model}, "thinkingDefault": "off",
                "thinkingOptions": ["off"], "thinkingLevels": [{"id": "off", "label": "off"}],
            }],
        })
    }

    fn tools(&self, profile: &str) -> Value {
        let tools: Vec<Value> = self
            .facts
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "id": tool.name, "label": tool.name, "description": tool.description,
                    "rawDescription": tool.description, "source": "core",
                    "defaultProfiles": ["full"],
                    "risk": if tool.safe { "low" } else { "medium" },
                })
            })
            .collect();
        let mut answer = json!({
            "agentId": self.facts.agent,
            "groups": [{"id": "core", "label": "Tools", "source": "core", "tools": tools}],
        });
        answer[profile] = match profile {
            "profile" => "full".into(),
            _ => json!([{"id": "full", "label": "Full"}]),
        };
        answer
    }
}

/// What there is none of.
fn empty(method: &str, now: u64, _runs: usize, _conn: Conn) -> Said {
    Ok(Some(match method {
        "exec.approval.list" | "plugin.approval.list" | "openclaw.approval.list" => json!([]),
        "question.list" => json!({ "questions": [] }),
        "taskSuggestions.list" => json!({ "suggestions": [] }),
        "tasks.list" => json!({ "tasks": [] }),
        "cron.list" => json!({
            "jobs": [], "total": 0, "offset": 0, "limit": 50, "hasMore": false, "nextOffset": null,
        }),
        "cron.status" => json!({
            "enabled": false, "triggersEnabled": false, "storage": "sqlite", "jobs": 0,
            "nextWakeAtMs": null,
        }),
        "usage.status" => json!({"updatedAt": now, "providers": []}),
        "usage.cost" => json!({"updatedAt": now, "daily": [], "totals": {}}),
        "update.status" => json!({"sentinel": null, "updateAvailable": null}),
        "progressCard.get" => json!({ "card": null }),
        "sessions.companion.state" => json!({ "exchanges": [] }),
        "sessions.observer.visibility" => json!({ "ok": true }),
        "talk.catalog" => json!({ "providers": [] }),
        "plugins.controlUi.list" => json!({"plugins": [], "diagnostics": []}),
        "channels.status" => json!({
            "ts": now, "channelOrder": [], "channelLabels": {}, "channels": {},
            "channelAccounts": {}, "channelDefaultAccountId": {},
        }),
        "node.list" => json!({"ts": now, "nodes": []}),
        "node.pair.list" => json!({"pending": [], "paired": []}),
        "last-heartbeat" => Value::Null,
        other => return Err(Fault::invalid(format!("unknown method: {other}"))),
    }))
}
