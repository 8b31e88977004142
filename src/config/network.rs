//! `gateway`: where the gateway listens, and whom it lets in.

use super::read::{At, Env, Read, secret};
use super::{Config, Deferred, keys};
use core::net::Ipv4Addr;

/// `gateway.bind`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Bind {
    /// This machine alone.
    #[default]
    Loopback,
    /// Every address.
    Lan,
    /// `customBindHost`.
    Custom(Ipv4Addr),
}

/// `gateway`.
#[derive(Clone, PartialEq, Debug)]
pub struct Network {
    /// `port`. Default 18789.
    pub port: u16,
    /// `bind`. Default `loopback`.
    pub bind: Bind,
    /// `auth.mode`: `none`, `token` or `password`, where the config says.
    pub auth_mode: Option<String>,
    /// `auth.token`.
    pub token: Option<Deferred>,
    /// `auth.password`.
    pub password: Option<Deferred>,
    /// `controlUi.enabled`. Default true.
    pub ui: bool,
    /// `controlUi.root`: the directory whose files are the Control UI.
    pub ui_root: Option<String>,
    /// `controlUi.basePath`, with a slash before it and none after; empty for none.
    pub ui_base: String,
    /// `controlUi.allowedOrigins`.
    pub origins: Vec<String>,
    /// `controlUi.dangerouslyAllowHostHeaderOriginFallback`. Default false.
    pub host_origin: bool,
    /// `nodes.pairing.autoApproveLocal`. Default true.
    pub auto_approve_local: bool,
    /// `http.endpoints.chatCompletions.enabled`. Default false.
    pub chat_completions: bool,
}

impl Default for Network {
    fn default() -> Network {
        Network {
            port: PORT,
            bind: Bind::Loopback,
            auth_mode: None,
            token: None,
            password: None,
            ui: true,
            ui_root: None,
            ui_base: String::new(),
            origins: vec![],
            host_origin: false,
            auto_approve_local: true,
            chat_completions: false,
        }
    }
}

/// The port where nobody says.
pub const PORT: u16 = 18_789;

/// Reads `gateway`.
pub(super) fn gateway(at: &At<'_>, env: Env<'_>, config: &mut Config) -> Read<()> {
    let (mut bind, mut custom) = (None, None);
    let network = &mut config.network;
    for (key, at) in at.fields()? {
        match key {
            "port" => match u16::try_from(at.whole(u32::from(u16::MAX))?) {
                Ok(port) if port > 0 => network.port = port,
                _ => return at.bad("a port is a number from 1 to 65535"),
            },
            "mode" if at.text()? == "local" => {}
            "mode" => return at.bad("only \"local\" is supported"),
            "bind" => bind = Some(at),
            "customBindHost" => match at.text()?.parse() {
                Ok(address) => custom = Some(address),
                Err(_) => return at.bad("expected an IPv4 address"),
            },
            "auth" => auth(&at, env, network)?,
            "controlUi" => control_ui(&at, network)?,
            "nodes" => nodes(&at, network)?,
            "http" => http(&at, network)?,
            _ => return at.unknown(keys::GATEWAY),
        }
    }
    if let Some(at) = bind {
        network.bind = match (at.text()?, custom) {
            ("loopback" | "auto", _) => Bind::Loopback,
            ("lan", _) => Bind::Lan,
            ("custom", Some(address)) => Bind::Custom(address),
            ("custom", None) => return at.bad("\"custom\" needs customBindHost"),
            ("tailnet", _) => return at.bad("\"tailnet\" is not supported"),
            _ => return at.wrong("\"loopback\", \"lan\", \"auto\" or \"custom\""),
        };
    }
    Ok(())
}

fn auth(at: &At<'_>, env: Env<'_>, network: &mut Network) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "mode" => match at.text()? {
                mode @ ("none" | "token" | "password") => {
                    network.auth_mode = Some(mode.to_owned());
                }
                "trusted-proxy" => return at.bad("\"trusted-proxy\" is not supported"),
                _ => return at.wrong("\"none\", \"token\" or \"password\""),
            },
            "token" => network.token = Some(secret(&at, env)?),
            "password" => network.password = Some(secret(&at, env)?),
            "allowTailscale" if !at.flag()? => {}
            "allowTailscale" => return at.bad("Tailscale identities are not supported"),
            _ => return at.unknown(keys::GATEWAY_AUTH),
        }
    }
    Ok(())
}

fn control_ui(at: &At<'_>, network: &mut Network) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "enabled" => network.ui = at.flag()?,
            "root" => network.ui_root = Some(at.text()?.to_owned()),
            "basePath" => network.ui_base = base_path(&at)?,
            "allowedOrigins" => {
                let origins: Read<Vec<String>> =
                    at.items()?.iter().map(|origin| Ok(origin.text()?.to_owned())).collect();
                network.origins = origins?;
            }
            "dangerouslyAllowHostHeaderOriginFallback" => network.host_origin = at.flag()?,
            _ => return at.unknown(keys::GATEWAY_UI),
        }
    }
    Ok(())
}

/// A leading slash and none behind (protocol 1.3).
fn base_path(at: &At<'_>) -> Read<String> {
    let text = at.text()?.trim_matches('/');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '/' | '.');
    if !text.chars().all(plain) || text.split('/').any(|part| part == "..") {
        return at.bad("a path has letters, digits, and - _ . between slashes");
    }
    Ok(if text.is_empty() { String::new() } else { format!("/{text}") })
}

fn nodes(at: &At<'_>, network: &mut Network) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "pairing" => {
                for (key, at) in at.fields()? {
                    match key {
                        "autoApproveLocal" => network.auto_approve_local = at.flag()?,
                        _ => return at.unknown(keys::GATEWAY_PAIRING),
                    }
                }
            }
            _ => return at.unknown(keys::GATEWAY_NODES),
        }
    }
    Ok(())
}

fn http(at: &At<'_>, network: &mut Network) -> Read<()> {
    for (key, at) in at.fields()? {
        match key {
            "endpoints" => {
                for (key, at) in at.fields()? {
                    match key {
                        "chatCompletions" => network.chat_completions = enabled(&at)?,
                        _ => return at.unknown(keys::GATEWAY_ENDPOINTS),
                    }
                }
            }
            _ => return at.unknown(keys::GATEWAY_HTTP),
        }
    }
    Ok(())
}

fn enabled(at: &At<'_>) -> Read<bool> {
    let mut enabled = false;
    for (key, at) in at.fields()? {
        match key {
            "enabled" => enabled = at.flag()?,
            _ => return at.unknown(&[]),
        }
    }
    Ok(enabled)
}
