//! Paired devices, their tokens, and the requests that wait for somebody's approval.

use super::scopes::Scopes;
use super::secret::{Auth, same};
use crate::base::id::{hex, uuid_v7};
use crate::base::{Millis, b64};
use crate::config::Secret;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How long a request waits after it was last asked, ms; and how long its outcome is kept.
pub(super) const PENDING_MS: u64 = 300_000;
/// Most requests that wait, and most outcomes that are kept.
pub(super) const PENDING_MAX: usize = 64;
/// Most devices that are paired.
pub(super) const DEVICES_MAX: usize = 1_000;
/// Longest text that is kept of what a client says of itself, characters.
const TEXT_CHARS_MAX: usize = 128;

/// Random bytes for one call. They become a token, so they do not show themselves.
#[derive(Clone, Copy)]
pub struct Entropy {
    /// For a token.
    pub token: [u8; 32],
    /// For the id of a request.
    pub id: [u8; 10],
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A device's token for one role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Token {
    /// The token.
    pub token: Secret,
    /// What it gives.
    pub scopes: Scopes,
    /// When the first token of this role was made.
    pub created_at: Millis,
    /// When this one was, if it is not the first.
    pub rotated_at: Option<Millis>,
    /// Since when it is void.
    pub revoked_at: Option<Millis>,
    /// When it was last shown.
    pub last_used_at: Option<Millis>,
    /// The generation of the shared secret for which it was given, if it was for that (H16).
    pub issuer: Option<u64>,
}

impl Token {
    /// When this token was made.
    #[must_use]
    pub fn issued_at(&self) -> Millis {
        self.rotated_at.unwrap_or(self.created_at)
    }

    fn live(&self, issuer: &Issuer) -> bool {
        self.revoked_at.is_none() && self.issuer.is_none_or(|made| made == issuer.generation)
    }
}

/// What a client says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// `client.displayName`.
    pub display_name: Option<String>,
    /// `client.platform`.
    pub platform: Option<String>,
    /// `client.deviceFamily`.
    pub device_family: Option<String>,
    /// `client.id`.
    pub client_id: Option<String>,
    /// `client.mode`.
    pub client_mode: Option<String>,
    /// `Origin`.
    pub browser_origin: Option<String>,
    /// Its address.
    pub remote_ip: Option<String>,
}

impl About {
    /// What a `connect` says, cleaned (H19).
    pub(super) fn of(params: &Value, origin: Option<&str>, remote_ip: String) -> About {
        let client = |name: &str| params["client"][name].as_str().and_then(kept);
        About {
            display_name: client("displayName"),
            platform: client("platform"),
            device_family: client("deviceFamily"),
            client_id: client("id"),
            client_mode: client("mode"),
            browser_origin: origin.and_then(kept),
            remote_ip: Some(remote_ip),
        }
    }

    /// The fields by their names on the wire.
    #[must_use]
    pub fn fields(&self) -> [(&'static str, &Option<String>); 7] {
        [
            ("displayName", &self.display_name),
            ("platform", &self.platform),
            ("deviceFamily", &self.device_family),
            ("clientId", &self.client_id),
            ("clientMode", &self.client_mode),
            ("browserOrigin", &self.browser_origin),
            ("remoteIp", &self.remote_ip),
        ]
    }
}

/// A client's text as it is kept, if anything is left of it.
pub(super) fn kept(text: &str) -> Option<String> {
    let text: String =
        text.trim().chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
    (!text.is_empty()).then_some(text)
}

/// A paired device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its id: the digest of its key.
    pub id: String,
    /// Its key in base64url.
    pub key: String,
    /// What it said of itself when it was approved.
    pub about: About,
    /// The name that an operator gave it.
    pub label: Option<String>,
    /// Its roles.
    pub roles: Vec<String>,
    /// The most that it may ever have.
    pub approved: Scopes,
    /// Nobody was asked.
    pub silent: bool,
    /// When it was paired.
    pub created_at: Millis,
    /// When it was last approved.
    pub approved_at: Millis,
    /// When it last connected.
    pub last_seen_at: Option<Millis>,
    /// Its tokens by their role.
    pub tokens: BTreeMap<String, Token>,
}

/// A request that waits for an approval.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pending {
    pub id: String,
    pub device: String,
    pub key: String,
    pub about: About,
    pub role: String,
    pub scopes: Scopes,
    /// The device is paired already and wants more, or has changed.
    pub repair: bool,
    pub at: Millis,
}

impl Pending {
    /// As it is told to operators.
    pub fn shown(&self) -> Value {
        let mut shown = json!({
            "requestId": self.id, "deviceId": self.device, "publicKey": self.key,
            "role": self.role, "roles": [self.role], "scopes": self.scopes.words(),
            "silent": false, "isRepair": self.repair, "ts": self.at,
        });
        for (name, value) in self.about.fields() {
            if let Some(value) = value {
                shown[name] = value.as_str().into();
            }
        }
        shown
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Approved,
    Rejected,
    Expired,
}

/// An event for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its name.
    pub name: &'static str,
    /// Its payload.
    pub payload: Value,
}

/// What the store has to keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A device as it is now, with its tokens.
    Device(Box<Device>),
    /// A device is gone.
    Removed(String),
    /// The shared secret is another one.
    Issuer(Issuer),
}

/// What came of a call beside its answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Effects {
    /// For the store, in this order.
    pub changes: Vec<Change>,
    /// For operators, after that.
    pub events: Vec<Event>,
    /// Devices whose sockets are closed with 4001, with the reason, after the answer.
    pub close: Vec<(String, &'static str)>,
    /// Requests that have ended: who waits for one is answered now.
    pub ended: Vec<String>,
}

/// Which shared secret is the present one, without it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issuer {
    /// Counts the secrets, from 1.
    pub generation: u64,
    /// Random, in hex.
    pub salt: String,
    /// The secret's digest under that.
    pub mark: String,
}

impl Issuer {
    /// The issuer of the present secret, and whether it is another one than the stored. `entropy`
    /// is used when it is.
    #[must_use]
    pub fn current(stored: Option<&Issuer>, auth: &Auth, entropy: &Entropy) -> (Issuer, bool) {
        let salt = hex(&entropy.token[..16]);
        // The mode is part of the mark: what was given for no secret is void once there is one.
        let keeps = |stored: &Issuer| same(&stored.mark, &auth.mark(&stored.salt));
        match stored {
            Some(stored) if keeps(stored) => (stored.clone(), false),
            _ => {
                let generation = stored.map_or(0, |stored| stored.generation) + 1;
                let mark = auth.mark(&salt);
                (Issuer { generation, salt, mark }, true)
            }
        }
    }
}

/// No place is left for one more device or request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NoRoom;

/// The devices of a gateway.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Devices {
    pub(super) paired: BTreeMap<String, Device>,
    /// By device.
    pub(super) pending: BTreeMap<String, Pending>,
    pub(super) outcomes: VecDeque<(Pending, Verdict, Millis)>,
}

impl Devices {
    /// The devices that the store has.
    #[must_use]
    pub fn restore(devices: Vec<Device>) -> Devices {
        let paired = devices.into_iter().map(|device| (device.id.clone(), device)).collect();
        Devices { paired, ..Devices::default() }
    }

    /// When the next request runs out, if one waits.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        self.pending.values().map(|pending| pending.at.plus(PENDING_MS)).min()
    }

    /// Ends what has run out.
    pub fn expire(&mut self, now: Millis, effects: &mut Effects) {
        let over = |at: Millis| now.since(at) >= PENDING_MS;
        let out: Vec<String> =
            self.pending.values().filter(|p| over(p.at)).map(|p| p.device.clone()).collect();
        for device in out {
            self.end(&device, Verdict::Expired, now, effects);
        }
        self.outcomes.retain(|(_, _, at)| !over(*at));
    }

    /// A device asks for an approval. Gives the request's id.
    pub(super) fn ask(
        &mut self,
        mut asked: Pending,
        entropy: &Entropy,
        effects: &mut Effects,
    ) -> Result<String, NoRoom> {
        self.expire(asked.at, effects);
        if self.pending.len() >= PENDING_MAX && !self.pending.contains_key(&asked.device) {
            return Err(NoRoom);
        }
        let known = self.pending.get(&asked.device);
        asked.id = known.map_or_else(|| uuid_v7(asked.at, entropy.id), |known| known.id.clone());
        asked.scopes = known.map_or(asked.scopes, |known| known.scopes.and(asked.scopes));
        let unseen = known.is_none_or(|known| Pending { at: asked.at, ..known.clone() } != asked);
        if unseen {
            effects.events.push(Event { name: "device.pair.requested", payload: asked.shown() });
        }
        let id = asked.id.clone();
        self.pending.insert(asked.device.clone(), asked);
        Ok(id)
    }

    /// A request ends.
    pub(super) fn end(&mut self, device: &str, how: Verdict, now: Millis, effects: &mut Effects) {
        let Some(pending) = self.pending.remove(device) else { return };
        effects.events.push(resolved(&pending, how, now));
        effects.ended.push(pending.id.clone());
        if self.outcomes.len() >= PENDING_MAX {
            self.outcomes.pop_front();
        }
        self.outcomes.push_back((pending, how, now));
    }

    /// A device is paired, or has more than before.
    pub(super) fn approve(
        &mut self,
        asked: &Pending,
        silent: bool,
        now: Millis,
        effects: &mut Effects,
    ) -> Result<&mut Device, NoRoom> {
        if !self.paired.contains_key(&asked.device) {
            self.make_room(effects)?;
        }
        let device = self.paired.entry(asked.device.clone()).or_insert_with(|| Device {
            id: asked.device.clone(),
            key: asked.key.clone(),
            about: About::default(),
            label: None,
            roles: vec![],
            approved: Scopes::default(),
            silent: true,
            created_at: now,
            approved_at: now,
            last_seen_at: None,
            tokens: BTreeMap::new(),
        });
        device.about = asked.about.clone();
        if !device.roles.contains(&asked.role) {
            device.roles.push(asked.role.clone());
        }
        device.approved = device.approved.and(asked.scopes);
        device.silent &= silent;
        device.approved_at = now;
        Ok(device)
    }

    fn make_room(&mut self, effects: &mut Effects) -> Result<(), NoRoom> {
        if self.paired.len() < DEVICES_MAX {
            return Ok(());
        }
        let silent = self.paired.values().filter(|device| device.silent);
        let oldest = silent.min_by_key(|device| device.last_seen_at).map(|d| d.id.clone());
        let oldest = oldest.ok_or(NoRoom)?;
        self.paired.remove(&oldest);
        effects.changes.push(Change::Removed(oldest.clone()));
        effects.events.push(Event { name: "device.pair.changed", payload: json!({}) });
        effects.close.push((oldest, "device removed"));
        Ok(())
    }
}

/// The event of a request's end.
pub(super) fn resolved(pending: &Pending, how: Verdict, now: Millis) -> Event {
    let decision = if how == Verdict::Approved { "approved" } else { "rejected" };
    let payload = json!({
        "requestId": pending.id, "deviceId": pending.device, "decision": decision, "ts": now,
    });
    Event { name: "device.pair.resolved", payload }
}

/// Why a device's token is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TokenRefusal {
    /// Not paired, without this role, without a live token, or with another one.
    Mismatch,
    /// It gives less than what is asked for.
    Scopes,
}

impl Device {
    /// Whether a text is this device's live token for a role and gives what is asked for (H10).
    pub(super) fn token_fits(
        &self,
        role: &str,
        shown: &str,
        asked: Scopes,
        issuer: &Issuer,
    ) -> Result<(), TokenRefusal> {
        let token = self.tokens.get(role).filter(|token| token.live(issuer));
        let token = token.ok_or(TokenRefusal::Mismatch)?;
        if !same(token.token.expose(), shown) {
            return Err(TokenRefusal::Mismatch);
        }
        if token.scopes.cover(asked) { Ok(()) } else { Err(TokenRefusal::Scopes) }
    }

    /// The device's token for a role, made anew where the one there is does not do (H16).
    pub(super) fn ensure_token(
        &mut self,
        role: &str,
        asked: Scopes,
        issuer: (&Issuer, Option<u64>),
        entropy: &Entropy,
        now: Millis,
    ) -> &Token {
        let live = self.tokens.get(role).filter(|token| token.live(issuer.0));
        let scopes = live.map_or(asked, |token| token.scopes.and(asked));
        if live.is_none_or(|token| !token.scopes.cover(asked)) {
            // What a person approved stays independent of the secret.
            let made_for = live.map_or(issuer.1, |token| token.issuer);
            self.put_token(role, scopes, made_for, entropy, now);
        }
        self.tokens.entry(role.to_owned()).or_insert_with(|| new_token(scopes, entropy, now))
    }

    /// Makes a new token for a role.
    pub(super) fn put_token(
        &mut self,
        role: &str,
        scopes: Scopes,
        issuer: Option<u64>,
        entropy: &Entropy,
        now: Millis,
    ) {
        let former = self.tokens.get(role);
        let token = Token {
            created_at: former.map_or(now, |token| token.created_at),
            rotated_at: former.map(|_| now),
            last_used_at: former.and_then(|token| token.last_used_at),
            issuer,
            ..new_token(scopes, entropy, now)
        };
        self.tokens.insert(role.to_owned(), token);
    }
}

fn new_token(scopes: Scopes, entropy: &Entropy, now: Millis) -> Token {
    Token {
        token: Secret::new(b64::encode_url(&entropy.token)),
        scopes,
        created_at: now,
        rotated_at: None,
        revoked_at: None,
        last_used_at: None,
        issuer: None,
    }
}
