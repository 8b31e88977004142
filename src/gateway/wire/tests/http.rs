//! Requests and answers.

use super::super::limits::{
    AHEAD_BYTES_MAX, BODY_BYTES_MAX, HEAD_BYTES_MAX, HEADERS_MAX, PAUSE_BYTES, TARGET_BYTES_MAX,
};
use super::super::{Method, Request};
use super::*;
use crate::base::Rng;
use std::sync::Arc;

fn get(headers: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: h\r\n{headers}\r\n").into_bytes()
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: h\r\n{headers}\r\n{body}").into_bytes()
}

fn chunked(body: &str) -> Vec<u8> {
    post("Transfer-Encoding: chunked\r\n", body)
}

/// The one request that bytes make, with its body.
fn request(bytes: &[u8]) -> Request {
    match events(bytes).pop() {
        Some(Event::Request(request)) => request,
        other => panic!("{:?}: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

fn status(bytes: &[u8]) -> u16 {
    refused(bytes).0.status()
}

/// H2, H6: what a request says.
#[test]
fn a_request_is_read() {
    let bytes = b"\r\nGET /a%20b/%C3%A9?q=%2F&x HTTP/1.1\r\nHost: Example:80\r\nX-A:  one \r\n\
        x-a:two\r\nEmpty:\r\n\r\n";
    let request = request(bytes);
    assert_eq!(request.method, Method::Get);
    assert_eq!(request.path, "/a b/\u{e9}");
    assert_eq!(request.query.as_deref(), Some("q=%2F&x"));
    assert_eq!(request.headers.get("host"), Some("Example:80"));
    assert_eq!(request.headers.all("x-a").collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(request.headers.get("empty"), Some(""));
    assert_eq!(request.headers.get("none"), None);
    assert!(request.body.is_empty() && request.keep_alive);
    for (name, method) in [
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("OPTIONS", Method::Options),
        ("PATCH", Method::Patch),
    ] {
        let bytes = format!("{name} / HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(self::request(bytes.as_bytes()).method, method);
    }
}

/// H2: lines, names and characters of a head.
#[test]
fn a_malformed_head_is_refused_where_it_is_wrong() {
    let at = |text: &str| match refused(text.as_bytes()).0 {
        Refused::LineBreak { at } | Refused::Control { at } | Refused::Folded { at } => at,
        other => panic!("{text:?}: {other:?}"),
    };
    assert_eq!(at("GET / HTTP/1.1\nHost: h\n\n"), 14);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\n"), 23);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\rX: y\r\n\r\n"), 24);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\r\r\n"), 24);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n"), 29);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\r\nX: a\u{7f}b\r\n"), 29);
    assert_eq!(at("\u{16}\u{3}\u{1}"), 0);
    assert_eq!(at("GET / HTTP/1.1\r\nHost: h\r\n folded\r\n"), 25);
    assert_eq!(at("GET / HTTP/1.1\r\n\tHost: h\r\n"), 16);
    for text in [
        "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n: y\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nname\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX(y): z\r\n\r\n",
        "GET  / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /  HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n",
        " GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET /\r\nHost: h\r\n\r\n",
        "GET / http/1.1\r\nHost: h\r\n\r\n",
        "G\u{e9}T / HTTP/1.1\r\nHost: h\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    ] {
        assert!(matches!(refused(text.as_bytes()).0, Refused::Syntax(_)), "{text:?}");
    }
    assert_eq!(refused(b"GET / HTTP/1.1\r\nHost: h\r\nX: \xff\r\n\r\n").0, Refused::Utf8);
    for version in ["HTTP/2.0", "HTTP/1.2", "HTTP/0.9"] {
        assert_eq!(status(format!("GET / {version}\r\nHost: h\r\n\r\n").as_bytes()), 505);
    }
    for method in ["TRACE", "CONNECT", "get", "BREW"] {
        assert_eq!(status(format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes()), 501);
    }
}

/// H2: the sizes of a head, to the byte.
#[test]
fn a_head_has_its_size() {
    let target = |n: usize| {
        let path = "a".repeat(n - 1);
        format!("GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes()
    };
    assert_eq!(request(&target(TARGET_BYTES_MAX)).path.len(), TARGET_BYTES_MAX);
    assert_eq!(refused(&target(TARGET_BYTES_MAX + 1)).0, Refused::TargetLong);
    assert_eq!(refused(&vec![b'a'; HEAD_BYTES_MAX]).0, Refused::TargetLong);
    let filled = |n: usize| get(&format!("X: {}\r\n", "a".repeat(n - get("X: \r\n").len())));
    assert_eq!(filled(HEAD_BYTES_MAX).len(), HEAD_BYTES_MAX);
    request(&filled(HEAD_BYTES_MAX));
    assert_eq!(refused(&filled(HEAD_BYTES_MAX + 1)).0, Refused::HeadLong);
    // With a head that never ends nothing more is kept than its limit.
    let mut peer = Peer::new();
    peer.feed(&filled(HEAD_BYTES_MAX)[..HEAD_BYTES_MAX - 1]);
    assert!(peer.wire.footprint() < 2 * HEAD_BYTES_MAX, "{}", peer.wire.footprint());
    let many = |n: usize| get(&"X: y\r\n".repeat(n - 1));
    request(&many(HEADERS_MAX));
    assert_eq!(refused(&many(HEADERS_MAX + 1)).0, Refused::HeadersMany);
}

/// H3: hosts and versions.
#[test]
fn there_is_one_host() {
    let with = |target: &str, headers: &str| {
        format!("GET {target} HTTP/1.1\r\n{headers}\r\n").into_bytes()
    };
    for headers in ["", "Host:\r\n", "Host: a b\r\n", "Host: a/b\r\n", "Host: u@h\r\n"] {
        assert!(matches!(refused(&with("/", headers)).0, Refused::Host(_)), "{headers:?}");
    }
    assert_eq!(refused(&with("/", "Host: a\r\nHost: a\r\n")).0, Refused::Repeated("host"));
    for host in ["localhost", "127.0.0.1:18789", "[::1]:80", "a_b-c.example.com."] {
        request(&with("/", &format!("Host: {host}\r\n")));
    }
    let absolute = request(&with("http://H:1/p?q", "Host: h:1\r\n"));
    assert_eq!((&*absolute.path, absolute.query.as_deref()), ("/p", Some("q")));
    assert_eq!(request(&with("https://h?q", "Host: h\r\n")).path, "/");
    for target in ["http://other/", "http://h:2/", "http:///", "http://u@h/"] {
        assert!(matches!(refused(&with(target, "Host: h\r\n")).0, Refused::Host(_)), "{target}");
    }
    let old = |headers: &str| format!("GET / HTTP/1.0\r\n{headers}\r\n").into_bytes();
    assert!(!request(&old("")).keep_alive);
    let mut peer = Peer::new();
    let twice = [old("Connection: keep-alive\r\n"), old("")].concat();
    assert!(matches!(peer.feed(&twice)[..], [Event::Request(_)]));
    assert!(peer.respond(&Response::new(200)).contains("Connection: close\r\n"));
    assert!(peer.poll().is_empty() && peer.wire.said_all());
}

/// H4: what decides comes once.
#[test]
fn headers_that_decide_come_once() {
    for name in ["Content-Length", "Transfer-Encoding", "Authorization", "Origin", "Expect"] {
        let twice = get(&format!("{name}: 0\r\nX: y\r\n{}: 0\r\n", name.to_uppercase()));
        assert!(matches!(refused(&twice).0, Refused::Repeated(_)), "{name}");
    }
    let differ = post("Content-Length: 1\r\nContent-Length: 2\r\n", "ab");
    assert_eq!(refused(&differ).0, Refused::Repeated("content-length"));
    assert_eq!(request(&get("Cookie: a\r\nCookie: b\r\n")).headers.all("cookie").count(), 2);
}

/// H5: lengths that can be understood in two ways.
#[test]
fn lengths_are_unambiguous() {
    for length in ["", "-1", "+1", "1,1", "0x1", "1 1", "1.0", "\u{661}"] {
        let bytes = post(&format!("Content-Length: {length}\r\n"), "a");
        assert!(matches!(refused(&bytes).0, Refused::Length(_)), "{length:?}");
    }
    let both = post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n");
    assert!(matches!(refused(&both).0, Refused::Length(_)));
    for coding in ["gzip", "chunked, chunked", "gzip, chunked", "identity", "xchunked", ""] {
        let bytes = post(&format!("Transfer-Encoding: {coding}\r\n"), "0\r\n\r\n");
        assert_eq!(refused(&bytes).0, Refused::Coding, "{coding}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert!(matches!(refused(old).0, Refused::Length(_)));
    assert_eq!(request(&post("Content-Length: 003\r\n", "abc")).body, b"abc");
    for length in ["26214401", "18446744073709551616", "99999999999999999999999"] {
        let bytes = post(&format!("Content-Length: {length}\r\n"), "");
        assert_eq!(refused(&bytes).0, Refused::BodyLong { max: BODY_BYTES_MAX }, "{length}");
    }
}

/// H5: chunks.
#[test]
fn chunks_are_joined_or_refused() {
    for (body, want) in [
        ("0\r\n\r\n", ""),
        ("3\r\nabc\r\n0\r\n\r\n", "abc"),
        ("0000000a;x=\"y\"\r\n0123456789\r\n1\r\nx\r\n0;end\r\n\r\n", "0123456789x"),
        ("2\r\n\r\n\r\n0\r\nTrailer: x\r\nOther:\r\n\r\n", "\r\n"),
        ("A\r\n0123456789\r\n00\r\n\r\n", "0123456789"),
    ] {
        assert_eq!(request(&chunked(body)).body, want.as_bytes(), "{body:?}");
    }
    for (body, at) in [
        ("\r\n", 0),
        ("x\r\n", 0),
        (";\r\n", 0),
        ("-1\r\n", 0),
        ("0x1\r\n", 1),
        ("1 \r\n", 1),
        ("1\n", 1),
        ("1\ra", 2),
        ("1;a\nb", 3),
        ("1;\0", 2),
        ("000000001\r\n", 8),
        ("fffffffff\r\n", 8),
        ("1\r\nab\r\n", 4),
        ("1\r\na\nb", 4),
        ("0\r\n\n", 3),
        ("0\r\n: x\r\n", 3),
        ("0\r\nname\r\n", 7),
        ("0\r\n folded\r\n", 3),
        ("0\r\na: b\0", 7),
        ("0\r\na: b\r\r", 8),
        ("0\r\n\r\r", 4),
    ] {
        match refused(&chunked(body)).0 {
            Refused::Chunk { at: found, .. } => assert_eq!(found, at, "{body:?}"),
            other => panic!("{body:?}: {other:?}"),
        }
    }
    let long = format!("1;{}\r\nx\r\n", "e".repeat(4_095));
    let refused_at = refused(&chunked(&format!("{long}1;ee"))).0;
    assert!(matches!(refused_at, Refused::Chunk { what: "too long extensions", .. }));
    let trailers = format!("0\r\n{}\r\n", "name: value\r\n".repeat(800));
    assert_eq!(refused(&chunked(&trailers)).0, Refused::TrailersLong);
    let sizes = chunked("ffffffff\r\n");
    assert_eq!(refused(&sizes).0, Refused::BodyLong { max: BODY_BYTES_MAX });
}

/// H6: paths.
#[test]
fn a_path_is_decoded_once_or_refused() {
    let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes();
    for (target, path) in [
        ("/", "/"),
        ("/%41b", "/Ab"),
        ("/%252e%252e", "/%2e%2e"),
        ("/a..b/.../.c", "/a..b/.../.c"),
        ("/%E6%BC%A2", "/\u{6f22}"),
        ("/?../%00", "/"),
        ("/sessions/agent%3amain%3amain/kill", "/sessions/agent:main:main/kill"),
    ] {
        assert_eq!(request(&ask(target)).path, path, "{target}");
    }
    for target in [
        "x",
        "*",
        "ftp://h/",
        "/#f",
        "/%",
        "/%4",
        "/%zz",
        "/%00",
        "/%1f",
        "/%7f",
        "/%c2%85",
        "/\\x",
        "/%5cx",
        "/a%2fb",
        "/a%2Fb",
        "/..",
        "/../x",
        "/a/./b",
        "/a/%2e%2E/b",
        "/a/.%2e",
        "/%ff",
        "/%ed%a0%80",
        "/\u{e9}",
    ] {
        assert!(matches!(refused(&ask(target)).0, Refused::Target(_)), "{target}");
    }
    assert_eq!(request(b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n").path, "*");
}

/// H7: what an upgrade must be.
#[test]
fn an_upgrade_is_checked() {
    let with = |from: &str, to: &str| heading().replace(from, to).into_bytes();
    let mut peer = Peer::new();
    assert!(matches!(peer.feed(heading().as_bytes())[..], [Event::Upgrade(_)]));
    assert!(peer.wire.accept(peer.now));
    let answer = peer.words();
    assert!(answer.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{answer}");
    // The example of RFC 6455, 1.3.
    assert!(answer.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
    for bytes in [
        with("GET", "POST"),
        with("HTTP/1.1", "HTTP/1.0"),
        with("Connection: keep-alive, Upgrade", "Connection: close"),
        with("Host: h", "Host: h\r\nContent-Length: 1"),
        with("Host: h", "Host: h\r\nTransfer-Encoding: chunked"),
        with("ZQ==", "ZQ="),
        with("dGhl", "d\u{24}hl"),
        with("dGhl", "AdGhl"),
        with("Sec-WebSocket-Key", "X"),
    ] {
        assert!(matches!(refused(&bytes).0, Refused::Upgrade(_)), "{bytes:?}");
    }
    for bytes in [with("Version: 13", "Version: 8"), with("Sec-WebSocket-Version", "X")] {
        let (why, answer) = refused(&bytes);
        assert_eq!(why, Refused::UpgradeVersion);
        assert!(answer.contains("Sec-WebSocket-Version: 13\r\n"), "{answer}");
    }
    // No extension is taken; other upgrades are not for us.
    let bytes = with("Host: h", "Host: h\r\nSec-WebSocket-Extensions: permessage-deflate");
    let mut play = Play::new();
    play.feed(&bytes);
    assert!(matches!(play.events[..], [Event::Upgrade(_)]));
    assert!(!String::from_utf8_lossy(&play.said).contains("deflate"));
    assert!(matches!(events(&with("websocket", "h2c"))[..], [Event::Request(_)]));
    assert!(matches!(events(&get("Content-Length: 0\r\n"))[..], [Event::Request(_)]));
}

/// H7: what follows an upgrade that is not accepted is no request.
#[test]
fn a_refused_upgrade_ends_the_connection() {
    let mut peer = Peer::new();
    let both = [heading().as_bytes(), &get("")].concat();
    assert!(matches!(peer.feed(&both)[..], [Event::Upgrade(_)]));
    let answer = peer.respond(&Response::new(503).header("Retry-After", "1"));
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"));
    assert!(answer.contains("Connection: close\r\n"), "{answer}");
    assert!(peer.poll().is_empty());
    assert!(!peer.wire.accept(peer.now) && peer.wire.said_all());
}

/// H8: the head comes first, and an answer to it saves the body.
#[test]
fn a_route_can_refuse_a_body_before_it_comes() {
    let bytes = post("Content-Length: 4\r\nExpect: 100-continue\r\n", "");
    let mut peer = Peer::new();
    peer.wire.feed(&bytes);
    assert!(matches!(peer.wire.poll(NOW), Some(Event::Head(_))));
    assert!(peer.take().is_empty(), "nothing is asked for before the caller has decided");
    assert!(peer.poll().is_empty());
    assert_eq!(peer.words(), "HTTP/1.1 100 Continue\r\n\r\n");
    assert!(matches!(&peer.feed(b"body")[..], [Event::Request(r)] if r.body == b"body"));

    let mut peer = Peer::new();
    peer.wire.feed(&post("Content-Length: 4\r\nExpect: 100-continue\r\n", "body"));
    assert!(matches!(peer.wire.poll(NOW), Some(Event::Head(_))));
    let answer = peer.respond(&Response::new(401));
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.contains("Connection: close\r\n"));
    assert!(peer.feed(b"body").is_empty());

    for body in ["Content-Length: 4\r\n", "Transfer-Encoding: chunked\r\n"] {
        let mut peer = Peer::new();
        peer.wire.feed(&post(body, "4\r\nbody"));
        assert!(matches!(peer.wire.poll(NOW), Some(Event::Head(_))));
        peer.wire.body_max(3);
        let broken = Event::Broken(Fault::Request(Refused::BodyLong { max: 3 }));
        assert_eq!(peer.poll(), [broken]);
        assert!(peer.words().starts_with("HTTP/1.1 413 "));
    }
    assert_eq!(refused(&post("Content-Length: 4\r\nExpect: x\r\n", "")).0, Refused::Expectation);
    assert!(matches!(events(&get("Expect: x\r\n"))[..], [Event::Request(_)]));
}

/// H9: one request at a time, and the next one waits.
#[test]
fn pipelined_requests_wait_for_their_turn() {
    let mut peer = Peer::new();
    let two = [get(""), post("Content-Length: 2\r\n", "ab"), get("Connection: close\r\n")].concat();
    assert!(matches!(peer.feed(&two)[..], [Event::Request(_)]));
    assert!(peer.poll().is_empty());
    let answer = peer.respond(&Response::new(200).header("X-A", "b").body(*b"hello"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello");
    assert!(!peer.wire.respond(NOW, &Response::new(200)), "it has its answer");
    assert!(matches!(peer.poll()[..], [Event::Head(_), Event::Request(_)]));
    assert_eq!(peer.respond(&Response::new(204)), "HTTP/1.1 204 No Content\r\n\r\n");
    assert!(matches!(&peer.poll()[..], [Event::Request(r)] if !r.keep_alive));
    assert!(peer.respond(&Response::new(304)).ends_with("\r\nConnection: close\r\n\r\n"));
    assert!(peer.wire.said_all());
}

/// H9, B191: what comes ahead is bounded.
#[test]
fn b191_nothing_is_read_far_ahead() {
    let mut peer = Peer::new();
    peer.feed(&get(""));
    let mut fed = 0;
    while peer.wire.wants_bytes() {
        fed += get("").len();
        assert!(peer.feed(&get("")).is_empty());
    }
    assert!(fed < AHEAD_BYTES_MAX + 64 && peer.wire.footprint() < 3 * AHEAD_BYTES_MAX);
    // The peer has gone: known at once, whatever waits.
    peer.wire.end_of_input();
    assert_eq!(peer.poll(), [Event::Ended]);
    peer.respond(&Response::new(200));
    assert!(matches!(peer.poll()[..], [Event::Request(_), Event::Ended]));
}

/// H9: HEAD, pieces, and the end of a connection as the end of a body.
#[test]
fn answers_are_framed() {
    let ask = |line: &str| {
        let mut peer = Peer::new();
        peer.feed(format!("{line}\r\nHost: h\r\n\r\n").as_bytes());
        peer
    };
    let mut peer = ask("HEAD / HTTP/1.1");
    let answer = peer.respond(&Response::new(200).body(*b"hello"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
    let pieces = |mut peer: Peer| {
        assert!(!peer.wire.chunk(NOW, b"x") && !peer.wire.end(NOW));
        assert!(peer.wire.begin(NOW, &Response::new(200)));
        assert!(!peer.wire.respond(NOW, &Response::new(200)));
        assert!(!peer.wire.begin(NOW, &Response::new(200)));
        for piece in [&b"0123456789"[..], b"", b"ab"] {
            assert!(peer.wire.chunk(NOW, piece));
        }
        assert!(peer.wire.end(NOW) && !peer.wire.end(NOW));
        peer
    };
    let mut peer = pieces(ask("GET / HTTP/1.1"));
    assert_eq!(
        peer.words(),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
         a\r\n0123456789\r\n2\r\nab\r\n0\r\n\r\n"
    );
    assert!(matches!(peer.feed(&get(""))[..], [Event::Request(_)]));
    let mut peer = pieces(ask("HEAD / HTTP/1.1"));
    assert_eq!(peer.words(), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut peer = pieces(ask("GET / HTTP/1.0"));
    assert_eq!(peer.words(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789ab");
    assert!(peer.wire.said_all());
}

/// H9: nobody writes a header into an answer.
#[test]
fn a_header_holds_no_other_header() {
    let mut peer = Peer::new();
    peer.feed(&get(""));
    let answer = peer.respond(&Response::new(302).header("Location", "/a\r\nX: y\r\n\r\nbody\0"));
    let want = "HTTP/1.1 302 Found\r\nLocation: /aX: ybody\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(answer, want);
}

/// H9, H16: shared bytes are queued as they are, partial writes go on where they stopped, and a
/// peer that does not read is not read.
#[test]
fn what_waits_is_written_in_order() {
    let body: Arc<[u8]> = vec![b'x'; PAUSE_BYTES + 1].into();
    let mut peer = Peer::new();
    peer.feed(&[get(""), get("")].concat());
    assert!(peer.wire.respond(NOW, &Response::new(200).body(Arc::clone(&body))));
    assert_eq!(Arc::strong_count(&body), 2);
    assert!(peer.wire.footprint() < 4_096, "{}", peer.wire.footprint());
    assert!(!peer.wire.wants_bytes() && peer.poll().is_empty());
    let all: Vec<u8> = peer.wire.out().flatten().copied().collect();
    let mut seen = Vec::new();
    let mut rng = Rng(7);
    while peer.wire.buffered() > 0 {
        let first: Vec<u8> = peer.wire.out().next().unwrap().to_vec();
        let n = 1 + rng.below(first.len().min(900_000) as u64) as usize;
        seen.extend_from_slice(&first[..n]);
        peer.wire.written(NOW, n);
    }
    assert_eq!(seen, all);
    assert_eq!(Arc::strong_count(&body), 1);
    assert!(peer.wire.wants_bytes());
    assert!(matches!(peer.poll()[..], [Event::Request(_)]));
}

/// H9: an end in the middle, and an end in order.
#[test]
fn the_end_of_input_is_told() {
    let ended = |bytes: &[u8]| {
        let mut peer = Peer::new();
        peer.feed(bytes);
        peer.wire.end_of_input();
        let events = peer.poll();
        assert!(!peer.wire.wants_bytes());
        (events, peer)
    };
    let cut = vec![Event::Broken(Fault::CutOff)];
    assert!(ended(b"").0.is_empty() && ended(b"").1.wire.done());
    assert_eq!(ended(b"GET /").0, cut);
    assert_eq!(ended(&post("Content-Length: 4\r\n", "ab")).0, cut);
    let (events, mut peer) = ended(&get(""));
    assert_eq!(events, [Event::Ended]);
    assert!(!peer.wire.done());
    peer.respond(&Response::new(200));
    assert!(peer.poll().is_empty() && peer.wire.done());
}

/// H1: the pieces in which bytes come change nothing; no bytes make it panic.
#[test]
fn cuts_and_mutations_change_nothing() {
    let parts: [&[u8]; 22] = [
        b"GET / HTTP/1.1\r\n",
        b"POST /a%20b?c HTTP/1.1\r\n",
        b"HEAD http://h/ HTTP/1.0\r\n",
        b"Host: h\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"X: y\r\n",
        b"\r\n",
        b"abc",
        b"3\r\nabc\r\n",
        b"0\r\n\r\n",
        b"0;x\r\nA: b\r\n\r\n",
        b"Connection: upgrade\r\nUpgrade: websocket\r\n",
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        &[0x81, 0x83, 1, 2, 3, 4, b'a' ^ 1, b'b' ^ 2, b'c' ^ 3],
        b"\n",
        b"\0",
        b" ",
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
    ];
    let mut rng = Rng(11);
    for _ in 0..1_500 {
        let mut data = Vec::new();
        for _ in 0..rng.below(9) {
            data.extend_from_slice(parts[rng.below(parts.len() as u64) as usize]);
        }
        if !data.is_empty() && rng.below(3) == 0 {
            let at = rng.below(data.len() as u64) as usize;
            data[at] = rng.next() as u8;
        }
        super::super::fuzz::fuzz_http(&data);
    }
}
