use super::*;
use crate::base::Rng;

fn key(text: &str) -> SessionKey {
    SessionKey::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

fn fault(text: &str) -> KeyFault {
    SessionKey::parse(text).unwrap_err().fault
}

/// K1, K2: what is read, and what is refused by name.
#[test]
fn keys_are_read_or_refused() {
    let read = key("agent:Main:Discord:group:42");
    assert_eq!((read.agent(), read.as_str()), ("main", "agent:main:discord:group:42"));
    assert_eq!(read.rest(), "discord:group:42");
    assert_eq!(key("work").as_str(), "agent:main:work");
    assert_eq!(key(" AGENT:x:Y ").as_str(), "agent:x:y");
    let long = "x".repeat(KEY_BYTES_MAX);
    let bad = [
        ("", KeyFault::Empty),
        (" \n", KeyFault::Empty),
        (":x", KeyFault::Colon),
        ("agent:", KeyFault::Rest),
        ("agent:main", KeyFault::Rest),
        ("agent:main:", KeyFault::Rest),
        ("agent:main::x", KeyFault::Rest),
        ("agent::x", KeyFault::Agent),
        ("agent:a/b:x", KeyFault::Agent),
        ("agent:_a:x", KeyFault::Agent),
        ("agent:../../etc:x", KeyFault::Agent),
        ("a b", KeyFault::Blank),
        ("agent:main:a\u{0}b", KeyFault::Blank),
        ("agent:main:a\u{2003}b", KeyFault::Blank),
        (&long, KeyFault::Long),
        (&long[..KEY_BYTES_MAX - 5], KeyFault::Long),
    ];
    for (text, why) in bad {
        assert_eq!(fault(text), why, "{text:?}");
    }
    let error = SessionKey::parse(&"y".repeat(100_000)).unwrap_err().to_string();
    assert!(error.len() < 200 && error.contains("is not a session key"), "{error}");
}

/// K2: `main` alone is the default agent's, whoever that is; a full key never is.
#[test]
fn bare_names_belong_to_the_default_agent() {
    assert_eq!(SessionKey::parse_for("main", "ops").unwrap().as_str(), "agent:ops:main");
    assert_eq!(SessionKey::parse_for("agent:b:main", "ops").unwrap().agent(), "b");
    assert!(SessionKey::parse_for("agent:b", "ops").is_err());
    assert_eq!(SessionKey::parse_for("x", "a:b").unwrap_err().fault, KeyFault::Agent);
}

/// K3: case is kept where it tells groups apart, and nowhere else.
#[test]
fn case_of_signal_and_matrix_groups_is_kept() {
    let same = [
        ("Agent:A:Signal:Group:AbC/d+=", "agent:a:signal:group:AbC/d+="),
        ("signal:group:AbC:Thread:X", "agent:main:signal:group:AbC:thread:x"),
        ("signal:DIRECT:+49AbC", "agent:main:signal:direct:+49abc"),
        ("signal:Room:AbC", "agent:main:signal:room:abc"),
        ("MATRIX:Channel:!AbC:Host", "agent:main:matrix:channel:!AbC:Host"),
        ("matrix:room:!A:h:thread:$eV", "agent:main:matrix:room:!A:h:thread:$eV"),
        ("matrix:direct:@Ab:h", "agent:main:matrix:direct:@ab:h"),
        ("x:matrix:room:!A", "agent:main:x:matrix:room:!a"),
    ];
    for (text, read) in same {
        assert_eq!(key(text).as_str(), read);
        assert_eq!(key(read).as_str(), read);
    }
}

/// K4: the kinds.
#[test]
fn kinds_are_told_apart() {
    let direct = |channel, account, peer| Kind::Direct { channel, account, peer };
    let group = |channel, kind, peer| Kind::Group { channel, kind, peer };
    let kinds = [
        ("main", Kind::Main),
        ("main:thread:5", Kind::Main),
        ("subagent:u", Kind::Subagent { depth: 1 }),
        ("subagent:u:subagent:v", Kind::Subagent { depth: 2 }),
        ("subagent", Kind::Other),
        ("subagent:", Kind::Other),
        ("cron:j", Kind::Cron { job: "j", run: None }),
        ("cron:j:run:r", Kind::Cron { job: "j", run: Some("r") }),
        ("cron:j:run:", Kind::Cron { job: "j:run:", run: None }),
        ("hook:u", Kind::Hook),
        ("acp:x:y", Kind::Acp),
        ("dashboard:u", Kind::Dashboard),
        ("explicit", Kind::Explicit),
        ("explicit:x", Kind::Explicit),
        ("direct:p", direct(None, None, "p")),
        ("telegram:direct:5", direct(Some("telegram"), None, "5")),
        ("telegram:home:direct:5", direct(Some("telegram"), Some("home"), "5")),
        ("discord:channel:7:thread:8", group("discord", PeerKind::Channel, "7")),
        ("matrix:room:!A:h", group("matrix", PeerKind::Room, "!A:h")),
        ("slack:group:", Kind::Other),
        ("work", Kind::Other),
        ("a:b", Kind::Other),
        ("a:b:c", Kind::Other),
    ];
    for (text, kind) in kinds {
        assert_eq!(key(text).kind(), kind, "{text}");
    }
    assert_eq!(key("subagent:u:subagent:v").subagent_depth(), 2);
    assert_eq!(key("telegram:direct:a:subagent:b").subagent_depth(), 0);
    assert!(key("Home:thread:1").is_main("home") && !key("main").is_main("home"));
}

/// K5: the last `:thread:` is the suffix.
#[test]
fn threads_are_suffixes() {
    let deep = key("discord:channel:1:thread:2:thread:3");
    assert_eq!(deep.thread(), Some("3"));
    assert_eq!(deep.without_thread().as_str(), "agent:main:discord:channel:1:thread:2");
    for none in ["main", "thread:x", "main:thread:", "thread"] {
        assert_eq!(key(none).thread(), None, "{none}");
        assert_eq!(key(none).without_thread(), key(none));
    }
}

/// K7, K9, K10: the identity for prompts, what leaves no trace, the lane.
#[test]
fn stable_incognito_and_lane() {
    assert_eq!(key("cron:j:run:r").stable(), key("cron:j"));
    assert_eq!(key("cron:j").stable(), key("cron:j"));
    assert_eq!(key("hook:j:run:r").stable(), key("hook:j:run:r"));
    for yes in [
        "dashboard:incognito-1",
        "subagent:incognito-1",
        "internal-session-effects:incognito-x",
        "subagent:incognito-1:subagent:2",
        "subagent:1:subagent:incognito-2",
    ] {
        assert!(key(yes).incognito(), "{yes}");
    }
    for no in ["incognito-1", "dashboard:x:incognito-1", "telegram:direct:incognito-1", "main"] {
        assert!(!key(no).incognito(), "{no}");
    }
    assert_eq!(key("main").to_lane(), "session:agent:main:main");
    assert_eq!((lane(""), lane("session:x")), ("session:main".into(), "session:x".into()));
}

/// K8: sentinels are values of their own, and no conversations.
#[test]
fn sentinels_name_no_conversation() {
    assert_eq!(KeyRef::parse("Global", "main"), Ok(KeyRef::Sentinel(Sentinel::Global)));
    for word in ["global", "unknown", " UNKNOWN "] {
        assert_eq!(fault(word), KeyFault::Sentinel);
        let read = KeyRef::parse(word, "main").unwrap();
        assert_eq!(read.conversation().unwrap_err().fault, KeyFault::Sentinel);
    }
    assert_eq!(key("agent:main:global").kind(), Kind::Other);
    assert_eq!(KeyRef::parse("x", "a").unwrap().conversation(), Ok(key("agent:a:x")));
}

/// K1: any text becomes an agent id that a key can carry.
#[test]
fn agent_ids_are_made() {
    for (text, id) in [
        ("Main", "main"),
        ("", "main"),
        ("--", "main"),
        ("__", "main"),
        (" My Agent! ", "my-agent"),
        ("a:b/../c", "a-b-c"),
        ("_x_", "x_"),
        ("\u{212a}elvin", "elvin"),
    ] {
        assert_eq!(agent_id(text), id, "{text:?}");
    }
    let mut rng = Rng(7);
    for _ in 0..20_000 {
        let id = agent_id(&noise(&mut rng));
        assert!(is_agent(&id) && agent_id(&id) == id, "{id}");
    }
    assert_eq!(agent_id(&"ab".repeat(99)).len(), AGENT_CHARS_MAX);
}

const PIECES: [&str; 44] = [
    ":",
    ":",
    "::",
    "agent:",
    "Agent:main:",
    "main",
    "thread",
    ":thread:",
    "subagent:",
    "cron:",
    ":run:",
    "direct",
    "group",
    "channel",
    "room",
    "matrix",
    "Matrix:room:",
    "signal:group:",
    "telegram",
    "!a:h.org",
    "@b:thread",
    "@b:subagent:5",
    "%",
    "%3a",
    "%25",
    "%62",
    "/",
    "..",
    " ",
    "\u{0}",
    "\n",
    "\u{7f}",
    "\u{200b}",
    "\u{202e}",
    "İ",
    "Σ",
    "ς",
    "K",
    "é",
    "É",
    "日本",
    "x",
    "unknown",
    "default",
];

fn noise(rng: &mut Rng) -> String {
    let pick = |rng: &mut Rng, n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    let count = pick(rng, 7);
    (0..count).map(|_| PIECES[pick(rng, PIECES.len())]).collect()
}

/// K1, K2: reading what is shown gives the same; nothing panics; a full key keeps its agent.
#[test]
fn shown_keys_are_read_again() {
    let mut rng = Rng(1);
    let mut read = 0;
    for _ in 0..100_000 {
        let text = noise(&mut rng);
        let Ok(key) = SessionKey::parse(&text) else { continue };
        read += 1;
        assert_eq!(SessionKey::parse(&key.to_string()), Ok(key.clone()), "{text:?}");
        let full = text.trim().to_ascii_lowercase();
        let agent = full.strip_prefix("agent:").and_then(|r| r.split(':').next());
        assert_eq!(key.agent(), agent.unwrap_or(MAIN), "{text:?}");
        let _ = (key.kind(), key.stable(), key.incognito(), key.to_lane());
        let base = key.without_thread();
        let again = key.thread().map(|t| format!("{base}:thread:{t}"));
        assert_eq!(again.unwrap_or(base.to_string()), key.as_str());
    }
    assert!(read > 20_000, "{read}");
}

fn origin<'a>(channel: &'a str, peer: &'a str, kind: PeerKind) -> Origin<'a> {
    Origin { channel, account: "", peer, kind, thread: None }
}

fn scopes(dm: DmScope) -> Scopes {
    Scopes { dm, ..Scopes::default() }
}

fn made(origin: &Origin<'_>, scopes: &Scopes) -> String {
    key_for("main", origin, scopes, "").unwrap().as_str()["agent:main:".len()..].to_owned()
}

/// K11: what each scope keeps apart.
#[test]
fn scopes_make_keys() {
    let from = Origin { account: "home", thread: Some("9"), ..origin("Telegram", "Bo", DIRECT) };
    for (dm, text) in [
        (DmScope::Main, "main:thread:9"),
        (DmScope::PerPeer, "direct:bo:thread:9"),
        (DmScope::PerChannelPeer, "telegram:direct:bo:thread:9"),
        (DmScope::PerAccountChannelPeer, "telegram:home:direct:bo:thread:9"),
    ] {
        assert_eq!(made(&from, &scopes(dm)), text);
        assert_eq!(DmScope::from_word(dm.word()), Some(dm));
    }
    let apart = scopes(DmScope::PerAccountChannelPeer);
    assert_eq!(made(&origin("", " ", DIRECT), &apart), "unknown:default:direct:unknown");
    assert_eq!(made(&origin("", "unknown", DIRECT), &apart), "unknown:default:direct:unknown%");
    let room = origin("discord", "7", PeerKind::Channel);
    assert_eq!(made(&room, &Scopes::default()), "discord:channel:7");
    let one = Scopes { group: GroupScope::Main, ..Scopes::default() };
    assert_eq!(key_for("a", &room, &one, "Home").unwrap().as_str(), "agent:a:home");
    assert_eq!(GroupScope::from_word("per-group"), Some(GroupScope::PerGroup));
    assert_eq!(DmScope::from_word("Main"), None);
    let error = |agent, main| key_for(agent, &room, &one, main).unwrap_err().fault;
    assert_eq!(error("a:b", ""), KeyFault::Agent);
    assert_eq!(error("a", "x:thread:y"), KeyFault::MainKey);
}

const DIRECT: PeerKind = PeerKind::Direct;

/// K6: a peer's id stays one segment; a Matrix id keeps its own colons.
#[test]
fn peers_are_spelled() {
    let apart = scopes(DmScope::PerChannelPeer);
    for (channel, peer, spelled) in [
        ("irc", "a:b", "a%3ab"),
        ("irc", "a%3ab", "a%253ab"),
        ("irc", "x:thread:1", "x%3athread%3a1"),
        ("irc", " bob\n", "%20bob%0a"),
        ("irc", "\u{212a}", "%e2%84%aa"),
        ("irc", "\u{200b}x", "%e2%80%8bx"),
        ("irc", "josé/日本", "josé/日本"),
        ("irc", "@user:server", "@user%3aserver"),
        ("matrix", "@User:server", "@user:server"),
        ("Matrix", "@u:host.org:8448", "@u:host.org:8448"),
        ("matrix", "@u:thread:5", "@u%3athread%3a5"),
        ("matrix", "@u:Subagent", "@u%3asubagent"),
        ("matrix", "@u:h:1:2", "@u%3ah%3a1%3a2"),
        ("matrix", "@:h", "@%3ah"),
        ("matrix", "x:h", "x%3ah"),
    ] {
        let text = made(&origin(channel, peer, DIRECT), &apart);
        assert_eq!(text, format!("{}:direct:{spelled}", channel.to_lowercase()));
    }
    let room = made(&origin("matrix", "!RooM:h", PeerKind::Room), &apart);
    assert_eq!(room, "matrix:room:!RooM:h");
    let group = made(&origin("signal", "Ab/C=", PeerKind::Group), &apart);
    assert_eq!(group, "signal:group:Ab/C=");
    let huge = "p:".repeat(5_000);
    let error = key_for("main", &origin("irc", &huge, DIRECT), &apart, "").unwrap_err();
    assert_eq!(error.fault, KeyFault::Long);
    let forged = made(&origin("direct", "direct:bob", DIRECT), &apart);
    assert_eq!(forged, "direct%:direct:direct%3abob");
}

fn links(list: &[(&str, &[&str])]) -> Result<IdentityLinks, LinkError> {
    let owned = |p: &&[&str]| p.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    IdentityLinks::new(list.iter().map(|(name, peers)| ((*name).to_owned(), owned(peers))))
}

/// K12: linked peers are one person; nobody calls himself one.
#[test]
fn identities_are_linked() {
    let links_made = links(&[("Anna", &["telegram:12", "@anna:h.org"]), ("bob", &["77"])]).unwrap();
    let apart = Scopes { dm: DmScope::PerPeer, links: links_made, ..Scopes::default() };
    for (channel, peer, text) in [
        ("telegram", "12", "direct:anna"),
        ("Telegram", "12", "direct:anna"),
        ("irc", "12", "direct:12"),
        ("matrix", "@Anna:h.org", "direct:anna"),
        ("irc", "telegram:12", "direct:telegram%3a12"),
        ("irc", "77", "direct:bob"),
        ("irc", "bob", "direct:bob%"),
        ("irc", "Bob", "direct:bob%"),
        ("irc", "bob%", "direct:bob%25"),
    ] {
        assert_eq!(made(&origin(channel, peer, DIRECT), &apart), text, "{channel} {peer}");
    }
    let together = Scopes { dm: DmScope::Main, ..apart };
    assert_eq!(made(&origin("irc", "77", DIRECT), &together), "main");
    assert!(matches!(links(&[("a", &["1"]), ("b", &["1"])]), Err(LinkError::Twice { .. })));
    assert!(matches!(links(&[("a", &["irc:"])]), Err(LinkError::Empty(_))));
    assert!(matches!(links(&[(" ", &["1"])]), Err(LinkError::Empty(_))));
    assert!(links(&[("a", &["1", "1"])]).is_ok());
}

/// What makes an origin another one: where case is kept all of it, elsewhere all but ASCII case.
fn identity(o: &Origin<'_>, dm: DmScope) -> Vec<String> {
    let low = |t: &str, missing: &str| {
        let blank = t.trim().is_empty();
        if blank { format!("<{missing}>") } else { t.to_ascii_lowercase() }
    };
    let (channel, peer) = (low(o.channel, "none"), low(o.peer, "none"));
    let account = low(o.account, "default").replace("<default>", "default");
    let thread = o.thread.filter(|t| !t.trim().is_empty()).map(str::to_ascii_lowercase);
    let thread = thread.unwrap_or_else(|| "<none>".into());
    let mut parts = vec![o.kind.word().to_owned(), thread];
    if o.kind != DIRECT {
        // Kept case is held by a test of its own; here one spelling may be two keys, never less.
        parts.extend([channel, peer]);
        return parts;
    }
    match dm {
        DmScope::Main => {}
        DmScope::PerPeer => parts.push(peer),
        DmScope::PerChannelPeer => parts.extend([channel, peer]),
        DmScope::PerAccountChannelPeer => parts.extend([channel, account, peer]),
    }
    parts
}

/// K6, K11: whatever peers call themselves, two of them share a key only if they are the same,
/// the key belongs to the agent, and it has the parts that it was made of.
#[test]
fn hostile_peers_forge_nothing() {
    let mut rng = Rng(3);
    for dm in DmScope::ALL {
        let scopes = scopes(dm);
        let mut seen: std::collections::BTreeMap<String, Vec<String>> = Default::default();
        for _ in 0..40_000 {
            let texts: [String; 4] = std::array::from_fn(|_| noise(&mut rng));
            let channel = ["irc", "matrix", "signal", &texts[3]][(rng.below(4)) as usize];
            let from = Origin {
                channel,
                account: if rng.below(2) == 0 { "" } else { &texts[0] },
                peer: &texts[1],
                kind: PeerKind::ALL[rng.below(4) as usize],
                thread: (rng.below(2) == 0).then_some(texts[2].as_str()),
            };
            let key = key_for("ops", &from, &scopes, "").unwrap();
            assert_eq!(key.agent(), "ops");
            assert_eq!(SessionKey::parse(key.as_str()), Ok(key.clone()));
            let threaded = from.thread.is_some_and(|t| !t.trim().is_empty());
            assert_eq!(key.thread().is_some(), threaded, "{from:?} {key}");
            assert_eq!(key.subagent_depth(), 0, "{from:?} {key}");
            let right = match key.kind() {
                Kind::Main => from.kind == DIRECT && dm == DmScope::Main,
                Kind::Direct { channel, account, .. } => {
                    let parts = usize::from(channel.is_some()) + usize::from(account.is_some());
                    from.kind == DIRECT && parts + 1 == dm as usize
                }
                Kind::Group { kind, .. } => from.kind == kind,
                other => panic!("{from:?} became {other:?}"),
            };
            assert!(right, "{from:?} {key}");
            let is = identity(&from, dm);
            if let Some(before) = seen.insert(key.to_string(), is.clone()) {
                assert_eq!(before, is, "{key}");
            }
        }
        assert!(seen.len() > 5_000, "{}", seen.len());
    }
}
