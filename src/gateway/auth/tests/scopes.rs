//! H26 to H29: what covers what, and what methods and events need.

use super::*;
use std::collections::BTreeMap;

const METHODS: &str = include_str!("../../../../spec/methods.tsv");
const EVENTS: &str = include_str!("../../../../spec/events.tsv");

fn table(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split('\t').collect()).collect()
}

fn only(scope: &str) -> Scopes {
    Scopes::from_words([scope])
}

const NAMES: [&str; 10] = [
    "operator.admin",
    "operator.read",
    "operator.write",
    "operator.sessions.read",
    "operator.sessions.write",
    "operator.approvals",
    "operator.questions",
    "operator.pairing",
    "operator.talk",
    "operator.talk.secrets",
];

/// Which single scopes let a call through.
fn lets(method: &str, params: &Value) -> Vec<&'static str> {
    let map = params.as_object().unwrap();
    NAMES.into_iter().filter(|name| permit(method, map, only(name)).is_ok()).collect()
}

/// What single scopes cover a scope, by the page.
fn covering(scope: &str) -> Vec<&'static str> {
    let by: &[&str] = match scope {
        "operator.read" | "operator.talk" => &["operator.write"],
        "operator.sessions.write" => &["operator.write"],
        "operator.sessions.read" => &["operator.read", "operator.write", "operator.sessions.write"],
        _ => &[],
    };
    NAMES.into_iter().filter(|n| *n == "operator.admin" || *n == scope || by.contains(n)).collect()
}

/// H26: names, and what covers what.
#[test]
fn scopes_cover_each_other() {
    for name in NAMES {
        let scope = Scope::from_word(name).unwrap();
        assert_eq!(scope.word(), name);
        let cover: Vec<&str> = NAMES.into_iter().filter(|by| only(by).covers(scope)).collect();
        assert_eq!(cover, covering(name), "{name}");
    }
    let all = Scopes::from_words(NAMES);
    assert_eq!(all.words(), NAMES);
    assert!(only("operator.admin").cover(all) && !only("operator.write").cover(all));
    assert_eq!(Scopes::from_words(["operator.root", "", "read"]), Scopes::default());
    assert!(Scopes::default().cover(Scopes::default()));
}

/// H27: every method of the table needs what the table says, and what is not there needs admin.
#[test]
fn methods_need_what_the_table_says() {
    let rows = table(METHODS);
    assert_eq!(rows.len(), 482);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows {
        let (method, scope) = (row[0], row[1]);
        *counts.entry(scope.to_owned()).or_default() += 1;
        let free = ["health", "device.scopes.requestUpgrade", "device.scopes.waitUpgrade"];
        let got = lets(method, &json!({}));
        match scope {
            "dynamic" => assert!(!got.is_empty(), "{method}"),
            "node" => {
                let all = Scopes::from_words(NAMES);
                let fault = permit(method, &Default::default(), all).unwrap_err();
                assert_eq!(fault.message, "unauthorized role: operator");
                assert_eq!(fault.code, "INVALID_REQUEST");
            }
            _ if free.contains(&method) => {
                assert!(permit(method, &Default::default(), Scopes::default()).is_ok());
            }
            _ => {
                let mut want = covering(scope);
                let sessions = ["operator.sessions.read", "operator.sessions.write"];
                for also in sessions.into_iter().filter(|_| opened(method, scope)) {
                    let reads = scope == "operator.read" || also.ends_with("write");
                    if reads && !want.contains(&also) {
                        want.push(also);
                    }
                }
                want.sort_by_key(|name| NAMES.iter().position(|n| n == name));
                assert_eq!(got, want, "{method}");
            }
        }
    }
    let wanted = [("operator.read", 162), ("operator.admin", 148), ("operator.write", 95)];
    for (scope, count) in wanted {
        assert_eq!(counts[scope], count, "{scope}");
    }
    assert_eq!(lets("no.such.method", &json!({})), ["operator.admin"]);
    assert_eq!(lets("", &json!({})), ["operator.admin"]);
    assert_eq!(lets("chat.send chat.abort", &json!({})), ["operator.admin"]);
}

/// Methods that are open to scopes on sessions.
fn opened(method: &str, scope: &str) -> bool {
    let read = [
        "sessions.list",
        "sessions.subscribe",
        "sessions.messages.subscribe",
        "sessions.messages.unsubscribe",
        "sessions.viewers.set",
        "sessions.preview",
        "sessions.describe",
        "sessions.branches.list",
        "sessions.get",
        "sessions.resolve",
        "sessions.search",
        "sessions.files.list",
        "sessions.files.get",
        "sessions.setInvolvement",
        "chat.history",
        "chat.startup",
        "chat.metadata",
        "chat.message.get",
        "session.members.list",
        "session.members.listEvidence",
    ];
    let write = [
        "chat.send",
        "chat.abort",
        "sessions.fork",
        "sessions.recover",
        "sessions.send",
        "sessions.steer",
        "sessions.abort",
        "sessions.goal.update",
        "sessions.goal.clear",
    ];
    match scope {
        "operator.read" => read.contains(&method),
        "operator.write" => write.contains(&method),
        _ => false,
    }
}

/// H28: where the parameters decide.
#[test]
fn parameters_decide() {
    const ADMIN: &[&str] = &["operator.admin"];
    const WRITE: &[&str] = &["operator.admin", "operator.write"];
    const SESSIONS: &[&str] = &["operator.admin", "operator.write", "operator.sessions.write"];
    const READ: &[&str] = &["operator.admin", "operator.read", "operator.write"];
    let cases = [
        ("agent", json!({"message": "hi /new"}), WRITE),
        ("agent", json!({"message": "/newer"}), WRITE),
        ("agent", json!({"message": " /NEW and then"}), ADMIN),
        ("agent", json!({"message": "/reset"}), ADMIN),
        ("sessions.patch", json!({"key": "k", "label": "x", "pinned": true}), SESSIONS),
        ("sessions.patch", json!({"key": "k", "permissionMode": "plan"}), SESSIONS),
        ("sessions.patch", json!({"key": "k", "permissionMode": "full"}), ADMIN),
        ("sessions.patch", json!({"key": "k", "sandboxMode": "off"}), ADMIN),
        ("sessions.patch", json!({"key": "k", "verboseLevel": null}), ADMIN),
        (
            "sessions.patchMany",
            json!({"targets": [{"key": "k"}], "patch": {"icon": "x"}}),
            SESSIONS,
        ),
        ("sessions.patchMany", json!({"targets": [], "patch": {"execHost": "x"}}), ADMIN),
        ("sessions.patchMany", json!({"patch": {"permissionMode": "full"}}), ADMIN),
        ("sessions.patchMany", json!({"targets": [{"execHost": "x"}], "patch": {}}), ADMIN),
        ("sessions.patchMany", json!({"patch": []}), ADMIN),
        ("sessions.create", json!({"key": "agent:main:x"}), SESSIONS),
        ("sessions.create", json!({"incognito": false}), SESSIONS),
        ("sessions.create", json!({"incognito": true}), ADMIN),
        ("sessions.create", json!({"key": "agent:main:dashboard:incognito-1"}), ADMIN),
        ("sessions.create", json!({"execNode": "n"}), ADMIN),
        ("sessions.create", json!({"toolOverrides": {}}), ADMIN),
        ("sessions.create", json!({"permissionMode": "full"}), ADMIN),
        ("sessions.delete", json!({"key": "k"}), ADMIN),
        ("sessions.delete", json!({"key": "k", "archivedOnly": true}), SESSIONS),
        ("sessions.delete", json!({"archivedOnly": true, "emitLifecycleHooks": false}), ADMIN),
        ("sessions.dispatch", json!({"key": "k"}), ADMIN),
        ("sessions.dispatch", json!({"deviceId": "d"}), WRITE),
        ("sessions.dispatch", json!({"autoDevice": true}), WRITE),
        ("sessions.move", json!({"target": {"kind": "profile"}}), ADMIN),
        ("sessions.move", json!({"target": {"kind": "device"}}), WRITE),
        ("talk.config", json!({}), READ),
        ("talk.config", json!({"includeSecrets": true}), ADMIN),
        ("environments.list", json!({}), READ),
        ("environments.list", json!({"runtimeId": "r"}), WRITE),
        ("channels.pairing.approve", json!({}), &["operator.admin", "operator.pairing"]),
        ("channels.pairing.approve", json!({"bootstrapCommandOwner": true}), ADMIN),
        ("fs.listDir", json!({}), WRITE),
        ("fs.listDir", json!({"nodeId": "n"}), ADMIN),
        ("node.invoke", json!({}), ADMIN),
        ("plugins.sessionAction", json!({}), WRITE),
    ];
    for (method, params, want) in cases {
        assert_eq!(lets(method, &params), want, "{method} {params}");
    }
    let both = Scopes::from_words(["operator.read", "operator.talk.secrets"]);
    let secrets = json!({"includeSecrets": true});
    assert!(permit("talk.config", secrets.as_object().unwrap(), both).is_ok());
}

/// H27: what is missing is said by name.
#[test]
fn a_missing_scope_is_named() {
    let fault = permit("chat.send", &Default::default(), only("operator.read")).unwrap_err();
    assert_eq!(
        (fault.code, fault.message.as_str()),
        ("FORBIDDEN", "missing scope: operator.write")
    );
    let details = fault.details.unwrap();
    let want = json!({"code": "MISSING_SCOPE", "missingScope": "operator.write",
        "requiredScopes": ["operator.write"]});
    assert_eq!(details, want);
    let none = permit("no.such", &Default::default(), only("operator.write")).unwrap_err();
    assert_eq!(none.message, "missing scope: operator.admin");
}

/// H29: who hears what, and what may be left out.
#[test]
fn events_go_to_whom_the_table_says() {
    for row in table(EVENTS) {
        let (event, scopes, droppable) = (row[0], row[1], row[2]);
        let heard: Vec<&str> = NAMES.into_iter().filter(|n| hears(event, only(n))).collect();
        match scopes {
            "targeted" => assert!(heard.is_empty(), "{event}"),
            "any" => assert!(hears(event, Scopes::default()), "{event}"),
            _ => {
                let by = |n: &&str| scopes.split(' ').any(|scope| covering(scope).contains(n));
                let want: Vec<&str> = NAMES.into_iter().filter(by).collect();
                assert_eq!(heard, want, "{event}");
            }
        }
        let state = |state: &str| super::droppable(event, &json!({ "state": state }));
        assert_eq!(state("delta"), droppable != "no", "{event}");
        assert_eq!(state("final"), droppable == "yes", "{event}");
    }
    assert!(hears("plugin.x", only("operator.write")) && !hears("plugin.x", only("operator.read")));
    assert!(!hears("made.up", only("operator.admin")) && !hears("", only("operator.admin")));
}
