//! The HTTP side of the gateway, with a real process behind it (spec/http.md).

#![allow(clippy::unwrap_used)] // A failure here is a failure of the test.

mod common;

use common::{Home, Running, alive, nap, until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const TOKEN: &str = "a-token-of-the-tests";

struct Site {
    _running: Running,
    port: u16,
}

/// An answer: its head in lower case, and its body with its framing.
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    fn status(&self) -> u16 {
        self.head[9..12].parse().unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn start(home: &Home) -> Site {
    let mut child = home
        .command(&["gateway", "--json", "--token", TOKEN, "--port", "0"])
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ready: Value = serde_json::from_str(&line).unwrap();
    let port = u16::try_from(ready["port"].as_u64().unwrap()).unwrap();
    Site { _running: Running(child), port }
}

impl Site {
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let mut bytes = Vec::new();
        self.send(method, path, headers, body).read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        Answer { head: head.to_lowercase(), body: body.to_owned() }
    }

    fn get(&self, path: &str, headers: &str) -> Answer {
        self.ask("GET", path, headers, "")
    }

    fn chat(&self, body: &Value) -> TcpStream {
        self.send("POST", "/v1/chat/completions", &bearer(), &body.to_string())
    }
}

fn bearer() -> String {
    format!("Authorization: Bearer {TOKEN}\r\n")
}

fn user(text: &str) -> Value {
    json!({"model": "openclaw", "messages": [{"role": "user", "content": text}]})
}

/// A home whose gateway serves a small UI and completions.
fn home() -> Home {
    let home = Home::new();
    let root = home.path("ui");
    std::fs::create_dir_all(root.join("assets")).unwrap();
    let html = "<!doctype html><html><script>go()</script><link href=\"./f.svg\"></html>";
    for (name, text) in [
        ("index.html", html),
        ("f.svg", "<svg/>"),
        ("assets/a-1.js", "plain"),
        ("assets/a-1.js.br", "packed"),
    ] {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::fs::write(home.path("secret.json"), "secret").unwrap();
    std::os::unix::fs::symlink(home.path("secret.json"), root.join("out.json")).unwrap();
    home.config(
        "{ gateway: { controlUi: { root: \"~/ui\" },
           http: { endpoints: { chatCompletions: { enabled: true } } } } }",
    );
    home
}

/// J1, J15 to J19: probes, the page, its files, and nothing beside them.
#[test]
fn pages_and_probes() {
    let home = home();
    let site = start(&home);
    assert_eq!(site.get("/healthz", "").json(), json!({"ok": true, "status": "live"}));
    assert_eq!(site.ask("HEAD", "/readyz", "", "").body, "");
    let page = site.get("/chat", "Accept: text/html\r\n");
    assert!(page.body.contains("data-openclaw-control-ui-base-path=\"\""), "{}", page.body);
    assert!(page.body.contains("href=\"/f.svg\"") && page.head.contains("'sha256-"));
    assert_eq!(site.get("/deep/assets/a-1.js", "").body, "plain");
    let packed = site.get("/assets/a-1.js", "Accept-Encoding: br\r\n");
    assert!(packed.body == "packed" && packed.head.contains("content-encoding: br"));
    let file = site.get("/f.svg", "");
    let modified = file.head.lines().find_map(|line| line.strip_prefix("last-modified: "));
    let since = format!("If-Modified-Since: {}\r\n", modified.unwrap());
    // A date's names are written with capitals, which the head here has lost.
    let title = |word: &str| word[..1].to_uppercase() + &word[1..];
    let since: Vec<String> = since.split(' ').map(title).collect();
    let since = since.join(" ").replace("Gmt", "GMT");
    assert_eq!(site.get("/f.svg", &since).status(), 304, "{since}");
    for path in ["/out.json", "/../secret.json", "/%2e%2e/secret.json", "/assets/a-1.js.br"] {
        let answer = site.get(path, "");
        assert!(matches!(answer.status(), 400 | 404), "{path}: {}", answer.head);
        assert!(!answer.body.contains("secret"), "{path}");
    }
    assert_eq!(site.get("/control-ui-config.json", "").status(), 401);
    let config = site.get("/control-ui-config.json", &bearer()).json();
    assert_eq!(config["assistantAgentId"], "main");
}

/// H30 to H32, J4: who may not ask.
#[test]
fn b192_strangers_are_refused() {
    let home = home();
    let site = start(&home);
    for (headers, status) in [
        (String::new(), 401),
        ("Authorization: Bearer wrong\r\n".to_owned(), 401),
        (format!("{}Origin: https://evil.example\r\n", bearer()), 403),
        (bearer(), 200),
    ] {
        assert_eq!(site.get("/v1/models", &headers).status(), status, "{headers}");
    }
    let bad = site.ask("POST", "/v1/chat/completions", &bearer(), "{");
    assert_eq!(bad.status(), 400, "{}", bad.body);
    let long = "x".repeat(100_000);
    let long = site.ask("POST", "/sessions/main/kill", &bearer(), &long);
    assert_eq!(long.status(), 413);
}

/// J9, J12: a completion, a stream, and what is stored of them.
#[test]
fn completions() {
    let home = home();
    let site = start(&home);
    let mut body = user("say 5 words");
    let whole = site.ask("POST", "/v1/chat/completions", &bearer(), &body.to_string());
    let content = whole.json()["choices"][0]["message"]["content"].clone();
    assert_eq!(content, "one two three four five");
    body["stream"] = json!(true);
    body["user"] = json!("anna");
    let mut text = String::new();
    site.chat(&body).read_to_string(&mut text).unwrap();
    let pieces = text.lines().filter_map(|line| line.strip_prefix("data: "));
    let said: String = pieces
        .filter_map(|piece| serde_json::from_str::<Value>(piece).ok())
        .filter_map(|piece| piece["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(said, "one two three four five", "{text}");
    assert!(text.contains("data: [DONE]"), "{text}");
    let path = "/sessions/agent:main:openai-user:anna/history?limit=1";
    let history = site.get(path, &bearer()).json();
    assert_eq!(history["messages"][0]["role"], "assistant", "{history}");
    let next = history["nextCursor"].as_str().unwrap();
    let older = site.get(&format!("{path}&cursor={next}"), &bearer()).json();
    assert_eq!(older["messages"][0]["content"], "say 5 words", "{older}");
    assert_eq!(site.get("/sessions/nobody/history", &bearer()).status(), 404);
}

/// J11: a client that goes stops its run, whether it streams or waits; so does a kill (J12).
#[test]
fn a_client_that_goes_stops_its_run() {
    let home = home();
    let site = start(&home);
    for stream in [true, false] {
        let nap = nap();
        let mut body = user(&format!("run: sleep {nap}"));
        body["stream"] = json!(stream);
        let client = site.chat(&body);
        until("the command to run", || alive(&nap));
        drop(client);
        until("the command to end", || !alive(&nap));
    }
    let nap = nap();
    let mut body = user(&format!("run: sleep {nap}"));
    body["user"] = json!("anna");
    let mut client = site.chat(&body);
    until("the command to run", || alive(&nap));
    let path = "/sessions/agent:main:openai-user:anna/kill";
    assert_eq!(site.ask("POST", path, &bearer(), "").json()["killed"], true);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 500") && text.contains("aborted"), "{text}");
}

/// J13: a tool, as it runs in a run.
#[test]
fn tools() {
    let home = home();
    let site = start(&home);
    std::fs::write(home.work("a.txt"), "words of a file\n").unwrap();
    let call = |body: Value| site.ask("POST", "/tools/invoke", &bearer(), &body.to_string());
    let read = call(json!({"tool": "read", "args": {"path": "a.txt"}}));
    assert!(read.json()["result"]["content"][0]["text"].as_str().unwrap().contains("words"));
    assert_eq!(call(json!({"tool": "read", "args": {"path": "none"}})).status(), 500);
    assert_eq!(call(json!({"tool": "read"})).status(), 400);
    assert_eq!(call(json!({"tool": "exec", "args": {"command": "id"}})).status(), 403);
    assert_eq!(call(json!({"tool": "none"})).status(), 404);
}
