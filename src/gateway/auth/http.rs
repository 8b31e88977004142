//! The gate for requests that are no WebSocket (H30 to H32).

use super::connect::Gate;
use super::origin::Peer;
use super::secret::{Mode, Shown};
use crate::base::Millis;

/// Why a request is not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HttpRefusal {
    /// It names this gateway by a host that is not this machine's (H31).
    #[error(
        "this host name is not allowed: use 127.0.0.1 or localhost, or add the page's origin to \
         gateway.controlUi.allowedOrigins"
    )]
    Host,
    /// A browser sent it from a page that may not be here (H32).
    #[error("origin not allowed: add it to gateway.controlUi.allowedOrigins")]
    Origin,
    /// Its address is locked, for so many ms (H7).
    #[error("too many failed attempts (try again later)")]
    Locked(u64),
    /// It has no secret (H30).
    #[error("the gateway's token or password is missing: send it as Authorization: Bearer")]
    Missing,
    /// Its secret is wrong; the answer is held back for so many ms (H7, H30).
    #[error("the token or password is wrong")]
    Wrong(u64),
}

impl Gate {
    /// Judges a request by its `Authorization` (H30). Host and origin come first.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn bearer(
        &mut self,
        peer: &Peer,
        authorization: Option<&str>,
        now: Millis,
    ) -> Result<(), HttpRefusal> {
        let origins = &self.policy.origins;
        if self.policy.loopback_only && !origins.has_host(peer) {
            return Err(HttpRefusal::Host);
        }
        if peer.has_origin() && origins.check(peer).is_err() {
            return Err(HttpRefusal::Origin);
        }
        if let Some(ms) = self.lockout.locked(peer.address, now) {
            return Err(HttpRefusal::Locked(ms));
        }
        match self.auth.check(shown(authorization), "") {
            Shown::Right => {
                if self.auth.mode() != Mode::None {
                    self.lockout.succeeded(peer.address);
                }
                Ok(())
            }
            Shown::Nothing => Err(HttpRefusal::Missing),
            Shown::Wrong => Err(HttpRefusal::Wrong(self.lockout.failed(peer.address, now))),
        }
    }

    /// Whether somebody who asks for a probe is told details: they are on this machine, or have
    /// shown the secret. Showing a wrong one counts (H7).
    pub fn confides(&mut self, peer: &Peer, authorization: Option<&str>, now: Millis) -> bool {
        match authorization {
            None => peer.direct_local(),
            Some(_) => self.bearer(peer, authorization, now).is_ok(),
        }
    }

    /// Whether everybody may come in.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.auth.mode() == Mode::None
    }
}

/// The secret of an `Authorization: Bearer`; empty where there is none.
fn shown(authorization: Option<&str>) -> &str {
    let header = authorization.unwrap_or("").trim();
    match header.split_once([' ', '\t']) {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") => secret.trim(),
        // Another scheme is a guess as well.
        _ => header,
    }
}
