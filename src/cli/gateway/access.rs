//! Who may connect: the secret, where it comes from, and where it is kept.

use super::super::args::GatewayArgs;
use super::super::{Failed, USAGE};
use crate::config::{Bind, Config, Paths, Secret};
use crate::gateway::auth::{Auth, Origins, Policy};
use crate::reactor::entropy;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The variable that holds the token (decisions 30).
const TOKEN_VARIABLE: &str = "STEPCLAW_GATEWAY_TOKEN";

/// How clients show who they are, and whether a token was made for it just now.
pub(super) struct Access {
    pub auth: Auth,
    pub made: bool,
}

/// The file of a token that nobody has set.
pub(in crate::cli) fn token_file(paths: &Paths) -> PathBuf {
    paths.state.join("gateway.token")
}

/// The secret by the arguments, the environment, the config, or a file that is made for it.
pub(super) fn access(args: &GatewayArgs, config: &Config, paths: &Paths) -> Result<Access, Failed> {
    let (mode, mut token, password) = said(args, config)?;
    let mut made = false;
    if mode == "token" && token.is_none() {
        let (text, new) = kept_token(paths)?;
        (token, made) = (Some(Secret::new(text)), new);
    }
    Ok(Access { auth: auth(&mode, token.as_ref(), password.as_ref())?, made })
}

/// Whether a gateway could be started with this config; nothing is made for it.
pub(super) fn fits(args: &GatewayArgs, config: &Config) -> Result<(), Failed> {
    let (mode, token, password) = said(args, config)?;
    // The one in the file, or the one that would be made, will do.
    let token = token.or_else(|| Some(Secret::new("a token that is kept in a file")));
    address(args, config, &auth(&mode, token.as_ref(), password.as_ref())?).map(|_| ())
}

fn auth(mode: &str, token: Option<&Secret>, password: Option<&Secret>) -> Result<Auth, Failed> {
    Auth::new(mode, token, password, false).map_err(|e| Failed::new(USAGE, e.to_string()))
}

/// The mode and the secrets that somebody has given.
type Said = (String, Option<Secret>, Option<Secret>);

fn said(args: &GatewayArgs, config: &Config) -> Result<Said, Failed> {
    let usage = |text: String| Failed::new(USAGE, text);
    let network = &config.network;
    let of_config = |deferred: &Option<crate::config::Deferred>| match deferred {
        None => Ok(None),
        Some(deferred) => {
            deferred.get().cloned().map(Some).map_err(|missing| usage(missing.to_string()))
        }
    };
    let (mut token, mut password) = (of_config(&network.token)?, of_config(&network.password)?);
    let mut mode = network.auth_mode.clone();
    if let Ok(text) = std::env::var(TOKEN_VARIABLE)
        && !text.trim().is_empty()
    {
        token = Some(Secret::new(text));
    }
    if let Some(text) = &args.token {
        (token, mode) = (Some(Secret::new(text)), Some("token".to_owned()));
    }
    if let Some(text) = &args.password {
        (password, mode) = (Some(Secret::new(text)), Some("password".to_owned()));
    }
    let mode = mode.unwrap_or_else(|| {
        let only_password = token.is_none() && password.is_some();
        if only_password { "password".to_owned() } else { "token".to_owned() }
    });
    Ok((mode, token, password))
}

/// The token in its file; it is made if there is none, for its owner alone.
fn kept_token(paths: &Paths) -> Result<(String, bool), Failed> {
    let path = token_file(paths);
    let failed = |e: std::io::Error| Failed::new(USAGE, format!("{}: {e}", path.display()));
    match std::fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok((text.trim().to_owned(), false)),
        Ok(_) => {
            let words =
                format!("{}: the file is empty; remove it or put a token in", path.display());
            return Err(Failed::new(USAGE, words));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(failed(e)),
    }
    let token = crate::base::id::hex(&entropy::<24>());
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let mut file = file.map_err(failed)?;
    writeln!(file, "{token}").and_then(|()| file.sync_all()).map_err(failed)?;
    Ok((token, true))
}

/// Which pages may connect, and which devices are taken without a question.
pub(super) fn policy(config: &Config, bind: &Bind, port: u16) -> Policy {
    let network = &config.network;
    let mut allowed = network.origins.clone();
    if *bind != Bind::Loopback && allowed.is_empty() {
        // What is served from here may connect to here.
        allowed.push(format!("http://127.0.0.1:{port}"));
        allowed.push(format!("http://localhost:{port}"));
    }
    Policy {
        origins: Origins { allowed, host_fallback: network.host_origin },
        auto_approve_local: network.auto_approve_local,
        loopback_only: *bind == Bind::Loopback,
    }
}

/// Where to listen.
pub(super) fn address(
    args: &GatewayArgs,
    config: &Config,
    auth: &Auth,
) -> Result<(Bind, SocketAddr), Failed> {
    let bind = match args.bind.as_deref() {
        None => config.network.bind.clone(),
        Some("loopback" | "auto") => Bind::Loopback,
        Some("lan") => Bind::Lan,
        Some(text) => match text.parse() {
            Ok(address) => Bind::Custom(address),
            Err(_) => {
                let words = format!("--bind {text}: expected loopback, lan or an IPv4 address");
                return Err(Failed::new(USAGE, words));
            }
        },
    };
    let host = match bind {
        Bind::Loopback => Ipv4Addr::LOCALHOST,
        Bind::Lan => Ipv4Addr::UNSPECIFIED,
        Bind::Custom(address) => address,
    };
    if !host.is_loopback() && auth.mode() == crate::gateway::auth::Mode::None {
        let words =
            "gateway.auth.mode \"none\" is for loopback alone: others could use the gateway";
        return Err(Failed::new(USAGE, words));
    }
    let port = args.port.unwrap_or(config.network.port);
    Ok((bind, SocketAddr::new(IpAddr::V4(host), port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Cli;
    use crate::cli::args::Command;
    use crate::config::parse;
    use clap::Parser;

    /// C14: what a start would refuse is known without making anything.
    #[test]
    fn what_a_start_refuses_is_known() {
        let fits = |args: &[&str], text: &str| {
            let cli = Cli::try_parse_from([&["stepclaw", "gateway"], args].concat()).unwrap();
            let Command::Gateway(args) = cli.command else { panic!("a gateway") };
            fits(&args, &parse(text, &|_| None).unwrap()).map_err(|failed| failed.text)
        };
        let open = "{ gateway: { auth: { mode: 'none' }, bind: 'lan' } }";
        assert!(fits(&[], open).unwrap_err().contains("loopback alone"));
        assert!(fits(&["--bind", "loopback"], open).is_ok());
        assert!(fits(&[], "{ gateway: { auth: { token: '${NO_SUCH}' } } }").is_err());
        assert!(fits(&[], "{ gateway: { auth: { mode: 'password' } } }").is_err());
        assert!(fits(&[], "{}").is_ok());
    }
}
