//! Methods on devices: pairing requests, tokens, more scopes.

use super::devices::{About, Change, Device, Devices, Effects, Entropy, Event, Pending, Verdict};
use super::scopes::{Scope, Scopes};
use crate::base::Millis;
use crate::gateway::frame::Fault;
use serde_json::{Value, json};

/// Who calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// Its device, if it proved one.
    pub device: Option<String>,
    /// What its client said of itself.
    pub about: About,
    /// What it may do.
    pub scopes: Scopes,
}

/// An answer, and what comes with it.
#[derive(Clone, PartialEq, Debug)]
pub struct Done {
    /// The answer; `None` while it has to wait ([`Devices::wait_upgrade`]). `INVALID_REQUEST` for
    /// what is unknown or denied, `UNAVAILABLE` where no place is left; nothing has changed then,
    /// but requests may have run out.
    pub answer: Result<Option<Value>, Fault>,
    /// What else follows, whatever the answer is.
    pub effects: Effects,
}

type Answer = Result<Value, Fault>;

/// Roles that devices can have here.
const ROLE: &str = "operator";
/// Longest label of a device, characters.
const LABEL_CHARS_MAX: usize = 64;
/// Most scopes of one upgrade.
const UPGRADE_MAX: usize = 8;

const ROTATION_DENIED: &str = "device token rotation denied";
const REVOCATION_DENIED: &str = "device token revocation denied";
const APPROVAL_DENIED: &str = "device pairing approval denied";
const REJECTION_DENIED: &str = "device pairing rejection denied";

impl Caller {
    fn admin(&self) -> bool {
        self.scopes.covers(Scope::Admin)
    }

    /// Whether it may see and manage a device (H20).
    fn manages(&self, device: &str) -> bool {
        self.admin() || self.device.as_deref().is_none_or(|own| own == device)
    }
}

fn denied(words: &str) -> Fault {
    Fault::invalid(words)
}

fn unknown(what: &str) -> Fault {
    Fault::invalid(format!("unknown {what}"))
}

fn named<'p>(params: &'p Value, name: &str) -> Result<&'p str, Fault> {
    let text = super::secret::text(&params[name]);
    if text.is_empty() { Err(Fault::invalid(format!("{name} required"))) } else { Ok(text) }
}

/// A device as it is told to operators: without its tokens.
fn shown(device: &Device) -> Value {
    let tokens: Vec<Value> = device
        .tokens
        .iter()
        .map(|(role, token)| {
            let mut shown = json!({
                "role": role, "scopes": token.scopes.words(), "createdAtMs": token.created_at,
            });
            let times = [
                ("rotatedAtMs", token.rotated_at),
                ("revokedAtMs", token.revoked_at),
                ("lastUsedAtMs", token.last_used_at),
            ];
            for (name, at) in times {
                if let Some(at) = at {
                    shown[name] = at.0.into();
                }
            }
            shown
        })
        .collect();
    let mut shown = json!({
        "deviceId": device.id, "publicKey": device.key, "role": device.roles.first(),
        "roles": device.roles, "scopes": device.approved.words(), "tokens": tokens,
        "createdAtMs": device.created_at, "approvedAtMs": device.approved_at,
    });
    if device.silent {
        shown["approvedVia"] = "silent".into();
    }
    if let Some(at) = device.last_seen_at {
        shown["lastSeenAtMs"] = at.0.into();
    }
    let fields = device.about.fields();
    for (name, value) in fields.into_iter().chain([("operatorLabel", &device.label)]) {
        if let Some(value) = value {
            shown[name] = value.as_str().into();
        }
    }
    shown
}

fn changed() -> Event {
    Event { name: "device.pair.changed", payload: json!({}) }
}

impl Devices {
    /// Does one of the methods of H20 to H24; `None` for another one. `params` fit its schema,
    /// and the caller has the scope that it needs. `connected` tells whether a device is.
    pub fn call(
        &mut self,
        method: &str,
        params: &Value,
        caller: &Caller,
        connected: &dyn Fn(&str) -> bool,
        now: Millis,
        entropy: &Entropy,
    ) -> Option<Done> {
        let mut effects = Effects::default();
        self.expire(now, &mut effects);
        let e = &mut effects;
        let answer = match method {
            "device.pair.list" => Ok(self.list(caller, connected)),
            "device.pair.approve" => self.approve_request(params, caller, now, entropy, e),
            "device.pair.reject" => self.reject_request(params, caller, now, e),
            "device.pair.remove" => self.remove(params, caller, now, e),
            "device.pair.rename" => self.rename(params, caller, e),
            "device.token.rotate" => self.rotate(params, caller, now, entropy, e),
            "device.token.revoke" => self.revoke(params, caller, now, e),
            "device.scopes.requestUpgrade" => self.request_upgrade(params, caller, now, entropy, e),
            "device.scopes.waitUpgrade" => {
                return Some(Done { answer: self.wait_upgrade(params, caller), effects });
            }
            _ => return None,
        };
        Some(Done { answer: answer.map(Some), effects })
    }

    fn list(&self, caller: &Caller, connected: &dyn Fn(&str) -> bool) -> Value {
        let mut pending: Vec<&Pending> =
            self.pending.values().filter(|p| caller.manages(&p.device)).collect();
        pending.sort_by_key(|p| std::cmp::Reverse(p.at));
        let mut paired: Vec<&Device> =
            self.paired.values().filter(|d| caller.manages(&d.id)).collect();
        paired.sort_by_key(|d| std::cmp::Reverse(d.approved_at));
        let device = |device: &&Device| {
            let mut shown = shown(device);
            shown["connected"] = connected(&device.id).into();
            shown
        };
        json!({
            "pending": pending.iter().map(|p| p.shown()).collect::<Vec<_>>(),
            "paired": paired.iter().map(device).collect::<Vec<_>>(),
        })
    }

    /// The request that a caller decides on.
    fn request(&self, params: &Value, caller: &Caller, no: &str) -> Result<Pending, Fault> {
        let id = named(params, "requestId")?;
        let pending = self.pending.values().find(|pending| pending.id == id);
        match pending {
            Some(pending) if caller.manages(&pending.device) => Ok(pending.clone()),
            None if caller.admin() || caller.device.is_none() => Err(unknown("requestId")),
            // Somebody else's request is not told from none.
            Some(_) | None => Err(denied(no)),
        }
    }

    fn approve_request(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        entropy: &Entropy,
        effects: &mut Effects,
    ) -> Answer {
        let pending = self.request(params, caller, APPROVAL_DENIED)?;
        if !caller.scopes.cover(pending.scopes) {
            let mut fault = denied(APPROVAL_DENIED);
            fault.details = Some(json!({"reason": "caller-scopes-too-narrow"}));
            return Err(fault);
        }
        let device = self.approve(&pending, false, now, effects).map_err(|_| no_room())?;
        let scopes = device.tokens.get(&pending.role).filter(|token| token.revoked_at.is_none());
        let scopes = scopes.map_or(pending.scopes, |token| token.scopes.and(pending.scopes));
        device.put_token(&pending.role, scopes, None, entropy, now);
        effects.changes.push(Change::Device(Box::new(device.clone())));
        let device = shown(device);
        self.end(&pending.device, Verdict::Approved, now, effects);
        Ok(json!({"requestId": pending.id, "device": device}))
    }

    fn reject_request(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        effects: &mut Effects,
    ) -> Answer {
        let pending = self.request(params, caller, REJECTION_DENIED)?;
        self.end(&pending.device, Verdict::Rejected, now, effects);
        Ok(json!({"requestId": pending.id, "deviceId": pending.device}))
    }

    fn remove(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        effects: &mut Effects,
    ) -> Answer {
        let id = named(params, "deviceId")?;
        if !caller.manages(id) {
            return Err(denied("device pairing removal denied"));
        }
        self.paired.remove(id).ok_or_else(|| unknown("deviceId"))?;
        self.end(id, Verdict::Rejected, now, effects);
        effects.changes.push(Change::Removed(id.to_owned()));
        effects.events.push(changed());
        effects.close.push((id.to_owned(), "device removed"));
        Ok(json!({"deviceId": id}))
    }

    fn rename(&mut self, params: &Value, caller: &Caller, effects: &mut Effects) -> Answer {
        let id = named(params, "deviceId")?;
        let label = super::devices::kept(named(params, "label")?);
        let label = label.ok_or_else(|| Fault::invalid("label required"))?;
        if label.chars().count() > LABEL_CHARS_MAX {
            let words = format!("label: at most {LABEL_CHARS_MAX} characters");
            return Err(Fault::invalid(words));
        }
        if !caller.manages(id) {
            return Err(denied("device pairing rename denied"));
        }
        let device = self.paired.get_mut(id).ok_or_else(|| unknown("deviceId"))?;
        device.label = Some(label.clone());
        effects.changes.push(Change::Device(Box::new(device.clone())));
        effects.events.push(changed());
        Ok(json!({"deviceId": id, "label": label}))
    }

    fn rotate(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        entropy: &Entropy,
        effects: &mut Effects,
    ) -> Answer {
        let (id, role) = (named(params, "deviceId")?, named(params, "role")?);
        let no = || denied(ROTATION_DENIED);
        let device = self.paired.get_mut(id).filter(|_| caller.manages(id)).ok_or_else(no)?;
        if !device.roles.iter().any(|has| has == role) {
            return Err(no());
        }
        let former = device.tokens.get(role);
        let (had, issuer) = former.map_or((device.approved, None), |t| (t.scopes, t.issuer));
        let asked = &params["scopes"];
        let scopes = if asked.is_null() { had } else { asked_scopes(asked)? };
        let within = device.approved.cover(scopes);
        if !within || !caller.scopes.cover(scopes) || !caller.scopes.cover(had) {
            return Err(no());
        }
        device.put_token(role, scopes, issuer, entropy, now);
        effects.changes.push(Change::Device(Box::new(device.clone())));
        effects.close.push((id.to_owned(), "device token rotated"));
        let own = caller.device.as_deref() == Some(id);
        let mut answer = json!({
            "deviceId": id, "role": role, "scopes": scopes.words(), "rotatedAtMs": now,
            "tokenDelivery": if own { "in-band" } else { "withheld-cross-device" },
        });
        if let (true, Some(token)) = (own, device.tokens.get(role)) {
            answer["token"] = token.token.expose().into();
        }
        Ok(answer)
    }

    fn revoke(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        effects: &mut Effects,
    ) -> Answer {
        let (id, role) = (named(params, "deviceId")?, named(params, "role")?);
        let no = || denied(REVOCATION_DENIED);
        let device = self.paired.get_mut(id).filter(|_| caller.manages(id)).ok_or_else(no)?;
        let token = device.tokens.get_mut(role).ok_or_else(no)?;
        if !caller.scopes.cover(token.scopes) {
            return Err(no());
        }
        let at = *token.revoked_at.get_or_insert(now);
        effects.changes.push(Change::Device(Box::new(device.clone())));
        effects.close.push((id.to_owned(), "device token revoked"));
        Ok(json!({"deviceId": id, "role": role, "revokedAtMs": at}))
    }

    /// The caller's own paired device.
    fn own(&self, caller: &Caller) -> Result<&Device, Fault> {
        let device = caller.device.as_ref().and_then(|id| self.paired.get(id));
        device.ok_or_else(|| {
            let mut fault = Fault::invalid("only a paired device can ask for more scopes");
            fault.details = Some(json!({"code": "DEVICE_IDENTITY_REQUIRED"}));
            fault
        })
    }

    fn request_upgrade(
        &mut self,
        params: &Value,
        caller: &Caller,
        now: Millis,
        entropy: &Entropy,
        effects: &mut Effects,
    ) -> Answer {
        let device = self.own(caller)?;
        let count = params["scopes"].as_array().map_or(0, Vec::len);
        if !(1..=UPGRADE_MAX).contains(&count) {
            return Err(Fault::invalid(format!("scopes: from 1 to {UPGRADE_MAX}")));
        }
        let scopes = asked_scopes(&params["scopes"])?;
        if !scopes.cover(caller.scopes) {
            return Err(Fault::invalid("scopes must include those that the connection has"));
        }
        let asked = Pending {
            id: String::new(),
            device: device.id.clone(),
            key: device.key.clone(),
            about: caller.about.clone(),
            role: ROLE.to_owned(),
            scopes,
            repair: true,
            at: now,
        };
        let id = self.ask(asked, entropy, effects).map_err(|_| no_room())?;
        Ok(json!({ "requestId": id }))
    }

    /// The answer to `device.scopes.waitUpgrade`; `None` while the request waits, to be asked for
    /// again when it is among [`Effects::ended`].
    ///
    /// # Errors
    /// `INVALID_REQUEST` for a request that is not known to this device.
    pub fn wait_upgrade(&self, params: &Value, caller: &Caller) -> Result<Option<Value>, Fault> {
        let id = named(params, "requestId")?;
        let device = self.own(caller)?;
        if self.pending.get(&device.id).is_some_and(|pending| pending.id == id) {
            return Ok(None);
        }
        let own = |(pending, _, _): &&(Pending, Verdict, Millis)| {
            pending.id == id && pending.device == device.id
        };
        let (pending, how, _) =
            self.outcomes.iter().find(own).ok_or_else(|| unknown("requestId"))?;
        let status = match how {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
            Verdict::Expired => "expired",
        };
        let mut answer = json!({"status": status, "requestId": id});
        if *how == Verdict::Approved
            && let Some(token) = device.tokens.get(&pending.role)
        {
            answer["deviceToken"] = token.token.expose().into();
            answer["scopes"] = token.scopes.words().into();
        }
        Ok(Some(answer))
    }
}

/// The scopes of a list in which each name has to be one.
fn asked_scopes(list: &Value) -> Result<Scopes, Fault> {
    let words = list.as_array().into_iter().flatten();
    let unknown =
        words.map(|word| word.as_str().unwrap_or("")).find(|w| Scope::from_word(w).is_none());
    match unknown {
        None => Ok(Scopes::from_json(list)),
        Some(word) => {
            let word: String = word.chars().take(64).collect();
            Err(Fault::invalid(format!("unknown scope: {word:?}")))
        }
    }
}

fn no_room() -> Fault {
    Fault::unavailable("too many devices are paired or wait for approval")
}
