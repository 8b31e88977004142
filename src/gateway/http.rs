//! Pages and probes (protocol 1.2).

use super::hub::{Gateway, Sight};
use super::out::Conn;
use super::wire::{Method, Request, Response};
use serde_json::{Value, json};

impl Gateway {
    /// A request came that is no upgrade.
    pub(super) fn asked_for(&mut self, conn: Conn, request: &Request, _sight: Sight<'_>) {
        let response = match request.path.as_str() {
            "/health" | "/healthz" => {
                self.probe(request, true, json!({"ok": true, "status": "live"}))
            }
            "/ready" | "/readyz" => {
                let ready = !self.draining;
                let body = json!({"ready": ready, "failing": [], "uptimeMs": self.uptime()});
                self.probe(request, ready, body)
            }
            "/startup" | "/startupz" => {
                let ok = !self.draining;
                let status = if ok { "started" } else { "draining" };
                let version = self.facts.version.as_str();
                let body = json!({"ok": ok, "status": status, "version": version,
                    "uptimeMs": self.uptime()});
                self.probe(request, ok, body)
            }
            _ => plain(404, "Not Found"),
        };
        self.reply(conn, &response);
    }

    fn uptime(&self) -> u64 {
        self.now.since(self.started)
    }

    fn probe(&self, request: &Request, ok: bool, body: Value) -> Response {
        if !matches!(request.method, Method::Get | Method::Head) {
            return plain(405, "Method Not Allowed").header("Allow", "GET, HEAD");
        }
        json_response(if ok { 200 } else { 503 }, &body).header("Cache-Control", "no-store")
    }

    pub(super) fn reply(&mut self, conn: Conn, response: &Response) {
        let now = self.now;
        if let Some(line) = self.lines.get_mut(&conn) {
            line.wire.respond(now, response);
            self.dirty.insert(conn);
        }
    }

    /// Whoever asked has gone, or asks for nothing more.
    pub(super) fn http_gone(&mut self, _conn: Conn) {}
}

/// An answer in words.
pub(super) fn plain(status: u16, words: &str) -> Response {
    Response::new(status)
        .header("Content-Type", "text/plain; charset=utf-8")
        .body(words.as_bytes().to_vec())
}

/// An answer in JSON.
pub(super) fn json_response(status: u16, body: &Value) -> Response {
    Response::new(status)
        .header("Content-Type", "application/json; charset=utf-8")
        .body(body.to_string().into_bytes())
}
