//! Where a connection comes from, and whether its origin may be here.

use core::net::IpAddr;

/// What the edge knows of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The address of its TCP connection.
    pub address: IpAddr,
    /// Its request has a header of [`is_forwarding`].
    pub forwarded: bool,
    /// `Origin`.
    pub origin: Option<String>,
    /// `Host`.
    pub host: Option<String>,
}

/// Whether a header, by its name, says that somebody else's request was passed on.
#[must_use]
pub fn is_forwarding(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "forwarded"
        || name == "x-real-ip"
        || name.starts_with("x-forwarded-")
        || name.starts_with("tailscale-")
}

impl Peer {
    /// It is on this machine, and nobody stands between (H1).
    #[must_use]
    pub fn direct_local(&self) -> bool {
        self.address.to_canonical().is_loopback() && !self.forwarded
    }

    /// It has an `Origin`, as browsers have.
    #[must_use]
    pub fn has_origin(&self) -> bool {
        self.origin.as_deref().is_some_and(|origin| !origin.trim().is_empty())
    }

    /// Its address is a private one.
    pub(super) fn is_private(&self) -> bool {
        private(self.address.to_canonical())
    }

    /// Its host and its origin both are loopback.
    pub(super) fn loopback_page(&self) -> bool {
        let host = self.host.as_deref().map(|host| host_name(&lower(host)).to_owned());
        let origin = self.origin.as_deref().and_then(Origin::parse);
        host.is_some_and(|host| loopback(&host))
            && origin.is_some_and(|origin| loopback(host_name(&origin.host)))
    }
}

/// `gateway.controlUi`, as far as it is about origins.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origins {
    /// `allowedOrigins`.
    pub allowed: Vec<String>,
    /// `dangerouslyAllowHostHeaderOriginFallback`.
    pub host_fallback: bool,
}

/// The origin may not be here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OriginError {
    /// A browser's client came without one, or with `null`.
    #[error("origin missing or invalid")]
    Missing,
    /// Nothing allows it.
    #[error("origin not allowed")]
    NotAllowed,
}

/// A scheme, and a host with its port where that is not the scheme's own.
#[derive(PartialEq, Eq)]
struct Origin {
    scheme: String,
    host: String,
}

fn lower(text: &str) -> String {
    text.trim().to_ascii_lowercase()
}

impl Origin {
    fn parse(text: &str) -> Option<Origin> {
        let text = lower(text);
        let (scheme, host) = text.split_once("://")?;
        let host = host.trim_end_matches('/');
        let foreign = |c: char| c.is_whitespace() || c.is_control() || "/@?#\\".contains(c);
        if scheme.is_empty() || host.is_empty() || host.contains(foreign) {
            return None;
        }
        Some(Origin { host: without_default(scheme, host).to_owned(), scheme: scheme.to_owned() })
    }
}

fn without_default<'h>(scheme: &str, host: &'h str) -> &'h str {
    let port = match scheme {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => return host,
    };
    host.strip_suffix(port).unwrap_or(host)
}

/// A host without its port and brackets.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    }
}

fn loopback(name: &str) -> bool {
    let address = name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    address || name == "localhost" || name.ends_with(".localhost")
}

fn private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_private() || v4.is_link_local() || v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local() || v6.is_loopback(),
    }
}

impl Origins {
    /// The rules of H2.
    ///
    /// # Errors
    /// Why the origin may not be here.
    pub fn check(&self, peer: &Peer) -> Result<(), OriginError> {
        let given = peer.origin.as_deref().unwrap_or("").trim();
        if !given.is_empty() && self.allowed.iter().any(|allowed| allowed.trim() == "*") {
            return Ok(());
        }
        let origin = Origin::parse(given).ok_or(OriginError::Missing)?;
        if self.allowed.iter().any(|allowed| Origin::parse(allowed).as_ref() == Some(&origin)) {
            return Ok(());
        }
        let (local, name) = (peer.direct_local(), host_name(&origin.host));
        let host = lower(peer.host.as_deref().unwrap_or(""));
        let same_host = without_default(&origin.scheme, &host) == origin.host;
        let near = name.parse::<IpAddr>().is_ok_and(|ip| private(ip) && !ip.is_loopback())
            || name.ends_with(".local")
            || name.ends_with(".ts.net");
        // A loopback origin is for those who are here, whatever host they named.
        let allowed = (same_host && (self.host_fallback || near)) || (local && loopback(name));
        if allowed { Ok(()) } else { Err(OriginError::NotAllowed) }
    }

    /// Whether the peer names a gateway that only this machine can reach by one of its names: no
    /// host at all, loopback, an address, or the host of an allowed origin (H31).
    pub(super) fn has_host(&self, peer: &Peer) -> bool {
        let Some(host) = peer.host.as_deref().map(lower) else { return true };
        let name = host_name(&host);
        let listed = |allowed: &String| {
            allowed.trim() == "*"
                || Origin::parse(allowed).is_some_and(|origin| host_name(&origin.host) == name)
        };
        loopback(name)
            || name.parse::<IpAddr>().is_ok()
            || self.host_fallback
            || self.allowed.iter().any(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(address: &str, host: &str, origin: &str) -> Peer {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let address = address.parse().unwrap();
        Peer { address, forwarded: false, origin: some(origin), host: some(host) }
    }

    /// H1: loopback counts only when nobody stands between.
    #[test]
    fn local_is_direct() {
        let mut here = peer("127.0.0.1", "", "");
        assert!(here.direct_local() && peer("::ffff:127.0.0.9", "", "").direct_local());
        assert!(!peer("192.168.1.4", "", "").direct_local());
        here.forwarded = true;
        assert!(!here.direct_local());
        for name in ["Forwarded", "X-Forwarded-For", "x-real-ip", "Tailscale-User-Login"] {
            assert!(is_forwarding(name), "{name}");
        }
        assert!(!is_forwarding("host") && !is_forwarding("x-forward"));
    }

    /// H2: each rule lets in what it is for, and nothing beside it.
    #[test]
    fn origins_are_judged() {
        let list = |allowed: &[&str]| Origins {
            allowed: allowed.iter().map(|a| (*a).to_owned()).collect(),
            host_fallback: false,
        };
        let fallback = Origins { allowed: vec![], host_fallback: true };
        let plain = Origins::default();
        let host = "127.0.0.1:18789";
        let cases: [(&Origins, Peer, bool); 22] = [
            (&list(&["https://a.example"]), peer("192.0.2.1", host, "https://A.example:443"), true),
            (&list(&["https://a.example"]), peer("192.0.2.1", host, "http://a.example"), false),
            (&list(&["https://a.example"]), peer("192.0.2.1", host, "https://a.example:8"), false),
            (&list(&["*"]), peer("192.0.2.1", host, "null"), true),
            (&list(&["*"]), peer("192.0.2.1", host, ""), false),
            (&fallback, peer("192.0.2.1", "a.example", "https://a.example"), true),
            (&plain, peer("192.0.2.1", "a.example", "https://a.example"), false),
            (&plain, peer("127.0.0.1", host, "http://127.0.0.1:18789"), true),
            (&plain, peer("127.0.0.1", host, "http://localhost:5173"), true),
            (&plain, peer("127.0.0.1", "[::1]:18789", "http://[::1]:18789"), true),
            (&plain, peer("192.0.2.1", host, "http://127.0.0.1:18789"), false),
            (&plain, peer("192.0.2.1", "10.0.0.4:18789", "http://10.0.0.4:18789"), true),
            (&plain, peer("192.0.2.1", "10.0.0.4:18789", "http://10.0.0.5:18789"), false),
            (&plain, peer("192.0.2.1", "mac.local", "https://mac.local"), true),
            (&plain, peer("192.0.2.1", "x.y.ts.net", "https://x.y.ts.net"), true),
            (&plain, peer("127.0.0.1", host, "https://evil.example"), false),
            (&plain, peer("127.0.0.1", "evil.example", "http://evil.example"), false),
            (&plain, peer("127.0.0.1", host, "http://127.0.0.1.evil.example"), false),
            (&plain, peer("127.0.0.1", host, "http://localhost@evil.example"), false),
            (&plain, peer("127.0.0.1", host, "null"), false),
            (&plain, peer("127.0.0.1", host, ""), false),
            (&plain, peer("127.0.0.1", host, "http://"), false),
        ];
        for (origins, peer, fine) in cases {
            assert_eq!(origins.check(&peer).is_ok(), fine, "{origins:?} {peer:?}");
        }
        let mut passed_on = peer("127.0.0.1", host, "http://127.0.0.1:18789");
        passed_on.forwarded = true;
        assert_eq!(plain.check(&passed_on), Err(OriginError::NotAllowed));
    }
}
