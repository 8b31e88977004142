//! Who is connected (protocol 4.14, 5.6).

use super::hub::{Audience, Client, Gateway};
use serde_json::{Value, json};

impl Gateway {
    /// Everybody who counts as being there: tools that come for one call do not.
    pub(super) fn presence(&self) -> Value {
        let own = json!({
            "host": self.facts.host, "version": self.facts.version,
            "platform": self.facts.platform, "mode": "gateway", "reason": "self",
            "text": format!("Gateway: {} · {}", self.facts.host, self.facts.version),
            "ts": self.now, "onlineSince": self.started,
        });
        let others = self.clients.values().filter(|client| tracked(client)).map(|client| {
            json!({
                "clientId": client.id, "host": client.name.as_deref().unwrap_or(&client.id),
                "ip": client.ip, "version": client.version, "platform": client.platform,
                "deviceFamily": client.family, "mode": client.mode, "reason": "connect",
                "deviceId": client.device, "roles": ["operator"], "scopes": client.scopes.words(),
                "instanceId": client.instance, "ts": client.since, "onlineSince": client.since,
                "text": format!("{} {}", client.id, client.version),
            })
        });
        let all: Vec<Value> = std::iter::once(own).chain(others).map(without_nulls).collect();
        Value::Array(all)
    }

    /// Somebody came or went.
    pub(super) fn presence_changed(&mut self, client: &Client) {
        if !tracked(client) {
            return;
        }
        self.presence_version += 1;
        let payload = json!({ "presence": self.presence() });
        self.broadcast("presence", &payload, &Audience::All);
    }
}

fn tracked(client: &Client) -> bool {
    client.ip.is_some() && !matches!(client.mode.as_str(), "cli" | "backend" | "probe")
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}
