//! The Control UI (J15 to J19): which file a path means, and how it is sent.

use super::index::{guarded, index, policy};
use super::{Route, json_response, plain};
use crate::gateway::hub::{Gateway, Sight};
use crate::gateway::out::{Conn, Do};
use crate::gateway::wire::{Request, Response};
use serde_json::json;
use std::sync::Arc;

/// Prefixes that belong to others, where the UI has no base path of its own.
const FOREIGN: [&str; 5] = ["ui", "api", "v1", "j", "plugins"];

/// Endings of files, and what they are.
const TYPES: [(&str, &str); 27] = [
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("css", "text/css; charset=utf-8"),
    ("json", "application/json; charset=utf-8"),
    ("map", "application/json; charset=utf-8"),
    ("webmanifest", "application/manifest+json; charset=utf-8"),
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("avif", "image/avif"),
    ("ico", "image/x-icon"),
    ("txt", "text/plain; charset=utf-8"),
    ("md", "text/plain; charset=utf-8"),
    ("xml", "application/xml; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("woff", "font/woff"),
    ("woff2", "font/woff2"),
    ("ttf", "font/ttf"),
    ("otf", "font/otf"),
    ("wasm", "application/wasm"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
];

/// A file that is to be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileWanted {
    /// The number of the question.
    pub ticket: u64,
    /// Its path from the directory of the UI: no dots, no empty parts.
    pub path: String,
    /// Endings under which a packed copy may stand beside it, the best first.
    pub packed: Vec<&'static str>,
    /// It is needed only if it changed after this HTTP date.
    pub since: Option<String>,
}

/// What became of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FileGot {
    /// Its bytes, as they are or packed.
    Found {
        /// The bytes.
        bytes: Arc<[u8]>,
        /// The ending of the packed copy.
        packed: Option<&'static str>,
        /// When it was changed, as an HTTP date.
        modified: String,
    },
    /// It did not change.
    Unchanged,
    /// There is none.
    Missing,
    /// Why it cannot be sent.
    Failed(String),
}

/// How a file is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Served {
    /// Rewritten, and never from a cache.
    Index,
    /// By the ending of its name; `hashed`: its name tells its content.
    File { mime: &'static str, hashed: bool },
}

/// Whose a path is that no other route has (J15).
pub(super) fn route<'a>(base: &str, path: &'a str) -> Route<'a> {
    let Some(rest) = path.strip_prefix(base) else { return Route::Nothing };
    if rest.is_empty() && !base.is_empty() {
        return Route::Base;
    }
    let Some(rest) = rest.strip_prefix('/') else { return Route::Nothing };
    let old = base.is_empty() && rest == "__openclaw__/control-ui-config.json";
    if old || rest == "control-ui-config.json" || rest == "__openclaw/control-ui-config.json" {
        return Route::UiConfig;
    }
    let first = rest.split('/').next().unwrap_or_default();
    if base.is_empty() && FOREIGN.contains(&first) { Route::Nothing } else { Route::Ui(rest) }
}

/// The ending of a path's last part.
fn ending(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map_or("", |(_, ending)| ending)
}

fn mime(path: &str) -> Option<&'static str> {
    let ending = ending(path).to_ascii_lowercase();
    TYPES.iter().find(|(of, _)| *of == ending).map(|(_, mime)| *mime)
}

/// The file that a path means, and how it is sent (J16).
fn target(path: &str, html: bool) -> Option<(String, Served)> {
    let plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    let assets = match path.strip_prefix("assets/") {
        Some(rest) => Some(rest),
        None => path.split_once("/assets/").map(|(_, rest)| rest),
    };
    let file = match assets {
        Some(rest) => format!("assets/{rest}"),
        None => path.to_owned(),
    };
    match mime(&file) {
        Some(mime) if file != "index.html" => {
            // A packed copy has no type of its own, and so is no file here.
            let hashed = assets.is_some();
            let found = file.split('/').all(plain);
            found.then_some((file, Served::File { mime, hashed }))
        }
        // A file of the assets, or a packed one, that is no page whoever asks.
        None if assets.is_some() || matches!(ending(&file), "br" | "gz") => None,
        Some(_) | None => html.then(|| ("index.html".to_owned(), Served::Index)),
    }
}

/// Whether a header lists something, and does not refuse it.
fn lists(header: &str, wanted: &str) -> bool {
    header.split(',').any(|item| {
        let mut parts = item.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
        let none = |part: &str| {
            let weight = part.strip_prefix("q=").or_else(|| part.strip_prefix("Q="));
            weight.and_then(|q| q.parse::<f32>().ok()).is_some_and(|q| q <= 0.0)
        };
        named && !parts.any(none)
    })
}

impl Gateway {
    pub(super) fn ui_file(&mut self, conn: Conn, request: &Request, path: &str) {
        let header = |name: &str| request.headers.get(name);
        let accept = header("accept").unwrap_or("*/*");
        let html = ["text/html", "text/*", "*/*"].iter().any(|kind| lists(accept, kind));
        if !self.facts.http.ui_root {
            let front = matches!(path, "" | "index.html");
            let response = if front { plain(200, NO_ROOT) } else { plain(404, "Not Found") };
            return self.reply(conn, &guarded(response));
        }
        let Some((path, served)) = target(path, html) else {
            return self.reply(conn, &guarded(plain(404, "Not Found")));
        };
        let codings = header("accept-encoding").unwrap_or("");
        let (packed, since) = match served {
            Served::Index => (vec![], None),
            Served::File { .. } => {
                let packed = ["br", "gz"]
                    .into_iter()
                    .filter(|packed| lists(codings, if *packed == "gz" { "gzip" } else { packed }));
                (packed.collect(), header("if-modified-since").map(str::to_owned))
            }
        };
        let ticket = self.ticket();
        self.web.files.insert(ticket, (conn, served));
        self.out.push(Do::File(FileWanted { ticket, path, packed, since }));
    }

    /// A file was read, or could not be.
    pub fn file(&mut self, ticket: u64, got: FileGot, sight: Sight<'_>) {
        self.see(sight);
        let Some((conn, served)) = self.web.files.remove(&ticket) else { return };
        let response = match (got, served) {
            (FileGot::Found { bytes, .. }, Served::Index) => {
                let page = index(&String::from_utf8_lossy(&bytes), &self.facts.http.base);
                Response::new(200)
                    .header("Content-Type", "text/html; charset=utf-8")
                    .header("Content-Security-Policy", &page.policy)
                    .header("Cache-Control", "no-cache")
                    .body(page.html.into_bytes())
            }
            (FileGot::Found { bytes, packed, modified }, Served::File { mime, hashed }) => {
                let response = Response::new(200)
                    .header("Content-Type", mime)
                    // A worker's policy is that of its file.
                    .header("Content-Security-Policy", &policy(""))
                    .header("Vary", "Accept-Encoding")
                    .header("Last-Modified", &modified)
                    .header("Cache-Control", cached(hashed));
                let response = match packed {
                    None => response,
                    Some("gz") => response.header("Content-Encoding", "gzip"),
                    Some(packed) => response.header("Content-Encoding", packed),
                };
                response.body(bytes)
            }
            (FileGot::Unchanged, served) => {
                let hashed = matches!(served, Served::File { hashed: true, .. });
                Response::new(304)
                    .header("Vary", "Accept-Encoding")
                    .header("Cache-Control", cached(hashed))
            }
            (FileGot::Missing, Served::Index) => plain(503, NO_INDEX),
            (FileGot::Missing, Served::File { .. }) => plain(404, "Not Found"),
            (FileGot::Failed(why), _) => plain(500, &why),
        };
        self.reply(conn, &guarded(response));
    }

    /// The base path without its slash (J15).
    pub(super) fn redirect(&mut self, conn: Conn, request: &Request) {
        let query = request.query.as_ref().map_or(String::new(), |query| format!("?{query}"));
        let to = format!("{}/{query}", self.facts.http.base);
        self.reply(conn, &guarded(plain(302, &to).header("Location", &to)));
    }

    /// What the page asks for before it connects (J19).
    pub(super) fn ui_config(&mut self, conn: Conn) {
        let facts = &self.facts;
        let avatar: String = facts.agent.chars().take(1).flat_map(char::to_uppercase).collect();
        let config = json!({
            "basePath": facts.http.base, "assistantName": facts.agent,
            "assistantAvatar": avatar, "assistantAvatarSource": null,
            "assistantAvatarStatus": "none", "assistantAvatarReason": null,
            "assistantAgentId": facts.agent, "serverVersion": facts.version,
            "embedSandbox": "scripts", "allowExternalEmbedUrls": false,
            "automaticallyFetchFavicons": true, "communityInvite": true,
            "terminalEnabled": false, "cliAgentsEnabled": false,
            "pluginAssetsRequireAuth": facts.auth_mode != "none", "pluginFrameGrants": [],
        });
        self.reply(conn, &guarded(json_response(200, &config)));
    }
}

fn cached(hashed: bool) -> &'static str {
    if hashed { "public, max-age=31536000, immutable" } else { "no-cache" }
}

const NO_ROOT: &str = "This gateway has no files of the Control UI.\n\nSet \
gateway.controlUi.root in stepclaw.json to the folder dist/control-ui of an OpenClaw \
installation,\nfor example ~/node_modules/openclaw/dist/control-ui, and start the gateway again.";

const NO_INDEX: &str = "There is no index.html in gateway.controlUi.root: it must be the folder \
dist/control-ui of an OpenClaw installation.";

#[cfg(test)]
mod tests {
    use super::*;

    /// J15: what belongs to others never gets the page, unless the UI has a place of its own.
    #[test]
    fn paths_have_owners() {
        for path in ["/ui", "/ui/x", "/api/x", "/v1/models", "/j/x", "/plugins/a/b"] {
            assert_eq!(route("", path), Route::Nothing, "{path}");
        }
        assert_eq!(route("", "/"), Route::Ui(""));
        assert_eq!(route("", "/chat/x"), Route::Ui("chat/x"));
        assert_eq!(route("", "/uix"), Route::Ui("uix"));
        assert_eq!(route("/ui", "/ui"), Route::Base);
        assert_eq!(route("/ui", "/ui/"), Route::Ui(""));
        assert_eq!(route("/ui", "/ui/api/x"), Route::Ui("api/x"));
        assert_eq!(route("/ui", "/uix"), Route::Nothing);
        assert_eq!(route("/ui", "/"), Route::Nothing);
        for path in ["/control-ui-config.json", "/__openclaw/control-ui-config.json"] {
            assert_eq!(route("", path), Route::UiConfig);
            assert_eq!(route("/a/b", &format!("/a/b{path}")), Route::UiConfig);
        }
        assert_eq!(route("", "/__openclaw__/control-ui-config.json"), Route::UiConfig);
    }

    /// J16: what a path means.
    #[test]
    fn paths_mean_files() {
        let file = |path: &str| match target(path, true) {
            Some((file, Served::File { hashed, .. })) => Some((file, hashed)),
            Some((file, Served::Index)) => Some((format!("<{file}>"), false)),
            None => None,
        };
        let some = |file: &str, hashed| Some((file.to_owned(), hashed));
        for (path, want) in [
            ("", some("<index.html>", false)),
            ("index.html", some("<index.html>", false)),
            ("chat/agent:main:main", some("<index.html>", false)),
            ("favicon.svg", some("favicon.svg", false)),
            ("fonts/a.woff2", some("fonts/a.woff2", false)),
            ("assets/x-1.js", some("assets/x-1.js", true)),
            ("chat/deep/assets/x-1.js", some("assets/x-1.js", true)),
            ("assets/x-1.js.br", None),
            ("x.css.gz", None),
            ("assets/none", None),
            (".env.txt", None),
            ("a/.git/x.json", None),
            ("a//x.json", None),
        ] {
            assert_eq!(file(path), want, "{path}");
        }
        assert_eq!(target("chat", false), None, "no page for who takes none");
    }

    /// J17: codings are taken from the header, and a weight of nothing refuses.
    #[test]
    fn codings_are_read() {
        assert!(lists("gzip, deflate, br", "br") && lists("GZIP;q=0.5", "gzip"));
        assert!(!lists("gzip;q=0, br;q=0.0", "br") && !lists("", "gzip"));
    }
}
