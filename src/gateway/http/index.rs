//! The page of the Control UI, made fit for where it is served (J18).

use crate::base::b64;
use crate::gateway::wire::Response;
use ring::digest::{SHA256, digest};

/// The page, and the policy under which its own scripts may run.
pub(super) struct Index {
    pub html: String,
    pub policy: String,
}

/// Rewrites the page for a base path.
pub(super) fn index(html: &str, base: &str) -> Index {
    let mut html = html.to_owned();
    for name in ["href", "src"] {
        html = html.replace(&format!("{name}=\"./"), &format!("{name}=\"{base}/"));
    }
    if let Some(at) = html.find("<html") {
        // A base path has no character that could end the attribute.
        let marks = format!(
            " data-openclaw-control-ui-base-path=\"{base}\" \
             data-openclaw-terminal-enabled=\"false\""
        );
        html.insert_str(at + "<html".len(), &marks);
    }
    let policy = policy(&html);
    Index { html, policy }
}

/// What may be loaded and run: our own files, and the scripts that stand in the page itself.
pub(super) fn policy(html: &str) -> String {
    let mut scripts = String::new();
    for script in inline_scripts(html) {
        let hash = b64::encode(digest(&SHA256, script.as_bytes()).as_ref());
        scripts.push_str(&format!(" 'sha256-{hash}'"));
    }
    format!(
        "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; \
         form-action 'self'; script-src 'self'{scripts}; style-src 'self' 'unsafe-inline'; \
         img-src 'self' data: blob: https:; media-src 'self' data: blob:; font-src 'self' data:; \
         worker-src 'self'; connect-src 'self' ws: wss: data:"
    )
}

/// What stands between the tags of each script that is no file.
fn inline_scripts(html: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find("<script") {
        rest = &rest[at + "<script".len()..];
        let Some((head, body)) = rest.split_once('>') else { break };
        let Some((script, after)) = body.split_once("</script") else { break };
        if !head.split_whitespace().any(|word| word.starts_with("src=")) {
            found.push(script);
        }
        rest = after;
    }
    found
}

/// The headers of everything that belongs to the Control UI.
pub(super) fn guarded(response: Response) -> Response {
    response
        .header("X-Frame-Options", "DENY")
        .header("X-Content-Type-Options", "nosniff")
        .header("Referrer-Policy", "no-referrer")
        .header("Permissions-Policy", "camera=(), geolocation=(), microphone=(self)")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J18: addresses, marks, and the hash of the text between the tags, whatever the tag says.
    #[test]
    fn a_page_is_made_fit() {
        let html = "<!doctype html>\n<html lang=\"en\"><link href=\"./f.svg\">\
            <script data-x>go(\"./y\")</script><script src=\"./assets/a.js\"></script></html>";
        let Index { html, policy } = index(html, "/ui");
        assert!(html.contains(
            "<html data-openclaw-control-ui-base-path=\"/ui\" \
             data-openclaw-terminal-enabled=\"false\" lang=\"en\">"
        ));
        assert!(html.contains("href=\"/ui/f.svg\"") && html.contains("src=\"/ui/assets/a.js\""));
        assert!(html.contains("go(\"./y\")"), "a script is left as it is");
        // printf 'go("./y")' | openssl dgst -sha256 -binary | base64
        let hash =
            "script-src 'self' 'sha256-B34zmHmymGi3Rzf6x/tcXyePaVYbYVR0t0qSnt6L3RY='; style-src";
        assert!(policy.contains(hash), "{policy}");
        assert!(index("<html>", "").html.contains("base-path=\"\""));
        assert_eq!(index("no tags <script", "").html, "no tags <script");
    }
}
