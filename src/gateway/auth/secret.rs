//! The gateway's shared secret, and how it is compared.

use crate::base::id::hex;
use crate::config::Secret;
use ring::digest::{Context, SHA256};
use serde_json::Value;

/// How clients show that they may connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// They need not.
    None,
    /// By a token.
    Token,
    /// By a password.
    Password,
}

impl Mode {
    /// The mode's name on the wire and in the config.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Mode::None => "none",
            Mode::Token => "token",
            Mode::Password => "password",
        }
    }
}

/// A `gateway.auth` that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthError {
    /// A mode that we do not have.
    #[error("gateway.auth.mode: {0:?} is not supported: use \"token\", \"password\" or \"none\"")]
    Mode(String),
    /// A person's name in a header of Tailscale's.
    #[error("gateway.auth.allowTailscale is not supported: clients need the token or password")]
    Tailscale,
    /// A mode without its secret.
    #[error("gateway.auth.{0} is missing or blank, and gateway.auth.mode is \"{0}\"")]
    NoSecret(&'static str),
}

/// The mode and its secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Auth {
    mode: Mode,
    secret: Secret,
}

impl Auth {
    /// Resolves `gateway.auth`: `mode` is its word, and the others are its fields of that name.
    ///
    /// # Errors
    /// What is not supported, or a secret that is missing (H6).
    pub fn new(
        mode: &str,
        token: Option<&Secret>,
        password: Option<&Secret>,
        allow_tailscale: bool,
    ) -> Result<Auth, AuthError> {
        let (mode, secret) = match mode {
            "none" => (Mode::None, None),
            "token" => (Mode::Token, token),
            "password" => (Mode::Password, password),
            other => return Err(AuthError::Mode(other.chars().take(40).collect())),
        };
        if allow_tailscale {
            return Err(AuthError::Tailscale);
        }
        let secret = Secret::new(secret.map_or("", Secret::expose).trim());
        if mode != Mode::None && secret.expose().is_empty() {
            return Err(AuthError::NoSecret(mode.word()));
        }
        Ok(Auth { mode, secret })
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether one of the two fields of `connect.auth` has the secret; both are always compared.
    pub(super) fn check(&self, token: &str, password: &str) -> Shown {
        if self.mode == Mode::None {
            return Shown::Right;
        }
        let secret = self.secret.expose();
        let fits = same(secret, token) | same(secret, password);
        match fits {
            true => Shown::Right,
            false if token.is_empty() && password.is_empty() => Shown::Nothing,
            false => Shown::Wrong,
        }
    }

    /// The mark of this secret under a salt: it tells whether the secret is still the same.
    pub(super) fn mark(&self, salt: &str) -> String {
        let mut context = Context::new(&SHA256);
        for part in [salt, self.mode.word(), self.secret.expose()] {
            context.update(part.as_bytes());
            context.update(&[0]);
        }
        hex(context.finish().as_ref())
    }
}

/// What a client has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    Right,
    Wrong,
    Nothing,
}

/// Whether two texts are the same, by their digests: how long it takes does not tell where they
/// differ.
pub(super) fn same(a: &str, b: &str) -> bool {
    let digest = |text: &str| ring::digest::digest(&SHA256, text.as_bytes());
    let (a, b) = (digest(a), digest(b));
    let pairs = a.as_ref().iter().zip(b.as_ref());
    let differ = pairs.fold(0u8, |all, (x, y)| std::hint::black_box(all | (x ^ y)));
    differ == 0
}

/// A text of the parameters without blanks around it; empty where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("").trim()
}
