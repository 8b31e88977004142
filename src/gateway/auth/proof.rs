//! The proof that a client holds its device's key.

use super::secret::text;
use crate::base::{Millis, b64, id::hex};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;

/// How far a signature's time may be from ours, ms.
const SKEW_MS: u64 = 120_000;
/// Bytes of a key.
const KEY_BYTES: usize = 32;
/// What stands before the key in the DER of a PEM block.
const DER_HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];

/// Why a proof is no proof.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProofError {
    /// The id is not that of the key.
    #[error("device identity mismatch")]
    Id,
    /// Signed too long ago, or in the future.
    #[error("device signature expired")]
    Expired,
    /// Without a nonce.
    #[error("device nonce required")]
    NonceMissing,
    /// With the nonce of another challenge.
    #[error("device nonce mismatch")]
    NonceMismatch,
    /// The key is none.
    #[error("device public key invalid")]
    Key,
    /// The signature is not that of what is claimed.
    #[error("device signature invalid")]
    Signature,
}

impl ProofError {
    /// `details.code`.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            ProofError::Id => "DEVICE_AUTH_DEVICE_ID_MISMATCH",
            ProofError::Expired => "DEVICE_AUTH_SIGNATURE_EXPIRED",
            ProofError::NonceMissing => "DEVICE_AUTH_NONCE_REQUIRED",
            ProofError::NonceMismatch => "DEVICE_AUTH_NONCE_MISMATCH",
            ProofError::Key => "DEVICE_AUTH_PUBLIC_KEY_INVALID",
            ProofError::Signature => "DEVICE_AUTH_SIGNATURE_INVALID",
        }
    }

    /// `details.reason`.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            ProofError::Id => "device-id-mismatch",
            ProofError::Expired => "device-signature-stale",
            ProofError::NonceMissing => "device-nonce-missing",
            ProofError::NonceMismatch => "device-nonce-mismatch",
            ProofError::Key => "device-public-key",
            ProofError::Signature => "device-signature",
        }
    }
}

/// The nonce of one socket, good for one `connect` (H5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge(Option<String>);

impl Challenge {
    /// A challenge that was sent.
    pub fn new(nonce: impl Into<String>) -> Challenge {
        Challenge(Some(nonce.into()))
    }

    pub(super) fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

/// A device that proved its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Proven {
    /// Its id.
    pub id: String,
    /// Its key in base64url.
    pub key: String,
}

/// The payload that a client signs, as v3 or v2; `params` are those of its `connect`.
pub(super) fn payload(params: &Value, role: &str, nonce: &str, v3: bool) -> String {
    let (client, device, auth) = (&params["client"], &params["device"], &params["auth"]);
    let scopes: Vec<&str> = params["scopes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|s| s.as_str().unwrap_or(""))
        .collect();
    let token = ["token", "deviceToken", "bootstrapToken"];
    let token = token.iter().find_map(|name| auth[*name].as_str()).unwrap_or("");
    let signed_at = device["signedAt"].as_u64().unwrap_or(0).to_string();
    let low = |name: &str| text(&client[name]).to_ascii_lowercase();
    let (platform, family) = (low("platform"), low("deviceFamily"));
    let mut parts = vec![
        if v3 { "v3" } else { "v2" },
        device["id"].as_str().unwrap_or(""),
        client["id"].as_str().unwrap_or(""),
        client["mode"].as_str().unwrap_or(""),
        role,
    ];
    let scopes = scopes.join(",");
    parts.extend([scopes.as_str(), &signed_at, token, nonce]);
    if v3 {
        parts.extend([platform.as_str(), &family]);
    }
    parts.join("|")
}

/// The checks of H4, in their order.
pub(super) fn verify(
    params: &Value,
    role: &str,
    challenge: Option<&str>,
    now: Millis,
) -> Result<Proven, ProofError> {
    let device = &params["device"];
    let id = device["id"].as_str().unwrap_or("");
    let key = key_bytes(device["publicKey"].as_str().unwrap_or("")).ok_or(ProofError::Id)?;
    if id != hex(digest(&SHA256, &key).as_ref()) {
        return Err(ProofError::Id);
    }
    let signed_at = Millis(device["signedAt"].as_u64().ok_or(ProofError::Expired)?);
    if now.since(signed_at).max(signed_at.since(now)) > SKEW_MS {
        return Err(ProofError::Expired);
    }
    let nonce = text(&device["nonce"]);
    if nonce.is_empty() {
        return Err(ProofError::NonceMissing);
    }
    if challenge != Some(nonce) {
        return Err(ProofError::NonceMismatch);
    }
    if key.len() != KEY_BYTES {
        return Err(ProofError::Key);
    }
    let signature = b64::decode(device["signature"].as_str().unwrap_or(""));
    let signature = signature.ok_or(ProofError::Signature)?;
    let public = UnparsedPublicKey::new(&ED25519, &key);
    let fits = |v3: bool| public.verify(payload(params, role, nonce, v3).as_bytes(), &signature);
    if fits(true).is_err() && fits(false).is_err() {
        return Err(ProofError::Signature);
    }
    Ok(Proven { id: id.to_owned(), key: b64::encode_url(&key) })
}

/// The bytes of a key in one of its forms.
fn key_bytes(text: &str) -> Option<Vec<u8>> {
    let text = text.trim();
    let Some(rest) = text.strip_prefix("-----BEGIN PUBLIC KEY-----") else {
        return b64::decode(text);
    };
    let body: String = rest.split("-----").next()?.split_whitespace().collect();
    let der = b64::decode(&body)?;
    der.strip_prefix(&DER_HEAD).map(<[u8]>::to_vec)
}
