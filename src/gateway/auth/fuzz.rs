//! Fuzzing entry: any parameters and any proof get a verdict, and nobody is let in who has neither
//! the secret, nor an open gate, nor a proven and approved device.

use super::devices::{Devices, Entropy, Issuer};
use super::origin::{Origins, Peer};
use super::proof::{Challenge, payload};
use super::secret::{Auth, Mode};
use super::{Gate, Policy, Verdict};
use crate::base::{Millis, b64, id::hex};
use crate::config::Secret;
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

/// The secret of every gate that is fuzzed and tested.
pub(super) const SECRET: &str = "canary-secret-of-the-gate";
/// The nonce of their challenges.
pub(super) const NONCE: &str = "7c9e6679-7425-40de-944b-e07fc1f90ae7";

/// Random bytes that are not.
pub(super) fn entropy(seed: u8) -> Entropy {
    Entropy { token: [seed; 32], id: [seed; 10] }
}

/// A gate in a mode, with no device.
pub(super) fn gate(mode: &str, auto_approve_local: bool) -> Gate {
    let secret = Secret::new(SECRET);
    let auth = Auth::new(mode, Some(&secret), Some(&secret), false);
    let Ok(auth) = auth else { panic!("{mode} is a mode") };
    let (issuer, _) = Issuer::current(None, &auth, &entropy(200));
    let policy = Policy { origins: Origins::default(), auto_approve_local, loopback_only: true };
    Gate::new(auth, issuer, policy, Devices::default())
}

/// Puts a proof into the parameters of a `connect`, of the device whose key has this seed.
pub(super) fn prove(params: &mut Value, seed: u8, at: Millis, v3: bool) {
    let Ok(pair) = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]) else { return };
    let key = pair.public_key().as_ref();
    params["device"] = json!({
        "id": hex(digest(&SHA256, key).as_ref()), "publicKey": b64::encode_url(key),
        "signedAt": at, "nonce": NONCE,
    });
    let role = params["role"].as_str().unwrap_or("operator").to_owned();
    let signed = pair.sign(payload(params, &role, NONCE, v3).as_bytes());
    params["device"]["signature"] = b64::encode_url(signed.as_ref()).into();
}

fn peer(choice: u8) -> Peer {
    let address = match choice % 4 {
        0 => "127.0.0.1",
        1 => "::1",
        2 => "192.168.1.7",
        _ => "2001:db8::7",
    };
    let address = address.parse().unwrap_or(core::net::IpAddr::V4([0, 0, 0, 0].into()));
    let origin = match (choice >> 2) % 4 {
        0 => None,
        1 => Some("http://127.0.0.1:18789"),
        2 => Some("https://evil.example"),
        _ => Some("null"),
    };
    let host = Some("127.0.0.1:18789".to_owned());
    Peer { address, forwarded: choice & 16 != 0, origin: origin.map(str::to_owned), host }
}

/// The first four bytes choose the mode, the peer, the proof and the clock; the others are the
/// parameters of a `connect` as JSON. They are judged, and once more as a device that came back.
///
/// # Panics
/// When a rule is broken; that is what a fuzzer looks for.
pub fn fuzz_connect(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(4) else { return };
    let Ok(params) = serde_json::from_slice::<Value>(rest) else { return };
    if !params.is_object() {
        return;
    }
    let modes = [Mode::None, Mode::Token, Mode::Password];
    let mode = modes[usize::from(head[0]) % modes.len()];
    let mut gate = gate(mode.word(), head[0] & 128 == 0);
    let peer = peer(head[1]);
    let mut at = Millis(1_000_000);
    for round in 0..3u8 {
        let mut params = params.clone();
        let proven = head[2] & 1 == 1;
        if proven {
            let signed = at.plus(u64::from(head[3]) * 1_000);
            prove(&mut params, head[2] >> 4, signed, head[2] & 2 == 0);
        }
        if head[2] & 4 != 0 && params["device"].is_object() {
            params["device"]["nonce"] = "another".into();
        }
        let before = gate.clone();
        let mut challenge = Challenge::new(NONCE);
        let verdict = gate.connect(&peer, &mut challenge, &params, at, &entropy(round));
        let again =
            before.clone().connect(&peer, &mut Challenge::new(NONCE), &params, at, &entropy(round));
        assert_eq!(verdict, again, "the verdict depends on nothing else");
        promises(&verdict, &params, mode);
        at = at.plus(1_000);
    }
}

fn promises(verdict: &Verdict, params: &Value, mode: Mode) {
    let shown = |name: &str| params["auth"][name].as_str().map(str::trim) == Some(SECRET);
    match verdict {
        Verdict::Admitted(admitted) => {
            let known = shown("token") || shown("password") || mode == Mode::None;
            assert!(known || admitted.method == "device-token", "let in for nothing");
            assert!(admitted.method != "device-token" || admitted.caller.device.is_some());
            let granted = admitted.caller.scopes.words();
            let asked = params["scopes"].as_array().cloned().unwrap_or_default();
            for scope in granted {
                assert!(asked.iter().any(|a| a.as_str().map(str::trim) == Some(scope)), "{scope}");
            }
        }
        Verdict::Refused(refused) => {
            assert!(!refused.message.is_empty() && refused.close_reason.len() <= 120);
            assert!(matches!(refused.close_code, 1002 | 1008));
            assert!(refused.error()["code"].is_string());
        }
    }
    let debug = format!("{verdict:?}");
    let elsewhere = params.to_string().replace(&params["auth"].to_string(), "");
    assert!(!debug.contains(SECRET) || elsewhere.contains(SECRET), "the secret shows");
}
