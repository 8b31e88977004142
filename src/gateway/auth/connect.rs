//! The verdict on a `connect`.

use super::devices::{
    About, Change, Device, Devices, Effects, Entropy, Issuer, NoRoom, Pending, TokenRefusal,
    Verdict as End, resolved,
};
use super::lockout::Lockout;
use super::methods::Caller;
use super::origin::{Origins, Peer};
use super::pairing::{Kind, Reason, pinned, silent};
use super::proof::{Challenge, Proven, verify};
use super::refusal::{Refused, Unauthorized, close_reason, no_room};
use super::scopes::Scopes;
use super::secret::{Auth, Mode, Shown, text};
use crate::base::Millis;
use crate::base::id::uuid_v7;
use crate::config::Secret;
use serde_json::{Value, json};

/// The protocol that is spoken here.
const PROTOCOL: u64 = 4;
/// The oldest one that a probe may end at.
const PROTOCOL_PROBE: u64 = 3;
const OPERATOR: &str = "operator";

/// Settings beside the secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Which pages may connect.
    pub origins: Origins,
    /// `gateway.nodes.pairing.autoApproveLocal`.
    pub auto_approve_local: bool,
    /// The gateway listens on loopback alone: no other host names it (H31).
    pub loopback_only: bool,
}

/// The gate: who may connect.
#[derive(Clone, Debug)]
pub struct Gate {
    pub(super) auth: Auth,
    issuer: Issuer,
    pub(super) policy: Policy,
    pub(super) lockout: Lockout,
    /// The paired devices; their methods are called here.
    pub devices: Devices,
}

/// A client that is let in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Its role.
    pub role: &'static str,
    /// `auth.method` of the hello.
    pub method: &'static str,
    /// Who it is to the methods on devices, with the scopes that are granted.
    pub caller: Caller,
    /// The token of its device, and when that was made.
    pub token: Option<(Secret, Millis)>,
    /// What else follows; the hello is sent when the changes are stored.
    pub effects: Effects,
}

impl Admitted {
    /// `auth` of the hello.
    #[must_use]
    pub fn auth(&self) -> Value {
        let scopes = self.caller.scopes.words();
        let mut auth = json!({"method": self.method, "role": self.role, "scopes": scopes});
        if let Some((token, at)) = &self.token {
            auth["deviceToken"] = token.expose().into();
            auth["issuedAtMs"] = at.0.into();
        }
        auth
    }
}

/// What becomes of a `connect`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is let in.
    Admitted(Box<Admitted>),
    /// It is not.
    Refused(Box<Refused>),
}

/// One `connect`, while it is judged.
struct Asking<'a> {
    peer: &'a Peer,
    params: &'a Value,
    kind: Kind,
    scopes: Scopes,
    about: About,
    now: Millis,
    entropy: &'a Entropy,
}

impl Asking<'_> {
    fn auth(&self, name: &str) -> &str {
        text(&self.params["auth"][name])
    }

    fn alone_here(&self) -> bool {
        self.peer.direct_local() && !self.peer.has_origin()
    }
}

impl Gate {
    /// A gate with the devices that the store has.
    #[must_use]
    pub fn new(auth: Auth, issuer: Issuer, policy: Policy, devices: Devices) -> Gate {
        Gate { auth, issuer, policy, lockout: Lockout::default(), devices }
    }

    /// Judges a `connect` (H8). `params` fit its schema; a value that does not is taken as missing.
    /// The challenge is used up.
    pub fn connect(
        &mut self,
        peer: &Peer,
        challenge: &mut Challenge,
        params: &Value,
        now: Millis,
        entropy: &Entropy,
    ) -> Verdict {
        let asking = Asking {
            peer,
            params,
            kind: Kind::of(params),
            scopes: Scopes::from_json(&params["scopes"]),
            about: About::of(params, peer.origin.as_deref(), peer.address.to_string()),
            now,
            entropy,
        };
        let nonce = challenge.take();
        let mut effects = Effects::default();
        self.devices.expire(now, &mut effects);
        match self.judge(&asking, nonce.as_deref(), &mut effects) {
            Ok(mut admitted) => {
                if admitted.method != Mode::None.word() {
                    self.lockout.succeeded(peer.address);
                }
                admitted.effects = effects;
                Verdict::Admitted(Box::new(admitted))
            }
            Err(mut refused) => {
                refused.effects = effects;
                Verdict::Refused(refused)
            }
        }
    }

    fn judge(
        &mut self,
        asking: &Asking<'_>,
        nonce: Option<&str>,
        effects: &mut Effects,
    ) -> Result<Admitted, Box<Refused>> {
        protocol(asking)?;
        let role = role(asking.params)?;
        self.origin(asking)?;
        if let Some(ms) = self.lockout.locked(asking.peer.address, asking.now) {
            return Err(Unauthorized::Locked(ms).refused(false));
        }
        let shown = self.auth.check(asking.auth("token"), asking.auth("password"));
        if !asking.params["device"].is_object() {
            return self.without_device(asking, shown);
        }
        let proven = verify(asking.params, role, nonce, asking.now).map_err(|error| {
            let details = json!({"code": error.code(), "reason": error.reason()});
            Refused::invalid(error.to_string(), details)
        })?;
        let method = match shown {
            Shown::Right => self.auth.mode().word(),
            Shown::Wrong | Shown::Nothing => {
                self.by_token(asking, &proven).map_err(|why| self.unauthorized(asking, why))?
            }
        };
        let token = self.pair(asking, &proven, method, effects)?;
        Ok(self.admitted(asking, method, asking.scopes, Some(proven.id), token))
    }

    fn admitted(
        &self,
        asking: &Asking<'_>,
        method: &'static str,
        scopes: Scopes,
        device: Option<String>,
        token: Option<(Secret, Millis)>,
    ) -> Admitted {
        let caller = Caller { device, about: asking.about.clone(), scopes };
        Admitted { role: OPERATOR, method, caller, token, effects: Effects::default() }
    }

    fn origin(&self, asking: &Asking<'_>) -> Result<(), Box<Refused>> {
        if !asking.peer.has_origin() && !asking.kind.web {
            return Ok(());
        }
        self.policy.origins.check(asking.peer).map_err(|error| {
            let words = "origin not allowed (open the page from the gateway's machine, or add its \
                         origin to gateway.controlUi.allowedOrigins)";
            let reason = error.to_string();
            let details = json!({"code": "CONTROL_UI_ORIGIN_NOT_ALLOWED", "reason": reason});
            Refused::invalid(words, details)
        })
    }

    /// A failure of credentials, counted if it was a guess.
    fn unauthorized(&mut self, asking: &Asking<'_>, why: Unauthorized) -> Box<Refused> {
        let proven = asking.params["device"].is_object();
        let alone = asking.auth("password").is_empty() && asking.auth("deviceToken").is_empty();
        let mut refused = why.refused(proven && alone);
        if why.counts() {
            refused.delay_ms = self.lockout.failed(asking.peer.address, asking.now);
        }
        refused
    }

    /// What is wrong with the shared secret that was shown.
    fn wrong_secret(&self, shown: Shown) -> Unauthorized {
        match (self.auth.mode(), shown) {
            (Mode::Password, Shown::Nothing) => Unauthorized::PasswordMissing,
            (Mode::Password, _) => Unauthorized::PasswordMismatch,
            (_, Shown::Nothing) => Unauthorized::TokenMissing,
            (_, _) => Unauthorized::TokenMismatch,
        }
    }

    /// A client without a device (H9).
    fn without_device(
        &mut self,
        asking: &Asking<'_>,
        shown: Shown,
    ) -> Result<Admitted, Box<Refused>> {
        if asking.kind.needs_proof {
            let words =
                "this client needs a device identity (open the page over https or localhost)";
            let details = json!({"code": "CONTROL_UI_DEVICE_IDENTITY_REQUIRED"});
            return Err(Refused::invalid(words, details));
        }
        let bootstrap = !asking.auth("bootstrapToken").is_empty();
        match shown {
            Shown::Right => {}
            Shown::Wrong => {
                let why = self.wrong_secret(shown);
                return Err(self.unauthorized(asking, why));
            }
            Shown::Nothing if bootstrap => {
                return Err(self.unauthorized(asking, Unauthorized::Bootstrap));
            }
            Shown::Nothing => {
                let details = json!({"code": "DEVICE_IDENTITY_REQUIRED"});
                let mut refused = Refused::invalid("device identity required", details);
                refused.code = "NOT_PAIRED";
                return Err(refused);
            }
        }
        let mode = self.auth.mode();
        let trusted = asking.alone_here() && (asking.kind.backend || asking.kind.cli);
        let keeps = mode == Mode::None || trusted;
        let scopes = if keeps { asking.scopes } else { Scopes::default() };
        Ok(self.admitted(asking, mode.word(), scopes, None, None))
    }

    /// A device by its own token (H10).
    fn by_token(&self, asking: &Asking<'_>, proven: &Proven) -> Result<&'static str, Unauthorized> {
        let explicit = asking.auth("deviceToken");
        let token = if explicit.is_empty() { asking.auth("token") } else { explicit };
        let bootstrap = !asking.auth("bootstrapToken").is_empty();
        let shown = self.auth.check(asking.auth("token"), asking.auth("password"));
        let fallback = if bootstrap { Unauthorized::Bootstrap } else { self.wrong_secret(shown) };
        if token.is_empty() {
            return Err(fallback);
        }
        let device = self.devices.paired.get(&proven.id);
        let fits = device.map_or(Err(TokenRefusal::Mismatch), |device| {
            device.token_fits(OPERATOR, token, asking.scopes, &self.issuer)
        });
        match fits {
            Ok(()) => Ok("device-token"),
            Err(TokenRefusal::Scopes) => Err(Unauthorized::Scopes),
            Err(TokenRefusal::Mismatch) if explicit.is_empty() => Err(fallback),
            Err(TokenRefusal::Mismatch) => Err(Unauthorized::DeviceToken),
        }
    }

    /// Pairs a device where that is needed and possible, and gives it its token (H14 to H18).
    fn pair(
        &mut self,
        asking: &Asking<'_>,
        proven: &Proven,
        method: &'static str,
        effects: &mut Effects,
    ) -> Result<Option<(Secret, Millis)>, Box<Refused>> {
        let kind = asking.kind;
        let mode = self.auth.mode();
        if (kind.backend && asking.alone_here()) || (kind.control_ui && mode == Mode::None) {
            return Ok(None);
        }
        let by_secret = method == mode.word();
        let reasons = self.reasons(asking, proven);
        let silent = |reason: &Reason| {
            self.policy.auto_approve_local
                && silent(asking.peer, kind, by_secret && mode != Mode::None, *reason)
        };
        let loud = reasons.iter().find(|reason| !silent(reason)).copied();
        let asked = Pending {
            id: String::new(),
            device: proven.id.clone(),
            key: proven.key.clone(),
            about: asking.about.clone(),
            role: OPERATOR.to_owned(),
            scopes: asking.scopes,
            repair: self.devices.paired.contains_key(&proven.id),
            at: asking.now,
        };
        if let Some(reason) = loud {
            return Err(self.ask(asking, asked, reason, effects));
        }
        if !reasons.is_empty() {
            let id = uuid_v7(asking.now, asking.entropy.id);
            let asked = Pending { id, ..asked };
            self.devices.approve(&asked, true, asking.now, effects).map_err(|_| no_room())?;
            effects.events.push(resolved(&asked, End::Approved, asking.now));
            // What it asked for before, and has now, needs nobody any more.
            let approved = self.devices.paired.get(&proven.id).map(|device| device.approved);
            let waits = self.devices.pending.get(&proven.id).map(|pending| pending.scopes);
            if let (Some(approved), Some(scopes)) = (approved, waits)
                && approved.cover(scopes)
            {
                self.devices.end(&proven.id, End::Approved, asking.now, effects);
            }
        }
        Ok(self.greet(asking, &proven.id, by_secret, effects))
    }

    /// A paired device is seen: its token, and what is kept of it.
    fn greet(
        &mut self,
        asking: &Asking<'_>,
        id: &str,
        by_secret: bool,
        effects: &mut Effects,
    ) -> Option<(Secret, Millis)> {
        let (now, entropy) = (asking.now, asking.entropy);
        let issuer = (&self.issuer, by_secret.then_some(self.issuer.generation));
        let device = self.devices.paired.get_mut(id)?;
        device.last_seen_at = Some(now);
        device.about = asking.about.clone();
        let token = device.ensure_token(OPERATOR, asking.scopes, issuer, entropy, now);
        let given = (token.token.clone(), token.issued_at());
        if !by_secret && let Some(token) = device.tokens.get_mut(OPERATOR) {
            token.last_used_at = Some(now);
        }
        effects.changes.push(Change::Device(Box::new(device.clone())));
        Some(given)
    }

    fn reasons(&self, asking: &Asking<'_>, proven: &Proven) -> Vec<Reason> {
        let Some(device) = self.devices.paired.get(&proven.id) else {
            return vec![Reason::NotPaired];
        };
        let metadata = (!pinned(device, &asking.about)).then_some(Reason::Metadata);
        let scopes = (!device.approved.cover(asking.scopes)).then_some(Reason::Scopes);
        metadata.into_iter().chain(scopes).collect()
    }

    /// A device has to wait for a person (H17).
    fn ask(
        &mut self,
        asking: &Asking<'_>,
        asked: Pending,
        reason: Reason,
        effects: &mut Effects,
    ) -> Box<Refused> {
        let device = self.devices.paired.get(&asked.device).cloned();
        let (id, entropy) = (asked.device.clone(), asking.entropy);
        let request = match self.devices.ask(asked, entropy, effects) {
            Ok(request) => request,
            Err(NoRoom) => return no_room(),
        };
        let (message, hint) = reason.words();
        let mut details = json!({
            "code": "PAIRING_REQUIRED", "reason": reason.word(), "requestId": request,
            "remediationHint": hint, "deviceId": id, "requestedRole": OPERATOR,
            "requestedScopes": asking.scopes.words(),
        });
        if let Some(Device { roles, approved, .. }) = device {
            details["approvedRoles"] = roles.into();
            details["approvedScopes"] = approved.words().into();
        }
        if asking.kind.control_ui {
            details["recommendedNextStep"] = "wait_then_retry".into();
            details["retryable"] = true.into();
            details["pauseReconnect"] = false.into();
        }
        let mut refused = Refused::invalid(message, details);
        let reason = format!("{message} (requestId: {request})");
        refused.code = "NOT_PAIRED";
        refused.close_reason = close_reason(&reason).to_owned();
        refused
    }
}

fn protocol(asking: &Asking<'_>) -> Result<(), Box<Refused>> {
    let of = |name: &str| asking.params[name].as_u64().unwrap_or(0);
    let (min, max) = (of("minProtocol"), of("maxProtocol"));
    let least = if asking.kind.probe { PROTOCOL_PROBE } else { PROTOCOL };
    if min <= PROTOCOL && max >= least {
        return Ok(());
    }
    let details = json!({
        "code": "PROTOCOL_MISMATCH", "clientMinProtocol": min, "clientMaxProtocol": max,
        "expectedProtocol": PROTOCOL, "minimumProbeProtocol": PROTOCOL_PROBE,
    });
    let mut refused = Refused::invalid("protocol mismatch", details);
    refused.close_code = 1002;
    Err(refused)
}

fn role(params: &Value) -> Result<&'static str, Box<Refused>> {
    match params.get("role").map(|role| role.as_str().unwrap_or("")) {
        None | Some(OPERATOR) => Ok(OPERATOR),
        Some("node") => {
            let details = json!({"reason": "role-not-supported"});
            Err(Refused::invalid("role node is not supported by this gateway", details))
        }
        Some(_) => Err(Refused::invalid("invalid role", Value::Null)),
    }
}
