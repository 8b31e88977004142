//! The worker against a server on the loopback device.

use super::*;
use crate::transcript::Assistant;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"ok\"},\
     \"finish_reason\":\"stop\"}]}\n\n\
                     data: [DONE]\n\n";

/// What a connection is used for: each request is answered by the function.
fn serve(answer: impl Fn(usize, &str, &mut TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/chat/completions", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (answer, mut stream) = (answer.clone(), stream.unwrap());
            thread::spawn(move || {
                while let Some(request) = request(&stream) {
                    answer(number, &request, &mut stream);
                }
            });
        }
    });
    url
}

fn request(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text.push_str(&line);
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    text.push_str(&String::from_utf8_lossy(&body));
    Some(text)
}

fn head(stream: &mut TcpStream) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let _ = stream.write_all(head.as_bytes());
}

fn chunk(stream: &mut TcpStream, text: &str) {
    let _ = stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
}

fn status(stream: &mut TcpStream, line: &str, headers: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {line}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes());
}

fn job(url: &str) -> HttpCall {
    HttpCall {
        url: url.to_owned(),
        api_key: Some(Secret::new("sk-secret")),
        body: b"{}".to_vec(),
        ..HttpCall::default()
    }
}

fn call(pool: &Pool, job: &HttpCall, handle: &CallHandle) -> (Vec<ModelEvent>, End) {
    let mut events = Vec::new();
    pool.call(job, handle, &|| Millis(5), &mut |event| events.push(event));
    let end = match events.pop() {
        Some(ModelEvent::End(end)) => *end,
        other => panic!("{other:?}"),
    };
    assert!(!events.iter().any(|event| matches!(event, ModelEvent::End(_))));
    (events, end)
}

fn fails(url: &str) -> (Failure, Assistant) {
    match call(&Pool::new(), &job(url), &CallHandle::new()).1 {
        End::Failed(failure, message) => (failure, message),
        End::Done(finished) => panic!("{finished:?}"),
    }
}

/// M14, M15: events in order, the key sent, the connection used again.
#[test]
fn connections_are_used_again() {
    let (tell, told) = mpsc::channel();
    let url = serve(move |number, request, stream| {
        tell.send((number, request.to_lowercase())).unwrap();
        head(stream);
        chunk(stream, HELLO);
        let _ = stream.write_all(b"0\r\n\r\n");
    });
    let pool = Pool::new();
    for _ in 0..3 {
        let (events, end) = call(&pool, &job(&url), &CallHandle::new());
        assert!(matches!(end, End::Done(_)), "{end:?}");
        let want = [ModelEvent::Delta(Delta::Start), ModelEvent::Delta(Delta::Text("ok".into()))];
        assert_eq!(events, want);
        let (number, request) = told.recv().unwrap();
        assert_eq!(number, 0, "one connection for all calls");
        assert!(request.contains("authorization: bearer sk-secret\r\n"), "{request}");
    }
}

/// M16, B093: the reply is out at the last word, though the server keeps the connection open.
#[test]
fn b093_the_end_does_not_wait_for_the_close() {
    let url = serve(|_, _, stream| {
        head(stream);
        chunk(stream, HELLO);
        thread::sleep(Duration::from_secs(20));
    });
    let start = Instant::now();
    let mut ended = None;
    Pool::new().call(&job(&url), &CallHandle::new(), &|| Millis(5), &mut |event| {
        if matches!(event, ModelEvent::End(_)) {
            ended = Some(start.elapsed());
        }
    });
    assert!(ended.unwrap() < Duration::from_millis(500), "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(2), "the worker is free soon after");
}

/// M17, B101: comments are reported as signs of life.
#[test]
fn b101_comments_are_signs_of_life() {
    let url = serve(|_, _, stream| {
        head(stream);
        for _ in 0..3 {
            chunk(stream, ": keepalive\n\n");
            thread::sleep(Duration::from_millis(20));
        }
        chunk(stream, HELLO);
    });
    let (events, end) = call(&Pool::new(), &job(&url), &CallHandle::new());
    assert!(matches!(end, End::Done(_)));
    assert!(events.iter().filter(|event| **event == ModelEvent::Alive).count() >= 2, "{events:?}");
}

/// M18: stopping cuts a silent call at once, only that call, and its agent is not lent again.
#[test]
fn stopping_cuts_one_call() {
    let url = serve(|_, request, stream| {
        head(stream);
        chunk(stream, "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
        let wait = if request.ends_with("long") { 20_000 } else { 600 };
        thread::sleep(Duration::from_millis(wait));
        chunk(stream, HELLO);
    });
    let pool = Arc::new(Pool::new());
    let start = |body: &str| {
        let (pool, handle) = (pool.clone(), CallHandle::new());
        let job = HttpCall { body: body.into(), ..job(&url) };
        let own = handle.clone();
        (thread::spawn(move || call(&pool, &job, &own).1), handle)
    };
    let (stopped, handle) = start("long");
    let (other, _) = start("short");
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    handle.abort("user");
    let End::Failed(failure, message) = stopped.join().unwrap() else { panic!() };
    assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
    assert_eq!(failure.message, "user");
    assert_eq!(message.stop_reason, crate::transcript::StopReason::Aborted);
    assert_eq!(message.content, [crate::transcript::Block::text("half")]);
    assert!(matches!(other.join().unwrap(), End::Done(_)));
    assert_eq!(pool.idle.lock().unwrap().len(), 1);
}

/// M18: a call that was stopped before it began does not begin.
#[test]
fn a_stopped_call_does_not_begin() {
    let handle = CallHandle::new();
    handle.abort("user");
    let (events, end) = call(&Pool::new(), &job("http://127.0.0.1:1/"), &handle);
    assert!(events.is_empty());
    assert!(matches!(end, End::Failed(_, message) if message.failed()));
}

/// M12, M13: error answers are read, typed, and never show the key.
#[test]
fn error_answers() {
    let url = serve(|_, _, stream| {
        let body = "{\"error\":{\"message\":\"slow down, sk-secret\"}}";
        status(stream, "429 Too Many", "retry-after: 3\r\n", body);
    });
    let (failure, message) = fails(&url);
    assert_eq!((failure.kind, failure.status), (FailKind::RateLimit, Some(429)));
    assert_eq!(failure.retry_after_ms, Some(3_000));
    assert_eq!(failure.message, "HTTP 429: slow down, [redacted]");
    assert_eq!(message.error_message.as_deref(), Some(failure.message.as_str()));
    let moved = serve(|_, _, stream| {
        status(stream, "302 Found", "location: http://127.0.0.1:1/\r\n", "");
    });
    assert_eq!(fails(&moved).0.status, Some(302));
}

/// M14: breaks are told apart by where they happen.
#[test]
fn broken_connections() {
    let cut = serve(|_, _, stream| {
        head(stream);
        chunk(stream, "data: {\"choices\":[{\"delta\":{\"content\":\"half\"}}]}\n\n");
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    let (failure, message) = fails(&cut);
    assert_eq!(failure.kind, FailKind::Network);
    assert_eq!(message.content, [crate::transcript::Block::text("half")]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    assert_eq!(fails(&nobody).0.kind, FailKind::Network);
    assert_eq!(fails("no address").0.kind, FailKind::Format);
    let garbage = serve(|_, _, stream| {
        let _ = stream.write_all(b"hello\r\n\r\n");
        let _ = stream.shutdown(std::net::Shutdown::Both);
    });
    assert!(matches!(fails(&garbage).0.kind, FailKind::MalformedResponse | FailKind::Network));
}
