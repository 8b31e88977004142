//! Probes (J1): is the process there, does it take work, has it started.

use super::json_response;
use crate::gateway::hub::Gateway;
use crate::gateway::lines::peer;
use crate::gateway::out::Conn;
use crate::gateway::wire::Request;
use serde_json::json;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Probe {
    Health,
    Ready,
    Startup,
}

impl Probe {
    pub fn of(path: &str) -> Option<Probe> {
        Some(match path {
            "/health" | "/healthz" => Probe::Health,
            "/ready" | "/readyz" => Probe::Ready,
            "/startup" | "/startupz" => Probe::Startup,
            _ => return None,
        })
    }
}

impl Gateway {
    pub(super) fn probe(&mut self, conn: Conn, request: &Request, probe: Probe) {
        let (now, fine) = (self.now, !self.draining);
        let Some(line) = self.lines.get(&conn) else { return };
        let peer = peer(line.address, request);
        let authorization = request.headers.get("authorization");
        let gate = self.gate.as_mut();
        let confides = gate.is_some_and(|gate| gate.confides(&peer, authorization, now));
        let mut body = match probe {
            Probe::Health => json!({"ok": true, "status": "live"}),
            Probe::Ready => json!({ "ready": fine }),
            Probe::Startup => {
                json!({"ok": fine, "status": if fine { "started" } else { "draining" }})
            }
        };
        if confides && probe != Probe::Health {
            body["uptimeMs"] = now.since(self.started).into();
            match probe {
                Probe::Ready if fine => body["failing"] = json!([]),
                Probe::Ready => body["failing"] = json!(["draining"]),
                Probe::Health | Probe::Startup => {
                    body["version"] = self.facts.version.as_str().into();
                }
            }
        }
        let status = if fine || probe == Probe::Health { 200 } else { 503 };
        self.reply(conn, &json_response(status, &body));
    }
}
