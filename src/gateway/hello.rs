//! `connect`, from the verdict to the hello (protocol 3).

use super::auth::{Challenge, Effects, Entropy, Gate, Peer, Refused, Scope, Scopes, Verdict};
use super::frame::Request;
use super::hub::{Audience, Client, Gateway, Sight, TICK_MS};
use super::lines::{BUFFERED_BYTES_MAX, Stage};
use super::out::{Conn, Do, Frame, answer};
use super::{events, schema};
use crate::base::Millis;
use crate::gateway::frame::Fault;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// What is done when changes of devices are stored, or could not be.
#[derive(Debug)]
pub(super) enum Kept {
    /// The hello is said.
    Hello(Conn, String, Value, Box<Client>),
    /// A request is answered.
    Answer(Conn, String, Value),
    /// Nobody waits for it.
    Nothing,
}

impl Gateway {
    /// Whom this gateway lets in; without it there are no sockets.
    pub fn guard(&mut self, gate: Gate, mode: &'static str, now: Millis) {
        self.gate = Some(gate);
        self.facts.auth_mode = mode;
        self.started = now;
    }

    pub(super) fn connect(
        &mut self,
        conn: Conn,
        request: &Request,
        peer: &Peer,
        mut challenge: Challenge,
    ) {
        let params = Value::Object(request.params.clone());
        let entropy = self.entropy();
        let now = self.now;
        let Some(gate) = &mut self.gate else { return };
        match gate.connect(peer, &mut challenge, &params, now, &entropy) {
            Verdict::Refused(refused) => self.refuse_connect(conn, &request.id, *refused),
            Verdict::Admitted(admitted) => {
                let mut admitted = *admitted;
                let effects = std::mem::take(&mut admitted.effects);
                let scopes = admitted.caller.scopes;
                let client = client_of(&request.params, peer, &admitted.caller, now);
                let auth = admitted.auth();
                let hello = self.hello(conn, auth, scopes);
                let kept = Kept::Hello(conn, request.id.clone(), hello, Box::new(client));
                self.after_storing(effects, kept);
            }
        }
    }

    fn refuse_connect(&mut self, conn: Conn, id: &str, refused: Refused) {
        let frame = json!({"type": "res", "id": id, "ok": false, "error": refused.error()});
        let at = self.now.plus(refused.delay_ms);
        self.log_refused(conn, &frame["error"]);
        self.follow_effects(refused.effects);
        let last = (frame, refused.close_code, refused.close_reason);
        self.refusals.insert(conn, last);
        self.late.insert((at, conn));
        self.say_late();
    }

    /// Refusals that were held back long enough.
    pub(super) fn late_answers(&mut self, sight: Sight<'_>) {
        self.now = sight.now;
        self.say_late();
    }

    fn say_late(&mut self) {
        while let Some((at, conn)) = self.late.first().copied().filter(|(at, _)| *at <= self.now) {
            self.late.remove(&(at, conn));
            if let Some((frame, code, reason)) = self.refusals.remove(&conn) {
                self.give(conn, &Frame::whole(&frame));
                self.shut(conn, code, &reason);
            }
            self.held_is_told(conn);
        }
    }

    fn hello(&self, conn: Conn, auth: Value, scopes: Scopes) -> Value {
        let facts = &self.facts;
        // Who may not read is not told who else is here.
        let presence = match scopes.covers(Scope::Read) {
            true => self.presence(),
            false => json!([]),
        };
        let mut snapshot = json!({
            "presence": presence,
            "health": {"ok": true, "ts": self.now, "defaultAgentId": facts.agent,
                "agents": [], "channels": {}, "channelOrder": [], "channelLabels": {},
                "sessions": {"count": 0, "recent": []}},
            "stateVersion": {"presence": self.presence_version, "health": 1},
            "uptimeMs": self.now.since(self.started),
            "sessionDefaults": {
                "defaultAgentId": facts.agent, "mainKey": "main",
                "mainSessionKey": facts.main_key(), "scope": "per-sender",
            },
        });
        if scopes.covers(Scope::Read) {
            snapshot["health"]["sessions"]["path"] = facts.database.as_str().into();
        }
        if scopes.covers(Scope::Admin) {
            snapshot["configPath"] = facts.config.path.as_str().into();
            snapshot["stateDir"] = facts.state_dir.as_str().into();
            snapshot["authMode"] = facts.auth_mode.into();
        }
        json!({
            "type": "hello-ok", "protocol": 4,
            "server": {
                "version": facts.version, "connId": format!("{}-{conn}", facts.boot_id),
                "bootId": facts.boot_id, "controlUiBuildSource": "configured",
            },
            "features": {"methods": schema::advertised(), "events": events::EVENTS},
            "snapshot": snapshot, "auth": auth,
            "policy": {
                "maxPayload": super::wire::limits::MESSAGE_BYTES_MAX,
                "maxBufferedBytes": BUFFERED_BYTES_MAX, "tickIntervalMs": TICK_MS,
                "attachments": {"maxBytes": 19_464_192, "maxImageBytes": 6_291_456},
                "allowedSessionVisibilities": ["shared"],
            },
        })
    }

    /// What follows from a step of the gate, once its changes are stored.
    pub(super) fn after_storing(&mut self, mut effects: Effects, kept: Kept) {
        let changes = std::mem::take(&mut effects.changes);
        if changes.is_empty() {
            self.follow_effects(effects);
            return self.is_kept(kept, Ok(()));
        }
        let ticket = self.ticket();
        self.kept.insert(ticket, (kept, effects));
        self.out.push(Do::Keep(ticket, changes));
    }

    fn follow_effects(&mut self, effects: Effects) {
        if !effects.changes.is_empty() {
            return self.after_storing(effects, Kept::Nothing);
        }
        for event in effects.events {
            self.broadcast(event.name, &event.payload, &Audience::All);
        }
        for (device, reason) in effects.close {
            let of = self.clients.iter().filter(|(_, c)| c.device.as_deref() == Some(&*device));
            for conn in of.map(|(conn, _)| *conn).collect::<Vec<_>>() {
                self.shut(conn, 4001, reason);
            }
        }
        if !effects.ended.is_empty() {
            self.upgrades_ended();
        }
    }

    /// Changes of devices are stored, or could not be.
    pub fn device_kept(&mut self, ticket: u64, result: Result<(), String>, sight: Sight<'_>) {
        self.see(sight);
        let Some((kept, effects)) = self.kept.remove(&ticket) else { return };
        match result {
            Ok(()) => {
                // The answer goes out before a socket is closed because of it.
                self.is_kept(kept, Ok(()));
                self.follow_effects(effects);
            }
            Err(why) => self.is_kept(kept, Err(why)),
        }
    }

    fn is_kept(&mut self, kept: Kept, result: Result<(), String>) {
        match (kept, result) {
            (Kept::Hello(conn, id, hello, client), Ok(())) => {
                let Some(line) = self.lines.get_mut(&conn) else { return };
                line.wire.hello(self.now);
                line.stage = Stage::Open;
                self.log_hello(conn, &client);
                self.give(conn, &Frame::whole(&answer(&id, Ok(hello))));
                self.clients.insert(conn, *client.clone());
                self.presence_changed(&client);
            }
            (Kept::Hello(conn, id, _, _), Err(why)) => {
                self.give(conn, &Frame::whole(&answer(&id, Err(Fault::failed(why)))));
                self.shut(conn, 1011, "the device could not be stored");
            }
            (Kept::Answer(conn, id, payload), result) => {
                self.respond(conn, &id, result.map(|()| payload).map_err(Fault::failed));
            }
            (Kept::Nothing, _) => {}
        }
    }

    /// One of the methods on devices.
    pub(super) fn device(
        &mut self,
        conn: Conn,
        id: &str,
        method: &str,
        params: &Value,
    ) -> Result<Option<Value>, Fault> {
        let entropy = self.entropy();
        let caller = self.clients.get(&conn).map(|client| client.caller.clone());
        let (Some(gate), Some(caller)) = (&mut self.gate, caller) else {
            return Err(Fault::invalid("there are no devices: this gateway has no network"));
        };
        let clients = &self.clients;
        let there = |id: &str| clients.values().any(|c| c.device.as_deref() == Some(id));
        let done = gate.devices.call(method, params, &caller, &there, self.now, &entropy);
        let Some(done) = done else {
            return Err(Fault::invalid(format!("unknown method: {method}")));
        };
        match done.answer {
            Ok(Some(payload)) => {
                let kept = Kept::Answer(conn, id.to_owned(), payload);
                self.after_storing(done.effects, kept);
                Ok(None)
            }
            Ok(None) => {
                self.follow_effects(done.effects);
                self.upgrades.push((conn, id.to_owned(), params.clone()));
                Ok(None)
            }
            Err(fault) => {
                self.follow_effects(done.effects);
                Err(fault)
            }
        }
    }

    /// Somebody who waits for more scopes may have them now.
    fn upgrades_ended(&mut self) {
        for (conn, id, params) in std::mem::take(&mut self.upgrades) {
            let caller = self.clients.get(&conn).map(|client| client.caller.clone());
            let (Some(gate), Some(caller)) = (&self.gate, caller) else { continue };
            match gate.devices.wait_upgrade(&params, &caller) {
                Ok(None) => self.upgrades.push((conn, id, params)),
                Ok(Some(answer)) => self.respond(conn, &id, Ok(answer)),
                Err(fault) => self.respond(conn, &id, Err(fault)),
            }
        }
    }

    /// Requests of devices that have run out.
    pub(super) fn expire_devices(&mut self) {
        let mut effects = Effects::default();
        if let Some(gate) = &mut self.gate {
            gate.devices.expire(self.now, &mut effects);
        }
        self.follow_effects(effects);
    }

    fn entropy(&self) -> Entropy {
        let mut id = [0; 10];
        // Two ends of the same bytes: the id is no secret, and says nothing of the token's other
        // twenty-two.
        id.copy_from_slice(&self.fresh_id);
        Entropy { token: self.fresh, id }
    }
}

fn client_of(
    params: &Map<String, Value>,
    peer: &Peer,
    caller: &super::auth::Caller,
    now: crate::base::Millis,
) -> Client {
    let said = &params["client"];
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let caps = params.get("caps").and_then(Value::as_array);
    let caps = caps.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Client {
        id: text("id").unwrap_or_default(),
        mode: text("mode").unwrap_or_default(),
        name: text("displayName"),
        version: text("version").unwrap_or_default(),
        platform: text("platform").unwrap_or_default(),
        family: text("deviceFamily"),
        caps: caps.collect(),
        scopes: caller.scopes,
        device: caller.device.clone(),
        caller: caller.clone(),
        instance: text("instanceId"),
        ip: Some(peer.address.to_string()),
        since: now,
        subscribed: false,
        keys: BTreeSet::new(),
        seq: 0,
        told: now,
    }
}
