//! The gateway: who is connected, what they asked for, and what they are told. Pure: frames and
//! events go in, what is to be done comes out.

use super::auth::{About, Caller, Effects, Gate, Scopes, droppable, hears, permit};
use super::changes::Later;
use super::chores::Writes;
use super::facts::Facts;
use super::frame::{Fault, FrameError, Params, Request};
use super::hello::Kept;
use super::http::Web;
use super::lines::Line;
use super::out::{Conn, Do, Frame, answer, event_head};
use super::pending::{After, Asked, Want};
use super::runs::Live;
use super::schema::Schemas;
use crate::base::limits::REQUESTS_MAX;
use crate::base::{Level, Millis, RunId};
use crate::engine::sessions::{Key, Sessions, Waits};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How often a connection that is told nothing hears a tick (protocol 1.6).
pub const TICK_MS: u64 = 30_000;

/// What a step may look at.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The time.
    pub now: Millis,
    /// The last local daily hour, where the reset policy has one.
    pub boundary: Option<Millis>,
    /// The sessions.
    pub sessions: &'a Sessions,
    /// Random bytes, new with every step: 32 for a secret, 10 for a name.
    pub fresh: ([u8; 32], [u8; 10]),
}

/// How arrivals are made of requests; the edge knows.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// The identity of a request, from its key and text.
    pub identity: fn(&str, &str) -> Arc<str>,
    /// How a plain message waits.
    pub plain: fn(&str) -> Waits,
}

/// Somebody who is connected and has said who they are.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Client {
    /// The program, as `openclaw-tui`.
    pub id: String,
    /// What kind of program it is, as `ui`.
    pub mode: String,
    /// Its name for people.
    pub name: Option<String>,
    /// Its version.
    pub version: String,
    /// Its system.
    pub platform: String,
    /// The kind of its machine.
    pub family: Option<String>,
    /// What it can do with what it is told.
    pub caps: BTreeSet<String>,
    /// What it may ask for.
    pub scopes: Scopes,
    /// Who it is to the methods on devices.
    pub caller: Caller,
    /// Its device, if it has shown one.
    pub device: Option<String>,
    /// Which of its kind it is.
    pub instance: Option<String>,
    /// Where it is.
    pub ip: Option<String>,
    /// Since when.
    pub since: Millis,
    /// Whether all changes of sessions are told to it.
    pub subscribed: bool,
    /// The conversations whose messages are told to it.
    pub keys: BTreeSet<Key>,
    /// The number of the last event.
    pub seq: u64,
    /// When it was told something last.
    pub told: Millis,
}

/// The gateway.
#[derive(Debug)]
pub struct Gateway {
    pub(super) facts: Facts,
    pub(super) ways: Ways,
    pub(super) schemas: Schemas,
    pub(super) clients: BTreeMap<Conn, Client>,
    pub(super) now: Millis,
    pub(super) boundary: Option<Millis>,
    pub(super) fresh: [u8; 32],
    pub(super) started: Millis,
    /// Who waits for runs.
    pub(super) wants: BTreeMap<RunId, Vec<(Conn, String, Want)>>,
    pub(super) waits: BTreeMap<u64, (Conn, String, RunId)>,
    /// Who waits for changes of sessions, in the order of asking.
    pub(super) changes: Vec<(Key, Conn, String, Asked)>,
    /// Who waits for the store.
    pub(super) asked: BTreeMap<u64, (Conn, String, After)>,
    pub(super) next: u64,
    pub(super) live: BTreeMap<RunId, Live>,
    /// Answers of runs that have ended, the oldest first: the records know their outcome for ever,
    /// their words for a while.
    pub(super) answers: VecDeque<(RunId, Box<str>)>,
    /// Ids of sessions, as far as they are known.
    pub(super) ids: BTreeMap<Key, String>,
    pub(super) presence_version: u64,
    pub(super) draining: bool,
    pub(super) out: Vec<Do>,
    /// Whom it lets in, where it has sockets.
    pub(super) gate: Option<Gate>,
    pub(super) lines: BTreeMap<Conn, Line>,
    /// Sockets that may have something to write.
    pub(super) dirty: BTreeSet<Conn>,
    /// Refusals that are held back, and until when.
    pub(super) late: BTreeSet<(Millis, Conn)>,
    pub(super) refusals: BTreeMap<Conn, (Value, u16, String)>,
    /// What waits for the gateway's own database.
    pub(super) kept: BTreeMap<u64, (Kept, Effects)>,
    /// Who waits for more scopes.
    pub(super) upgrades: Vec<(Conn, String, Value)>,
    pub(super) fresh_id: [u8; 10],
    /// Answers about sessions that were made, which wait for their first message's acceptance.
    pub(super) creating: BTreeMap<(Conn, String), Value>,
    pub(super) web: Web,
    /// Who waits for pages of the ledger; whether for the newer method.
    pub(super) pages: BTreeMap<u64, (Conn, String, bool)>,
    /// Who waits for work with files, by which method.
    pub(super) chores: BTreeMap<u64, (Conn, String, String)>,
    pub(super) writes: Writes,
    /// Changes of sessions that are told a little later.
    pub(super) later: BTreeMap<Key, Later>,
}

impl Gateway {
    /// A gateway to which nobody is connected.
    #[must_use]
    pub fn new(facts: Facts, ways: Ways, now: Millis) -> Gateway {
        Gateway {
            facts,
            ways,
            schemas: Schemas::default(),
            clients: BTreeMap::new(),
            now,
            boundary: None,
            fresh: [0; 32],
            started: now,
            wants: BTreeMap::new(),
            waits: BTreeMap::new(),
            changes: vec![],
            asked: BTreeMap::new(),
            next: 0,
            live: BTreeMap::new(),
            answers: VecDeque::new(),
            ids: BTreeMap::new(),
            presence_version: 0,
            draining: false,
            out: vec![],
            gate: None,
            lines: BTreeMap::new(),
            dirty: BTreeSet::new(),
            late: BTreeSet::new(),
            refusals: BTreeMap::new(),
            kept: BTreeMap::new(),
            upgrades: vec![],
            fresh_id: [0; 10],
            creating: BTreeMap::new(),
            web: Web::default(),
            pages: BTreeMap::new(),
            chores: BTreeMap::new(),
            writes: Writes::new(),
            later: BTreeMap::new(),
        }
    }

    /// What is to be done since the last time.
    pub fn take(&mut self) -> Vec<Do> {
        std::mem::take(&mut self.out)
    }

    /// How many requests wait for an answer.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let wants: usize = self.wants.values().map(Vec::len).sum();
        wants + self.waits.len() + self.changes.len() + self.asked.len() + self.chores.len()
    }

    /// A parent process at the other end of pipes: it may do everything.
    pub fn join(&mut self, conn: Conn, now: Millis) {
        let scopes = Scopes::from_words(["operator.admin"]);
        let caller = Caller { device: None, about: About::default(), scopes };
        let client = Client {
            id: "cli".into(),
            mode: "cli".into(),
            name: None,
            version: self.facts.version.clone(),
            platform: self.facts.platform.clone(),
            family: None,
            caps: BTreeSet::new(),
            scopes,
            caller,
            device: None,
            instance: None,
            ip: None,
            since: now,
            subscribed: true,
            keys: BTreeSet::new(),
            seq: 0,
            told: now,
        };
        self.clients.insert(conn, client);
    }

    /// A connection is gone: nobody waits for its answers, and its runs go on (decisions 24).
    pub fn gone(&mut self, conn: Conn) {
        for wants in self.wants.values_mut() {
            wants.retain(|(of, _, _)| *of != conn);
        }
        self.wants.retain(|_, wants| !wants.is_empty());
        self.creating.retain(|(of, _), _| *of != conn);
        self.pages.retain(|_, (of, _, _)| *of != conn);
        self.waits.retain(|_, (of, _, _)| *of != conn);
        self.changes.retain(|(_, of, _, _)| *of != conn);
        self.asked.retain(|_, (of, _, after)| *of != conn || after.goes_on());
        for live in self.live.values_mut() {
            live.tools.remove(&conn);
        }
        if let Some(client) = self.clients.remove(&conn) {
            self.log_gone(conn, &client);
            self.presence_changed(&client);
        }
    }

    /// A frame comes in from somebody who has said hello.
    pub fn text(&mut self, conn: Conn, text: &str, sight: Sight<'_>) {
        self.see(sight);
        let request = match Request::read(text) {
            Ok(request) => request,
            // What is no JSON has no answer (protocol 2.1), but a parent at a pipe is told.
            Err(FrameError::NoJson(_))
                if self.clients.get(&conn).is_some_and(|c| c.ip.is_some()) =>
            {
                return;
            }
            Err(error) => {
                let fault = Fault::invalid(error.to_string());
                return self.respond(conn, error.id(), Err(fault));
            }
        };
        let id = request.id.clone();
        if self.waiting() >= REQUESTS_MAX {
            let fault = Fault::unavailable("too many requests wait for their answers");
            return self.respond(conn, &id, Err(fault));
        }
        if let Err(fault) = self.request(conn, request, sight) {
            self.respond(conn, &id, Err(fault));
        }
    }

    fn request(&mut self, conn: Conn, request: Request, sight: Sight<'_>) -> Result<(), Fault> {
        let Request { id, method, params } = request;
        self.allowed(conn, &method, &params)?;
        if !Schemas::knows(&method) || method == "connect" {
            return Err(Fault::invalid(format!("unknown method: {method}")));
        }
        let problems = self.schemas.problems(&method, &params);
        if !problems.is_empty() {
            let problems = problems.join("; ");
            return Err(Fault::invalid(format!("invalid {method} params: {problems}")));
        }
        self.method(conn, id, &method, Params(params), sight)
    }

    fn allowed(
        &self,
        conn: Conn,
        method: &str,
        params: &serde_json::Map<String, Value>,
    ) -> Result<(), Fault> {
        match self.clients.get(&conn) {
            Some(client) => permit(method, params, client.scopes),
            None => Err(Fault::invalid("invalid handshake: first request must be connect")),
        }
    }

    pub(super) fn see(&mut self, sight: Sight<'_>) {
        self.now = sight.now;
        self.boundary = sight.boundary;
        (self.fresh, self.fresh_id) = sight.fresh;
    }

    /// The time at which what follows is told.
    pub fn clock(&mut self, now: Millis) {
        self.now = now;
    }

    /// When something has to be told next.
    #[must_use]
    pub fn due(&self) -> Option<Millis> {
        let ticks = self.clients.values().filter(|client| client.ip.is_some());
        let ticks = ticks.map(|client| client.told.plus(TICK_MS));
        let deltas = self.live.values().filter_map(Live::due);
        let devices = self.gate.as_ref().and_then(|gate| gate.devices.due());
        let timed = ticks.chain(deltas).chain(devices).chain(self.changes_due());
        timed.chain(self.lines_due()).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Millis) {
        self.now = now;
        self.flush_due();
        self.tell_due_changes();
        self.expire_devices();
        let late = |client: &Client| client.ip.is_some() && client.told.plus(TICK_MS) <= now;
        let late: Vec<Conn> =
            self.clients.iter().filter(|(_, c)| late(c)).map(|(conn, _)| *conn).collect();
        if late.is_empty() {
            return;
        }
        let head = event_head("tick", &json!({ "ts": now }), None);
        for conn in late {
            self.give_event(conn, &head, false);
        }
    }

    /// The process is about to end.
    pub fn shutdown(&mut self, reason: &str) {
        self.draining = true;
        self.tell_changes();
        self.log(Level::Info, "gateway", format!("stops: {reason}"));
        let payload = json!({ "reason": reason });
        self.broadcast("shutdown", &payload, &Audience::All);
        let sockets = self.clients.iter().filter(|(_, client)| client.ip.is_some());
        for conn in sockets.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.shut(conn, 1012, "service restart");
        }
    }

    pub(super) fn respond(&mut self, conn: Conn, id: &str, result: Result<Value, Fault>) {
        let Some(result) = self.not_http(conn, id, result) else { return };
        let frame = Frame::whole(&answer(id, result));
        self.deliver(conn, frame, false);
    }

    /// Tells everybody who is to be told, in one encoding.
    pub(super) fn broadcast(&mut self, name: &str, payload: &Value, to: &Audience<'_>) {
        let fits = |(conn, client): (&Conn, &Client)| {
            (hears(name, client.scopes) && to.has(client)).then_some(*conn)
        };
        let conns: Vec<Conn> = self.clients.iter().filter_map(fits).collect();
        if conns.is_empty() {
            return;
        }
        let head = event_head(name, payload, self.versions(name));
        let droppable = droppable(name, payload);
        for conn in conns {
            self.give_event(conn, &head, droppable);
        }
    }

    fn versions(&self, name: &str) -> Option<Value> {
        let stated = matches!(name, "presence" | "health");
        stated.then(|| json!({"presence": self.presence_version, "health": 1}))
    }

    pub(super) fn give_event(&mut self, conn: Conn, head: &Arc<[u8]>, droppable: bool) {
        let Some(client) = self.clients.get_mut(&conn) else { return };
        client.seq += 1;
        client.told = self.now;
        let frame = Frame::event(head, client.seq);
        self.deliver(conn, frame, droppable);
    }

    /// A number for a question.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Asks the store; what follows is done with its answer.
    pub(super) fn ask(
        &mut self,
        conn: Conn,
        id: String,
        query: crate::records::Query,
        after: After,
    ) {
        let ticket = self.ticket();
        self.asked.insert(ticket, (conn, id, after));
        self.out.push(Do::Ask(ticket, query));
    }
}

/// To whom an event goes, beside the scope that it needs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Audience<'a> {
    /// Everybody.
    All,
    /// Whoever may follow this conversation's run: all, but for those who want only what they have
    /// subscribed to.
    Run(&'a Key),
    /// Those who follow changes of sessions.
    Subscribed,
    /// Those, and those who follow this conversation.
    Session(&'a Key),
}

impl Audience<'_> {
    fn has(self, client: &Client) -> bool {
        match self {
            Audience::All => true,
            Audience::Run(key) => {
                !client.caps.contains("session-scoped-events") || client.keys.contains(key)
            }
            Audience::Subscribed => client.subscribed,
            Audience::Session(key) => client.subscribed || client.keys.contains(key),
        }
    }
}
