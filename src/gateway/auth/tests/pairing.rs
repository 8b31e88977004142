//! H14 to H25: devices, their approvals, their tokens.

use super::*;

/// A gate in a mode, and calls of methods on it.
struct Bed {
    gate: Gate,
    at: Millis,
}

fn bed(mode: &str) -> Bed {
    Bed { gate: fuzz::gate(mode, true), at: NOW }
}

fn admin() -> Caller {
    let scopes = Scopes::from_words(["operator.admin"]);
    Caller { device: None, about: About::default(), scopes }
}

fn payload(done: &Done) -> Value {
    done.answer.clone().unwrap().unwrap()
}

impl Bed {
    fn connect(&mut self, peer: &Peer, params: &Value) -> Verdict {
        try_at(&mut self.gate, peer, params, self.at, 11)
    }

    fn admitted(&mut self, peer: &Peer, params: &Value) -> Admitted {
        match self.connect(peer, params) {
            Verdict::Admitted(admitted) => *admitted,
            Verdict::Refused(refused) => panic!("{refused:?}"),
        }
    }

    fn refused(&mut self, peer: &Peer, params: &Value) -> Refused {
        match self.connect(peer, params) {
            Verdict::Refused(refused) => *refused,
            Verdict::Admitted(admitted) => panic!("{admitted:?}"),
        }
    }

    fn call(&mut self, caller: &Caller, method: &str, params: Value) -> Done {
        let connected = |_: &str| false;
        let e = entropy(99);
        self.gate.devices.call(method, &params, caller, &connected, self.at, &e).unwrap()
    }

    fn done(&mut self, caller: &Caller, method: &str, params: Value) -> Value {
        payload(&self.call(caller, method, params))
    }

    fn fails(&mut self, caller: &Caller, method: &str, params: Value) -> String {
        self.call(caller, method, params).answer.unwrap_err().message
    }

    /// A device that asked from afar; the id of its request.
    fn asks(&mut self, seed: u8) -> String {
        let params = tui(seed, self.at);
        let refused = self.refused(&far(), &params);
        refused.details["requestId"].as_str().unwrap().to_owned()
    }
}

fn tui(seed: u8, at: Millis) -> Value {
    proven(params("openclaw-tui", "ui", with_token()), seed, at)
}

fn asking(mut params: Value, scopes: &[&str], seed: u8, at: Millis) -> Value {
    params["scopes"] = json!(scopes);
    proven(params, seed, at)
}

fn page(seed: u8) -> Value {
    let mut params = params("openclaw-control-ui", "webchat", with_token());
    prove(&mut params, seed, NOW, false);
    params
}

/// H12, H15, H16: a new device on this machine is paired without a person and gets its token; with
/// that it comes in again without the secret.
#[test]
fn a_device_from_here_is_paired_silently() {
    let mut bed = bed("token");
    let first = bed.admitted(&local(), &tui(3, NOW));
    assert_eq!((first.method, first.auth()["issuedAtMs"].as_u64()), ("token", Some(NOW.0)));
    assert_eq!(events(&first.effects), ["device.pair.resolved"]);
    assert_eq!(first.effects.events[0].payload["decision"], "approved");
    let [Change::Device(stored)] = &first.effects.changes[..] else { panic!("one change") };
    assert!(stored.silent && stored.tokens["operator"].issuer.is_some());
    let token = token_of(&first);
    for auth in [json!({"deviceToken": token}), json!({"token": token})] {
        let again = proven(params("openclaw-tui", "ui", auth), 3, NOW);
        let again = bed.admitted(&far(), &again);
        assert_eq!(again.method, "device-token");
        assert_eq!(token_of(&again), token, "the same token, as long as it does");
        assert!(events(&again.effects).is_empty());
    }
    // Another device cannot use it, and it does not give more than it was made for.
    let stolen = proven(params("openclaw-tui", "ui", json!({"deviceToken": token})), 4, NOW);
    assert_eq!(code(&bed.refused(&local(), &stolen)), "AUTH_DEVICE_TOKEN_MISMATCH");
    let auth = json!({"deviceToken": token});
    let more = asking(params("openclaw-tui", "ui", auth), &["operator.admin"], 3, NOW);
    let more = bed.refused(&local(), &more);
    assert_eq!(code(&more), "AUTH_SCOPE_MISMATCH");
    assert_eq!(more.details["recommendedNextStep"], "review_auth_configuration");
}

/// H15: which approvals are silent.
#[test]
fn silence_has_its_rules() {
    let container = Peer { address: "172.17.0.1".parse().unwrap(), ..browser() };
    let forwarded = Peer { forwarded: true, ..local() };
    let native = proven(params("openclaw-macos", "ui", with_token()), 3, NOW);
    let cases = [
        ("tui from here", local(), tui(3, NOW), true),
        ("tui from afar", far(), tui(3, NOW), false),
        ("tui through a proxy", forwarded, tui(3, NOW), false),
        ("an app in a browser", browser(), native, false),
        ("the page from here", browser(), page(3), true),
        ("the page through a container", container.clone(), page(3), false),
    ];
    for (what, peer, params, fine) in cases {
        let got = bed("token").connect(&peer, &params);
        let paired = matches!(&got, Verdict::Admitted(_));
        assert_eq!(paired, fine, "{what}: {got:?}");
    }
    let mut gate = fuzz::gate("token", false);
    assert_eq!(code(&refused(&mut gate, &local(), &tui(3, NOW))), "PAIRING_REQUIRED");
    // A container's page is from here, once its origin may be here at all.
    let secret = crate::config::Secret::new(SECRET);
    let auth = Auth::new("token", Some(&secret), None, false).unwrap();
    let (issuer, _) = Issuer::current(None, &auth, &entropy(1));
    let origins = Origins { allowed: vec!["http://127.0.0.1:18789".into()], host_fallback: false };
    let policy = Policy { origins, auto_approve_local: true, loopback_only: true };
    let mut gate = Gate::new(auth, issuer, policy, Devices::default());
    admitted(&mut gate, &container, &page(3));
    let public = Peer { address: "192.0.2.7".parse().unwrap(), ..container };
    assert_eq!(code(&refused(&mut gate, &public, &page(4))), "PAIRING_REQUIRED");
}

/// H14: pairing is skipped for the gateway's own calls, and for the page where the gate is open.
#[test]
fn pairing_is_skipped_for_some() {
    let backend = proven(params("gateway-client", "backend", with_token()), 3, NOW);
    let own = bed("token").admitted(&local(), &backend);
    assert_eq!((own.token.clone(), own.effects.changes.len()), (None, 0));
    assert_eq!(code(&bed("token").refused(&far(), &backend)), "PAIRING_REQUIRED");
    let open = bed("none").admitted(&browser(), &page(3));
    assert_eq!((open.method, open.token), ("none", None));
    assert!(bed("none").admitted(&local(), &tui(3, NOW)).token.is_some());
}

/// H17, H18: a device from afar waits for a person, once, and is told how.
#[test]
fn a_device_from_afar_waits() {
    let mut bed = bed("token");
    let got = bed.refused(&far(), &tui(3, NOW));
    assert_eq!((got.code, got.close_code), ("NOT_PAIRED", 1008));
    let id = got.details["requestId"].as_str().unwrap().to_owned();
    assert!(got.close_reason.ends_with(&format!("(requestId: {id})")), "{}", got.close_reason);
    assert_eq!(got.details["reason"], "not-paired");
    assert_eq!(got.details["requestedScopes"], json!(["operator.read", "operator.write"]));
    assert_eq!(got.details.get("approvedRoles"), None);
    assert_eq!(got.details.get("retryable"), None);
    assert_eq!(events(&got.effects), ["device.pair.requested"]);
    let told = &got.effects.events[0].payload;
    let want = json!({
        "requestId": id, "deviceId": got.details["deviceId"], "publicKey": told["publicKey"],
        "platform": "linux", "deviceFamily": "Linux", "clientId": "openclaw-tui",
        "clientMode": "ui", "role": "operator", "roles": ["operator"], "silent": false,
        "scopes": ["operator.read", "operator.write"], "remoteIp": "192.0.2.7",
        "isRepair": false, "ts": NOW,
    });
    assert_eq!(told, &want);
    // Asking again changes nothing but the time.
    bed.at = NOW.plus(200_000);
    let again = bed.refused(&far(), &tui(3, bed.at));
    assert_eq!(again.details["requestId"], id.as_str());
    assert!(events(&again.effects).is_empty());
    assert_eq!(bed.gate.devices.due(), Some(NOW.plus(500_000)));
    // Asking for more is news.
    let tui = params("openclaw-tui", "ui", with_token());
    let more = bed.refused(&far(), &asking(tui, &["operator.admin"], 3, bed.at));
    assert_eq!(events(&more.effects), ["device.pair.requested"]);
    let scopes = &more.effects.events[0].payload["scopes"];
    assert_eq!(scopes, &json!(["operator.admin", "operator.read", "operator.write"]));
    // It runs out, and that is told.
    bed.at = NOW.plus(500_000);
    let list = bed.call(&admin(), "device.pair.list", json!({}));
    assert_eq!(payload(&list)["pending"], json!([]));
    assert_eq!(list.effects.events[0].payload["decision"], "rejected");
    assert_eq!(list.effects.ended, [id]);
    let far_page = Peer { address: "192.168.1.9".parse().unwrap(), ..local() };
    let origin = Some("http://192.168.1.2:18789".to_owned());
    let host = Some("192.168.1.2:18789".to_owned());
    let got = bed_at(NOW).refused(&Peer { origin, host, ..far_page }, &page(5));
    let of = |name: &str| got.details[name].clone();
    let steps = (of("recommendedNextStep"), of("retryable"), of("pauseReconnect"));
    assert_eq!(steps, ("wait_then_retry".into(), true.into(), false.into()));
}

fn bed_at(at: Millis) -> Bed {
    Bed { at, ..bed("token") }
}

/// H14, H16, H21: approved by a person, a device comes in; its token outlives the secret.
#[test]
fn a_person_approves() {
    let mut bed = bed("token");
    let id = bed.asks(3);
    let done = bed.call(&admin(), "device.pair.approve", json!({"requestId": id}));
    assert_eq!(events(&done.effects), ["device.pair.resolved"]);
    assert_eq!(done.effects.changes.len(), 1);
    let device = payload(&done)["device"].clone();
    assert_eq!(device["scopes"], json!(["operator.read", "operator.write"]));
    assert_eq!(device["tokens"][0]["role"], "operator");
    assert_eq!(device["tokens"][0].get("token"), None);
    let first = bed.admitted(&far(), &tui(3, NOW));
    let token = token_of(&first);
    assert_eq!(
        bed.fails(&admin(), "device.pair.approve", json!({"requestId": id})),
        "unknown requestId"
    );
    // More than was approved is asked for again, and nothing is lost meanwhile.
    let tui_params = params("openclaw-tui", "ui", with_token());
    let got = bed.refused(&far(), &asking(tui_params, &["operator.admin"], 3, NOW));
    assert_eq!(got.details["reason"], "scope-upgrade");
    assert_eq!(got.details["approvedScopes"], json!(["operator.read", "operator.write"]));
    assert_eq!(got.details["approvedRoles"], json!(["operator"]));
    // So is another platform.
    let mut moved = params("openclaw-tui", "ui", with_token());
    moved["client"]["platform"] = "darwin".into();
    let got = bed.refused(&far(), &proven(moved.clone(), 3, NOW));
    assert_eq!(got.details["reason"], "metadata-upgrade");
    let own = bed.admitted(&local(), &proven(moved, 3, NOW));
    assert_eq!(own.effects.events[0].payload["decision"], "approved", "with the secret, from here");
    // A new secret: what was given for the old one is void, what a person approved is not.
    let silent = bed.admitted(&local(), &tui(8, NOW));
    let devices = bed.gate.devices.clone();
    let (secret, other) = (crate::config::Secret::new("another"), entropy(201));
    let auth = Auth::new("token", Some(&secret), None, false).unwrap();
    let (former, _) = Issuer::current(None, &Auth::new("none", None, None, false).unwrap(), &other);
    let (issuer, is_new) = Issuer::current(Some(&former), &auth, &other);
    assert!(is_new && issuer.generation == 2);
    assert_eq!(Issuer::current(Some(&issuer), &auth, &entropy(1)), (issuer.clone(), false));
    let policy =
        Policy { origins: Origins::default(), auto_approve_local: true, loopback_only: true };
    bed.gate = Gate::new(auth, issuer, policy, devices);
    let by = |token: &str, seed: u8| {
        let mut params = params("openclaw-tui", "ui", json!({"deviceToken": token}));
        if seed == 3 {
            params["client"]["platform"] = "darwin".into();
        }
        proven(params, seed, NOW)
    };
    assert_eq!(bed.admitted(&far(), &by(&token, 3)).method, "device-token");
    let void = bed.refused(&local(), &by(&token_of(&silent), 8));
    assert_eq!(code(&void), "AUTH_DEVICE_TOKEN_MISMATCH");
}

/// H14: an app may come back with a newer system, and nothing else may change.
#[test]
fn an_app_may_be_updated() {
    let app = |platform: &str| {
        let mut params = params("openclaw-ios", "ui", with_token());
        params["client"]["platform"] = platform.into();
        proven(params, 3, NOW)
    };
    let mut bed = bed("token");
    bed.admitted(&local(), &app("iOS 18.1"));
    bed.admitted(&far(), &app("iOS 18.2"));
    bed.admitted(&far(), &app("iPadOS 19"));
    assert_eq!(bed.refused(&far(), &app("android 15")).details["reason"], "metadata-upgrade");
}

/// H16, H23: rotating and revoking; only the device itself is told the token.
#[test]
fn tokens_are_rotated_and_revoked() {
    let mut bed = bed("token");
    let first = bed.admitted(&local(), &tui(3, NOW));
    let (id, token) = (first.caller.device.clone().unwrap(), token_of(&first));
    bed.at = NOW.plus(5);
    let params_of = |role: &str| json!({"deviceId": id, "role": role});
    let rotated = bed.call(&admin(), "device.token.rotate", params_of("operator"));
    let want = json!({"deviceId": id, "role": "operator", "rotatedAtMs": NOW.plus(5),
        "scopes": ["operator.read", "operator.write"], "tokenDelivery": "withheld-cross-device"});
    assert_eq!(payload(&rotated), want);
    assert_eq!(rotated.effects.close, [(id.clone(), "device token rotated")]);
    let old = proven(params("openclaw-tui", "ui", json!({"deviceToken": token})), 3, NOW);
    assert_eq!(code(&bed.refused(&local(), &old)), "AUTH_DEVICE_TOKEN_MISMATCH");
    let own = bed.done(&first.caller, "device.token.rotate", params_of("operator"));
    let token = own["token"].as_str().unwrap().to_owned();
    assert_eq!(own["tokenDelivery"], "in-band");
    let new = proven(params("openclaw-tui", "ui", json!({"deviceToken": token})), 3, NOW);
    bed.admitted(&far(), &new);
    let beyond = json!({"deviceId": id, "role": "operator", "scopes": ["operator.admin"]});
    for params in [beyond, params_of("node"), json!({"deviceId": "x", "role": "operator"})] {
        let got = bed.fails(&admin(), "device.token.rotate", params);
        assert_eq!(got, "device token rotation denied");
    }
    let odd = json!({"deviceId": id, "role": "operator", "scopes": ["operator.root"]});
    assert!(bed.fails(&admin(), "device.token.rotate", odd).contains("operator.root"));
    let revoked = bed.call(&admin(), "device.token.revoke", params_of("operator"));
    assert_eq!(payload(&revoked)["revokedAtMs"], NOW.0 + 5);
    assert_eq!(revoked.effects.close, [(id.clone(), "device token revoked")]);
    assert_eq!(code(&bed.refused(&local(), &new)), "AUTH_DEVICE_TOKEN_MISMATCH");
    assert_eq!(
        bed.fails(&admin(), "device.token.revoke", params_of("x")),
        "device token revocation denied"
    );
    // With the secret it gets another one.
    let again = bed.admitted(&local(), &tui(3, NOW));
    assert_ne!(token_of(&again), token);
}

/// H16: a token that is made anew for more covers what it gave before.
#[test]
fn tokens_do_not_shrink() {
    let mut bed = bed("token");
    let base = params("openclaw-tui", "ui", with_token());
    bed.admitted(&local(), &asking(base.clone(), &["operator.approvals"], 3, NOW));
    let second = bed.admitted(&local(), &asking(base, &["operator.pairing"], 3, NOW));
    let token = &bed.gate.devices.paired[second.caller.device.as_ref().unwrap()].tokens["operator"];
    assert_eq!(token.scopes.words(), ["operator.approvals", "operator.pairing"]);
    assert_eq!(second.caller.scopes.words(), ["operator.pairing"], "granted is what was asked for");
}

/// H20 to H22: who manages what.
#[test]
fn a_device_manages_itself_alone() {
    let mut bed = bed("token");
    let ours = bed.admitted(&local(), &tui(3, NOW)).caller;
    let theirs = bed.admitted(&local(), &tui(4, NOW)).caller.device.unwrap();
    let id = ours.device.clone().unwrap();
    let request = bed.asks(5);
    let list = bed.done(&ours, "device.pair.list", json!({}));
    assert_eq!((list["paired"].as_array().unwrap().len(), &list["pending"]), (1, &json!([])));
    let all = bed.done(&admin(), "device.pair.list", json!({}));
    let count = |name: &str| all[name].as_array().unwrap().len();
    assert_eq!((count("paired"), count("pending")), (2, 1));
    assert_eq!(all["paired"][0]["connected"], false);
    let theirs = |more: Value| {
        let mut params = json!({"deviceId": theirs, "role": "operator", "label": "x"});
        params["requestId"] = more;
        params
    };
    for (method, words) in [
        ("device.pair.approve", "device pairing approval denied"),
        ("device.pair.reject", "device pairing rejection denied"),
        ("device.pair.remove", "device pairing removal denied"),
        ("device.pair.rename", "device pairing rename denied"),
        ("device.token.rotate", "device token rotation denied"),
        ("device.token.revoke", "device token revocation denied"),
    ] {
        let before = bed.gate.devices.clone();
        assert_eq!(bed.fails(&ours, method, theirs(request.as_str().into())), words);
        assert_eq!(bed.gate.devices, before, "{method}");
    }
    // Somebody who holds too little approves nothing, whoever asks.
    let narrow = Caller { scopes: Scopes::from_words(["operator.pairing"]), ..admin() };
    let no = bed.fails(&narrow, "device.pair.approve", json!({"requestId": request}));
    assert_eq!(no, "device pairing approval denied");
    let named = bed.call(&ours, "device.pair.rename", json!({"deviceId": id, "label": " a\u{7} "}));
    assert_eq!(payload(&named), json!({"deviceId": id, "label": "a"}));
    assert_eq!(events(&named.effects), ["device.pair.changed"]);
    let long = json!({"deviceId": id, "label": "x".repeat(65)});
    assert!(bed.fails(&ours, "device.pair.rename", long).contains("at most 64"));
    let gone = bed.call(&ours, "device.pair.remove", json!({"deviceId": id}));
    assert_eq!(gone.effects.close, [(id.clone(), "device removed")]);
    assert_eq!(gone.effects.changes, [Change::Removed(id.clone())]);
    assert_eq!(
        bed.fails(&admin(), "device.pair.remove", json!({"deviceId": id})),
        "unknown deviceId"
    );
    let rejected = bed.done(&admin(), "device.pair.reject", json!({"requestId": request}));
    assert_eq!(rejected["requestId"], request.as_str());
    let unknown = json!({"requestId": "x"});
    assert_eq!(bed.fails(&admin(), "device.pair.reject", unknown), "unknown requestId");
    let none =
        bed.gate.devices.call("chat.send", &json!({}), &admin(), &|_| true, NOW, &entropy(1));
    assert_eq!(none, None);
}

/// H24: more scopes on a live connection, and each way in which that ends.
#[test]
fn scopes_are_upgraded() {
    for end in ["approved", "rejected", "expired"] {
        let mut bed = bed("token");
        let ours = bed.admitted(&local(), &tui(3, NOW)).caller;
        let scopes = ["operator.read", "operator.write", "operator.admin"];
        let asked = bed.call(&ours, "device.scopes.requestUpgrade", json!({ "scopes": scopes }));
        assert_eq!(events(&asked.effects), ["device.pair.requested"]);
        assert_eq!(asked.effects.events[0].payload["isRepair"], true);
        let id = payload(&asked);
        let wait = |bed: &mut Bed| bed.call(&ours, "device.scopes.waitUpgrade", id.clone());
        assert_eq!(wait(&mut bed).answer, Ok(None));
        let ended = match end {
            "approved" => bed.call(&admin(), "device.pair.approve", id.clone()).effects,
            "rejected" => bed.call(&admin(), "device.pair.reject", id.clone()).effects,
            _ => {
                // Also a call that fails tells what has run out.
                bed.at = NOW.plus(300_000);
                bed.call(&admin(), "device.pair.reject", json!({"requestId": "x"})).effects
            }
        };
        assert_eq!(ended.ended, [id["requestId"].as_str().unwrap()]);
        let answer = payload(&wait(&mut bed));
        assert_eq!(answer["status"], end);
        if end == "approved" {
            let token = answer["deviceToken"].clone();
            let by = params("openclaw-tui", "ui", json!({ "deviceToken": token }));
            let by = asking(by, &["operator.admin"], 3, NOW);
            assert_eq!(bed.admitted(&far(), &by).method, "device-token");
        } else {
            assert_eq!(answer.get("deviceToken"), None);
        }
        // Nobody else waits for it.
        let other = bed.admitted(&local(), &tui(4, bed.at)).caller;
        assert_eq!(bed.fails(&other, "device.scopes.waitUpgrade", id.clone()), "unknown requestId");
        bed.at = bed.at.plus(300_000);
        assert_eq!(bed.fails(&ours, "device.scopes.waitUpgrade", id), "unknown requestId");
    }
}

/// H24: what may not be asked for.
#[test]
fn upgrades_are_checked() {
    let mut bed = bed("token");
    let ours = bed.admitted(&local(), &tui(3, NOW)).caller;
    let nine = ["operator.read"; 9];
    for (scopes, words) in [
        (json!(["operator.admin", "operator.root"]), "operator.root"),
        (json!(["operator.pairing"]), "must include"),
        (json!([]), "from 1 to 8"),
        (json!(nine), "from 1 to 8"),
    ] {
        let got = bed.fails(&ours, "device.scopes.requestUpgrade", json!({ "scopes": scopes }));
        assert!(got.contains(words), "{got}");
    }
    let got =
        bed.call(&admin(), "device.scopes.requestUpgrade", json!({"scopes": ["operator.read"]}));
    assert_eq!(got.answer.unwrap_err().details.unwrap()["code"], "DEVICE_IDENTITY_REQUIRED");
}

/// H18, H19: devices, requests and their texts are bounded.
#[test]
fn devices_are_bounded() {
    let mut bed = bed("token");
    let mut loud = params("openclaw-tui", "ui", with_token());
    loud["client"]["displayName"] = "a\u{1b}[31m".repeat(500).into();
    let first = bed.refused(&far(), &proven(loud, 1, NOW));
    let name = first.effects.events[0].payload["displayName"].as_str().unwrap();
    assert!(name.chars().count() == 128 && !name.contains('\u{1b}'));
    for seed in 2..=64 {
        bed.asks(seed);
    }
    let full = bed.refused(&far(), &tui(65, NOW));
    assert_eq!((full.code, full.retryable), ("UNAVAILABLE", true));
    assert_eq!(bed.asks(64), bed.asks(64), "who waits already may go on asking");
    // The store may hold as many devices as there is room for.
    let some = bed.admitted(&local(), &tui(70, NOW)).caller.device.unwrap();
    let device = bed.gate.devices.paired[&some].clone();
    for n in 1..1_000u64 {
        let id = format!("{n:064}");
        let last_seen_at = Some(Millis(n + 10));
        let device = Device { id: id.clone(), silent: n != 1, last_seen_at, ..device.clone() };
        bed.gate.devices.paired.insert(id, device);
    }
    let got = bed.admitted(&local(), &tui(71, NOW));
    let gone = format!("{:064}", 2);
    assert!(got.effects.changes.contains(&Change::Removed(gone)), "the oldest silent one");
    assert_eq!(bed.gate.devices.paired.len(), 1_000);
    bed.gate.devices.paired.values_mut().for_each(|device| device.silent = false);
    assert_eq!(bed.refused(&local(), &tui(72, NOW)).code, "UNAVAILABLE");
}
