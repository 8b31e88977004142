//! H6 to H13: the verdict, check by check.

use super::*;
use crate::config::Secret;
use crate::gateway::auth::proof::ProofError;

/// H6: what the config may say.
#[test]
fn modes_are_resolved_or_refused() {
    let secret = Secret::new(format!("  {SECRET} "));
    let auth = |mode: &str, tailscale: bool| Auth::new(mode, Some(&secret), None, tailscale);
    assert_eq!(auth("token", false).map(|auth| auth.mode()), Ok(Mode::Token));
    assert_eq!(auth("none", false).map(|auth| auth.mode()), Ok(Mode::None));
    assert_eq!(auth("password", false), Err(AuthError::NoSecret("password")));
    assert_eq!(auth("token", true), Err(AuthError::Tailscale));
    for mode in ["trusted-proxy", "Token", ""] {
        assert_eq!(auth(mode, false), Err(AuthError::Mode(mode.to_owned())));
    }
    let blank = Secret::new(" ");
    let blank = Auth::new("token", Some(&blank), None, false);
    assert_eq!(blank, Err(AuthError::NoSecret("token")));
    let words = AuthError::Mode("trusted-proxy".into()).to_string();
    assert!(words.contains("trusted-proxy") && words.contains("gateway.auth.mode"), "{words}");
}

/// H6, H9: the secret in either field; the scopes of a client without a device.
#[test]
fn the_secret_lets_in() {
    for (mode, auth) in [
        ("token", json!({"token": SECRET})),
        ("token", json!({"password": SECRET})),
        ("password", json!({"password": format!(" {SECRET}\n")})),
        ("password", json!({"token": SECRET, "password": "wrong"})),
    ] {
        let mut gate = fuzz::gate(mode, true);
        let cli = admitted(&mut gate, &local(), &params("cli", "cli", auth.clone()));
        assert_eq!((cli.method, cli.role), (mode, "operator"));
        assert_eq!(cli.auth()["scopes"], json!(["operator.read", "operator.write"]));
        assert_eq!(cli.token, None);
        assert_eq!(cli.effects, Effects::default());
    }
}

/// H9: scopes stay with those who are here and known, and are emptied for others.
#[test]
fn scopes_without_a_device_are_emptied() {
    let forwarded = Peer { forwarded: true, ..local() };
    let cases = [
        ("token", "cli", "cli", local(), true),
        ("token", "gateway-client", "backend", local(), true),
        ("token", "cli", "probe", local(), false),
        ("token", "test", "test", local(), false),
        ("token", "cli", "cli", far(), false),
        ("token", "cli", "cli", forwarded, false),
        ("token", "cli", "cli", browser(), false),
        ("none", "test", "test", far(), true),
    ];
    for (mode, id, client, peer, keeps) in cases {
        let mut gate = fuzz::gate(mode, true);
        let admitted = admitted(&mut gate, &peer, &params(id, client, with_token()));
        assert_eq!(!admitted.caller.scopes.is_empty(), keeps, "{mode} {id} {client} {peer:?}");
    }
}

/// H8, H9, H11: each refusal with its code, text and close.
#[test]
fn refusals_are_told() {
    let with = |name: &str, value: Value| {
        let mut params = params("cli", "cli", with_token());
        params[name] = value;
        params
    };
    let page = |id: &str, mode: &str| params(id, mode, with_token());
    let none = json!({});
    let cases: [(Value, &str, &str, &str, u16); 14] = [
        (with("minProtocol", 5.into()), "INVALID_REQUEST", "PROTOCOL_MISMATCH", "protocol", 1002),
        (with("maxProtocol", 3.into()), "INVALID_REQUEST", "PROTOCOL_MISMATCH", "protocol", 1002),
        (with("role", "root".into()), "INVALID_REQUEST", "-", "invalid role", 1008),
        (with("role", "node".into()), "INVALID_REQUEST", "-", "role node is not", 1008),
        (
            page("openclaw-control-ui", "webchat"),
            "INVALID_REQUEST",
            "CONTROL_UI_ORIGIN_NOT_ALLOWED",
            "origin not allowed",
            1008,
        ),
        (
            page("test", "webchat"),
            "INVALID_REQUEST",
            "CONTROL_UI_ORIGIN_NOT_ALLOWED",
            "origin not allowed",
            1008,
        ),
        (
            page("openclaw-tui", "ui"),
            "INVALID_REQUEST",
            "CONTROL_UI_DEVICE_IDENTITY_REQUIRED",
            "this client needs a device identity",
            1008,
        ),
        (with("auth", none.clone()), "NOT_PAIRED", "DEVICE_IDENTITY_REQUIRED", "device id", 1008),
        (
            with("auth", json!({"deviceToken": SECRET})),
            "NOT_PAIRED",
            "DEVICE_IDENTITY_REQUIRED",
            "device identity required",
            1008,
        ),
        (
            with("auth", json!({"token": "x"})),
            "INVALID_REQUEST",
            "AUTH_TOKEN_MISMATCH",
            "unauthorized: gateway token mismatch",
            1008,
        ),
        (
            with("auth", json!({"bootstrapToken": "x"})),
            "INVALID_REQUEST",
            "AUTH_BOOTSTRAP_TOKEN_INVALID",
            "unauthorized: ",
            1008,
        ),
        (
            proven(with("auth", none), 3, NOW),
            "INVALID_REQUEST",
            "AUTH_TOKEN_MISSING",
            "unauthorized: gateway token missing",
            1008,
        ),
        (
            proven(with("auth", json!({"deviceToken": "x"})), 3, NOW),
            "INVALID_REQUEST",
            "AUTH_DEVICE_TOKEN_MISMATCH",
            "unauthorized: device token mismatch",
            1008,
        ),
        (
            proven(with("auth", json!({"bootstrapToken": "x"})), 3, NOW),
            "INVALID_REQUEST",
            "AUTH_BOOTSTRAP_TOKEN_INVALID",
            "unauthorized: ",
            1008,
        ),
    ];
    for (params, error, detail, words, close) in cases {
        let got = refused(&mut fuzz::gate("token", true), &local(), &params);
        assert_eq!((got.code, code(&got), got.close_code), (error, detail, close), "{got:?}");
        assert!(got.message.starts_with(words), "{}", got.message);
        assert!(!got.close_reason.is_empty() && got.message.starts_with(&got.close_reason));
    }
    let probe = json!({"minProtocol": 3, "maxProtocol": 3, "auth": with_token(),
        "client": {"id": "cli", "mode": "probe"}});
    admitted(&mut fuzz::gate("token", true), &local(), &probe);
    let mismatch = with("minProtocol", 5.into());
    let got = refused(&mut fuzz::gate("token", true), &local(), &mismatch);
    let want = json!({"code": "PROTOCOL_MISMATCH", "clientMinProtocol": 5, "clientMaxProtocol": 4,
        "expectedProtocol": 4, "minimumProbeProtocol": 3});
    assert_eq!(got.details, want);
}

/// H11: the next step of each failure, and who may try its device token.
#[test]
fn the_next_step_is_told() {
    let tried = |mode: &str, device: bool, auth: Value| {
        let params = params("cli", "cli", auth);
        let params = if device { proven(params, 3, NOW) } else { params };
        let got = refused(&mut fuzz::gate(mode, true), &local(), &params);
        let of = |name: &str| got.details[name].clone();
        (of("authReason"), of("recommendedNextStep"), of("canRetryWithDeviceToken"))
    };
    let (config, secret, review, again) = (
        "update_auth_configuration",
        "update_auth_credentials",
        "review_auth_configuration",
        "retry_with_device_token",
    );
    let cases = [
        ("token", true, json!({}), "token_missing", config, false),
        ("password", true, json!({}), "password_missing", config, false),
        ("token", true, json!({"token": "x"}), "token_mismatch", again, true),
        ("token", false, json!({"token": "x"}), "token_mismatch", secret, false),
        ("token", true, json!({"token": "x", "password": "x"}), "token_mismatch", secret, false),
        ("password", true, json!({"password": "x"}), "password_mismatch", secret, false),
        (
            "token",
            true,
            json!({"token": "x", "deviceToken": "y"}),
            "device_token_mismatch",
            secret,
            false,
        ),
        ("token", true, json!({"bootstrapToken": "y"}), "bootstrap_token_invalid", review, false),
    ];
    for (mode, device, auth, reason, step, can) in cases {
        let want = (reason.into(), step.into(), can.into());
        assert_eq!(tried(mode, device, auth.clone()), want, "{mode} {device} {auth}");
    }
}

/// H7: guesses lock an address; what is no guess does not.
#[test]
fn guesses_are_counted() {
    let mut gate = fuzz::gate("token", true);
    let wrong = params("cli", "cli", json!({"token": "guess"}));
    for n in 0..10u64 {
        let verdict = try_at(&mut gate, &far(), &wrong, NOW.plus(n), 1);
        let Verdict::Refused(got) = verdict else { panic!("let in") };
        assert_eq!((code(&got), got.delay_ms), ("AUTH_TOKEN_MISMATCH", 0));
    }
    let right = params("cli", "cli", with_token());
    let Verdict::Refused(got) = try_at(&mut gate, &far(), &right, NOW.plus(10), 1) else {
        panic!("locked")
    };
    assert_eq!(code(&got), "AUTH_RATE_LIMITED");
    assert_eq!(got.details["recommendedNextStep"], "wait_then_retry");
    assert_eq!(got.error()["retryAfterMs"], 300_000 - 1);
    assert!(matches!(
        try_at(&mut gate, &far(), &right, NOW.plus(300_009), 1),
        Verdict::Admitted(_)
    ));
    let mut gate = fuzz::gate("token", true);
    let stale = proven(params("cli", "cli", with_token()), 3, Millis(0));
    for params in [params("cli", "cli", json!({})), stale] {
        for _ in 0..20 {
            refused(&mut gate, &far(), &params);
        }
    }
    admitted(&mut gate, &far(), &right);
    let delays: Vec<u64> = (0..3).map(|_| refused(&mut gate, &local(), &wrong).delay_ms).collect();
    assert_eq!(delays, [250, 500, 1_000]);
    admitted(&mut gate, &local(), &right);
    assert_eq!(refused(&mut gate, &local(), &wrong).delay_ms, 250);
}

/// H2, H9, B192: loopback alone is no credential, with or without an `Origin`.
#[test]
fn b192_loopback_is_no_credential() {
    for origin in [None, Some("https://evil.example"), Some("null")] {
        for (id, mode) in [("cli", "cli"), ("test", "test"), ("openclaw-control-ui", "webchat")] {
            let mut gate = fuzz::gate("token", true);
            let peer = Peer { origin: origin.map(str::to_owned), ..local() };
            refused(&mut gate, &peer, &params(id, mode, json!({})));
            if origin.is_some() || mode == "webchat" {
                let got = refused(&mut gate, &peer, &params(id, mode, with_token()));
                assert_eq!(code(&got), "CONTROL_UI_ORIGIN_NOT_ALLOWED");
            }
        }
    }
}

/// B195: a client that signs the challenge's time connects, however wrong its own clock is; one
/// that signs its own does not.
#[test]
fn b195_the_challenges_time_is_signed() {
    for skew in [130_000i64, -130_000, 86_400_000] {
        let mut gate = fuzz::gate("token", true);
        let own = Millis(NOW.0.checked_add_signed(skew).unwrap());
        let tui = params("openclaw-tui", "ui", with_token());
        let got = refused(&mut gate, &local(), &proven(tui.clone(), 3, own));
        assert_eq!(got.message, ProofError::Expired.to_string());
        admitted(&mut gate, &local(), &proven(tui, 3, NOW));
    }
}

/// H6: a secret and a token show in no debug text and in nothing that is told to others.
#[test]
fn secrets_do_not_show() {
    let mut gate = fuzz::gate("token", true);
    let mut seen = format!("{gate:?}");
    let tui = proven(params("openclaw-tui", "ui", with_token()), 3, NOW);
    let first = admitted(&mut gate, &local(), &tui);
    let token = token_of(&first);
    assert_eq!(token.len(), 43);
    seen += &format!("{first:?} {gate:?} {:?}", entropy(7));
    seen += &format!("{:?}", first.effects.events);
    let caller = Caller { scopes: Scopes::from_words(["operator.admin"]), ..first.caller.clone() };
    let list =
        gate.devices.call("device.pair.list", &json!({}), &caller, &|_| true, NOW, &entropy(1));
    seen += &format!("{list:?}");
    for auth in [json!({"token": format!("{SECRET}x")}), json!({"deviceToken": token})] {
        let cli = params("cli", "cli", auth.clone());
        for asked in [cli.clone(), proven(cli, 9, NOW)] {
            let got = try_at(&mut gate, &far(), &asked, NOW, 3);
            seen += &format!("{got:?}");
            if let Verdict::Refused(got) = got {
                seen += &got.error().to_string();
            }
        }
    }
    assert!(seen.len() > 1_000);
    assert!(!seen.contains(SECRET), "{seen}");
    assert!(!seen.contains(&token), "{seen}");
}

/// H8: seeded parameters and proofs, through the fuzzer's entry.
#[test]
fn seeded_connects_keep_the_promises() {
    let mut rng = crate::base::Rng(41);
    let clients = [("cli", "cli"), ("openclaw-control-ui", "webchat"), ("openclaw-tui", "ui")];
    let auths = [json!({}), with_token(), json!({"token": "x"}), json!({"deviceToken": "x"})];
    for _ in 0..600 {
        let (id, mode) = clients[rng.below(3) as usize];
        let mut params = params(id, mode, auths[rng.below(4) as usize].clone());
        if rng.below(4) == 0 {
            params["client"]["displayName"] = "a\u{7}b".repeat(200).into();
            params["scopes"] = json!(["operator.admin", "x", 5]);
        }
        let mut data = rng.next().to_le_bytes()[..4].to_vec();
        data.extend(params.to_string().bytes());
        fuzz::fuzz_connect(&data);
    }
}
