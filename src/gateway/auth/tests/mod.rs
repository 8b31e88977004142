//! Who may connect, by tables (spec/auth.md).

mod connect;
mod pairing;
mod proof;
mod scopes;

use super::fuzz::{self, NONCE, SECRET, entropy, prove};
use super::*;
use crate::base::Millis;
use serde_json::{Value, json};

const NOW: Millis = Millis(1_800_000_000_000);

fn local() -> Peer {
    let host = Some("127.0.0.1:18789".to_owned());
    Peer { address: "127.0.0.1".parse().unwrap(), forwarded: false, origin: None, host }
}

fn far() -> Peer {
    Peer { address: "192.0.2.7".parse().unwrap(), ..local() }
}

fn browser() -> Peer {
    Peer { origin: Some("http://127.0.0.1:18789".to_owned()), ..local() }
}

/// Parameters of a `connect` as a client of this id and mode sends them.
fn params(id: &str, mode: &str, auth: Value) -> Value {
    json!({
        "minProtocol": 4, "maxProtocol": 4, "role": "operator",
        "client": {"id": id, "mode": mode, "version": "1", "platform": "linux",
            "deviceFamily": "Linux"},
        "scopes": ["operator.read", "operator.write"], "auth": auth,
    })
}

fn with_token() -> Value {
    json!({"token": SECRET})
}

/// The same with the proof of the device whose key has this seed.
fn proven(mut params: Value, seed: u8, at: Millis) -> Value {
    prove(&mut params, seed, at, true);
    params
}

fn try_at(gate: &mut Gate, peer: &Peer, params: &Value, at: Millis, seed: u8) -> Verdict {
    gate.connect(peer, &mut Challenge::new(NONCE), params, at, &entropy(seed))
}

fn admitted(gate: &mut Gate, peer: &Peer, params: &Value) -> Admitted {
    match try_at(gate, peer, params, NOW, 7) {
        Verdict::Admitted(admitted) => *admitted,
        Verdict::Refused(refused) => panic!("{refused:?}"),
    }
}

fn refused(gate: &mut Gate, peer: &Peer, params: &Value) -> Refused {
    match try_at(gate, peer, params, NOW, 7) {
        Verdict::Refused(refused) => *refused,
        Verdict::Admitted(admitted) => panic!("{admitted:?}"),
    }
}

fn code(refused: &Refused) -> &str {
    refused.details["code"].as_str().unwrap_or("-")
}

fn token_of(admitted: &Admitted) -> String {
    admitted.auth()["deviceToken"].as_str().unwrap_or_default().to_owned()
}

fn events(effects: &Effects) -> Vec<&str> {
    effects.events.iter().map(|event| event.name).collect()
}
