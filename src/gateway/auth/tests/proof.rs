//! H3 to H5: keys, payloads, and every check that can fail.

use super::*;
use crate::base::{b64, id::hex};
use crate::gateway::auth::proof::{ProofError, payload, verify};
use ring::digest::{SHA256, digest};
use ring::signature::{Ed25519KeyPair, KeyPair};

fn node() -> Value {
    json!({
        "client": {"id": "openclaw-tui", "mode": "ui", "platform": " Linux ",
            "deviceFamily": "LINUX"},
        "scopes": ["operator.read", "x", "operator.admin"],
        "auth": {"token": "T", "deviceToken": "D", "password": "P"},
    })
}

fn check(params: &Value) -> Result<String, ProofError> {
    verify(params, "operator", Some(NONCE), NOW).map(|proven| proven.id)
}

/// H3: the text that is signed, to the letter.
#[test]
fn payloads_are_those_that_clients_sign() {
    let mut params = node();
    params["device"] = json!({"id": "ID", "signedAt": 1_700_000_000_000u64});
    let v3 = payload(&params, "operator", "N", true);
    assert_eq!(
        v3,
        "v3|ID|openclaw-tui|ui|operator|operator.read,x,operator.admin|1700000000000|T|N|linux\
         |linux"
    );
    let v2 = payload(&params, "operator", "N", false);
    assert_eq!(
        v2,
        "v2|ID|openclaw-tui|ui|operator|operator.read,x,operator.admin|1700000000000|T|N"
    );
    params["auth"] = json!({"deviceToken": "D", "bootstrapToken": "B"});
    assert!(payload(&params, "operator", "N", false).ends_with("|D|N"));
    params["auth"] = json!({"bootstrapToken": "B", "password": "P"});
    assert!(payload(&params, "operator", "N", false).ends_with("|B|N"));
    params["auth"] = json!({"token": "", "deviceToken": "D"});
    assert!(payload(&params, "operator", "N", false).ends_with("||N"), "present, if empty");
    let bare = json!({"client": {"id": "cli", "mode": "cli"}, "device": {"id": "ID"}});
    assert_eq!(payload(&bare, "operator", "N", true), "v3|ID|cli|cli|operator||0||N||");
}

/// H3: a known key of the standard (RFC 8032, test 1) and a signature made elsewhere.
#[test]
fn keys_and_ids_are_those_of_the_standard() {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let seed: Vec<u8> =
        (0..32).map(|n| u8::from_str_radix(&seed[2 * n..2 * n + 2], 16).unwrap()).collect();
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let key = pair.public_key().as_ref();
    assert_eq!(hex(key), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
    assert_eq!(b64::encode_url(key), "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    assert_eq!(
        hex(digest(&SHA256, key).as_ref()),
        "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
    );
}

/// H3: v3 and v2, and the key in each of its forms.
#[test]
fn good_proofs_are_taken() {
    for v3 in [true, false] {
        let mut params = node();
        prove(&mut params, 3, NOW, v3);
        assert!(check(&params).is_ok(), "v3 {v3}");
        let url = params["device"]["publicKey"].as_str().unwrap().to_owned();
        let plain = url.replace('-', "+").replace('_', "/") + "=";
        let mut der = vec![0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        der.extend(b64::decode(&url).unwrap());
        let body = b64::encode_url(&der).replace('-', "+").replace('_', "/");
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
        for form in [plain, format!("{url}="), pem] {
            params["device"]["publicKey"] = form.as_str().into();
            let proven = verify(&params, "operator", Some(NONCE), NOW);
            assert_eq!(proven.map(|p| p.key), Ok(url.clone()), "{form}");
        }
    }
}

/// H4, B195: each check with its code, and the order among them.
#[test]
fn every_check_can_fail() {
    let good = proven(node(), 3, NOW);
    let with = |name: &str, value: Value| {
        let mut params = good.clone();
        params["device"][name] = value;
        params
    };
    let skewed = |ms: i64| {
        let at = Millis(NOW.0.checked_add_signed(ms).unwrap());
        proven(node(), 3, at)
    };
    let short = b64::encode_url(&[7; 31]);
    let mut short_key = with("publicKey", short.as_str().into());
    short_key["device"]["id"] = hex(digest(&SHA256, &[7; 31]).as_ref()).into();
    let signature = good["device"]["signature"].as_str().unwrap();
    let cases = [
        (with("id", "00".into()), Err(ProofError::Id)),
        (with("publicKey", "no base64!".into()), Err(ProofError::Id)),
        (with("publicKey", b64::encode_url(&[1; 32]).into()), Err(ProofError::Id)),
        (skewed(-120_000), Ok(())),
        (skewed(120_000), Ok(())),
        (skewed(-120_001), Err(ProofError::Expired)),
        (skewed(130_000), Err(ProofError::Expired)),
        (skewed(86_400_000), Err(ProofError::Expired)),
        (with("signedAt", (-5).into()), Err(ProofError::Expired)),
        (with("signedAt", "now".into()), Err(ProofError::Expired)),
        (with("nonce", " ".into()), Err(ProofError::NonceMissing)),
        (with("nonce", "other".into()), Err(ProofError::NonceMismatch)),
        (short_key, Err(ProofError::Key)),
        (with("signedAt", (NOW.0 - 1).into()), Err(ProofError::Signature)),
        (with("signature", signature[2..].into()), Err(ProofError::Signature)),
        (with("signature", "".into()), Err(ProofError::Signature)),
        (with("signature", "!".into()), Err(ProofError::Signature)),
    ];
    for (params, want) in cases {
        assert_eq!(check(&params).map(|_| ()), want, "{}", params["device"]);
    }
    let mut other = good.clone();
    other["scopes"] = json!(["operator.admin"]);
    assert_eq!(check(&other), Err(ProofError::Signature), "what is asked for is signed");
    let mut other = good.clone();
    other["client"]["platform"] = "darwin".into();
    assert_eq!(check(&other), Err(ProofError::Signature), "v3 signs the platform");
    assert_eq!(verify(&good, "node", Some(NONCE), NOW), Err(ProofError::Signature));
    let mut all = with("nonce", "other".into());
    all["device"]["id"] = "00".into();
    all["device"]["signedAt"] = 0.into();
    assert_eq!(check(&all), Err(ProofError::Id), "the first one counts");
}

/// H4, H5, B195: a proof is for one challenge, and a challenge for one `connect`.
#[test]
fn a_challenge_is_used_once() {
    let mut gate = fuzz::gate("token", true);
    let params = proven(params("openclaw-tui", "ui", with_token()), 3, NOW);
    let mut challenge = Challenge::new(NONCE);
    let first = gate.connect(&local(), &mut challenge, &params, NOW, &entropy(1));
    assert!(matches!(first, Verdict::Admitted(_)), "{first:?}");
    let Verdict::Refused(second) =
        gate.connect(&local(), &mut challenge, &params, NOW, &entropy(2))
    else {
        panic!("twice")
    };
    assert_eq!(code(&second), "DEVICE_AUTH_NONCE_MISMATCH");
    assert_eq!(second.details["reason"], "device-nonce-mismatch");
    let mut fresh = Challenge::new("another socket's");
    let replayed = gate.connect(&local(), &mut fresh, &params, NOW, &entropy(3));
    let Verdict::Refused(replayed) = replayed else { panic!("replayed") };
    assert_eq!((code(&replayed), replayed.close_code), ("DEVICE_AUTH_NONCE_MISMATCH", 1008));
}
