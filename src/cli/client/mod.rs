//! The command line as a client of a gateway that runs.

mod agent;
mod socket;

pub(super) use agent::through;

use super::{FAILED, Failed};
use crate::config::{Config, Paths};
use crate::store::StateLock;
use serde_json::{Value, json};
use socket::{Socket, SocketError};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a hello may take.
const HELLO: Duration = Duration::from_secs(5);
/// How long an answer may take, where nobody says.
pub(super) const ANSWER: Duration = Duration::from_secs(10);

/// A connection that has said hello.
pub(super) struct Client {
    socket: Socket,
    next: u32,
    /// Events that came while an answer was awaited.
    events: Vec<Value>,
}

/// The gateway that has the state directory: its process and its address, as its lock says.
pub(super) fn running(paths: &Paths) -> Option<(u32, SocketAddr)> {
    let owner = StateLock::owner(&paths.state)?;
    let rest = owner.strip_prefix("stepclaw gateway (process ")?;
    let (pid, at) = rest.split_once(") at ")?;
    Some((pid.parse().ok()?, at.trim().parse().ok()?))
}

/// What a gateway is called with, in the order of what is nearest.
fn secret(config: &Config, paths: &Paths) -> Value {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    let of = |deferred: &Option<crate::config::Deferred>| {
        deferred.as_ref().and_then(|d| d.get().ok().map(|secret| secret.expose().to_owned()))
    };
    if let Some(token) = variable("STEPCLAW_GATEWAY_TOKEN") {
        return json!({ "token": token });
    }
    if let Some(password) = variable("STEPCLAW_GATEWAY_PASSWORD") {
        return json!({ "password": password });
    }
    if let Some(token) = of(&config.network.token) {
        return json!({ "token": token });
    }
    if let Some(password) = of(&config.network.password) {
        return json!({ "password": password });
    }
    let kept = std::fs::read_to_string(super::gateway::token_file(paths));
    kept.map_or(json!({}), |token| json!({ "token": token.trim() }))
}

/// There is no gateway, said so that a person knows what to do.
pub(super) fn no_gateway(paths: &Paths) -> Failed {
    let words =
        format!("no gateway runs for {}; `stepclaw gateway` starts one", paths.state.display());
    Failed::new(FAILED, words)
}

impl Client {
    /// Connects to the gateway of this state directory.
    pub fn connect(config: &Config, paths: &Paths) -> Result<Client, Failed> {
        let (_, at) = running(paths).ok_or_else(|| no_gateway(paths))?;
        let socket = Socket::open(at).map_err(|error| failed(at, &error))?;
        let mut client = Client { socket, next: 0, events: vec![] };
        let until = Instant::now() + HELLO;
        // The challenge comes first; a program without a device has nothing to sign.
        client.socket.next(until).map_err(|error| failed(at, &error))?;
        let params = json!({
            "minProtocol": 4, "maxProtocol": 4, "role": "operator",
            "client": {"id": "cli", "version": env!("CARGO_PKG_VERSION"),
                "platform": std::env::consts::OS, "mode": "cli"},
            "scopes": ["operator.admin"], "caps": ["tool-events"],
            "auth": secret(config, paths),
        });
        client.call("connect", &params, HELLO)?;
        Ok(client)
    }

    /// Sends a request; gives its id.
    pub fn send(&mut self, method: &str, params: &Value) -> Result<String, Failed> {
        self.next += 1;
        let id = self.next.to_string();
        let frame = json!({"type": "req", "id": id, "method": method, "params": params});
        self.socket.send(&frame.to_string()).map_err(|error| lost(&error))?;
        Ok(id)
    }

    /// The next frame; nothing at that time.
    pub fn next(&mut self, until: Instant) -> Result<Option<Value>, Failed> {
        if !self.events.is_empty() {
            return Ok(Some(self.events.remove(0)));
        }
        match self.socket.next(until) {
            Ok(text) => Ok(Some(serde_json::from_str(&text).unwrap_or_default())),
            Err(SocketError::Late) => Ok(None),
            Err(error) => Err(lost(&error)),
        }
    }

    /// Calls a method and waits for its answer.
    pub fn call(&mut self, method: &str, params: &Value, most: Duration) -> Result<Value, Failed> {
        let id = self.send(method, params)?;
        let until = Instant::now() + most;
        let mut before = Vec::new();
        loop {
            let text = self.socket.next(until).map_err(|error| lost(&error))?;
            let frame: Value = serde_json::from_str(&text).unwrap_or_default();
            if frame["type"] == "res" && frame["id"] == id.as_str() {
                self.events = before;
                return answer(frame);
            }
            before.push(frame);
        }
    }
}

/// The payload of an answer, or its error in words.
pub(super) fn answer(mut frame: Value) -> Result<Value, Failed> {
    if frame["ok"] == true {
        return Ok(frame["payload"].take());
    }
    let (code, message) = (&frame["error"]["code"], &frame["error"]["message"]);
    let words = message.as_str().unwrap_or("the gateway gave no reason");
    let hint = match frame["error"]["details"]["code"].as_str() {
        Some("AUTH_TOKEN_MISMATCH" | "AUTH_TOKEN_MISSING") => {
            "; set STEPCLAW_GATEWAY_TOKEN to the token that the gateway was started with"
        }
        _ => "",
    };
    let code = code.as_str().unwrap_or("UNAVAILABLE");
    Err(Failed::new(FAILED, format!("{words} ({code}){hint}")))
}

fn failed(at: SocketAddr, error: &SocketError) -> Failed {
    Failed::new(FAILED, format!("cannot reach the gateway at {at}: {error}"))
}

fn lost(error: &SocketError) -> Failed {
    Failed::new(FAILED, error.to_string())
}
