//! When a device needs an approval, and when it gets one without a person.

use super::devices::{About, Device};
use super::origin::Peer;
use super::secret::text;
use serde_json::Value;

/// Why a device needs an approval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reason {
    NotPaired,
    Scopes,
    Metadata,
}

impl Reason {
    /// `details.reason`.
    pub fn word(self) -> &'static str {
        match self {
            Reason::NotPaired => "not-paired",
            Reason::Scopes => "scope-upgrade",
            Reason::Metadata => "metadata-upgrade",
        }
    }

    /// What is told to people, and what they can do.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Reason::NotPaired => (
                "pairing required: this device is not approved yet",
                "Approve the device among the requests that wait.",
            ),
            Reason::Scopes => (
                "pairing required: more scopes are asked for than are approved",
                "Look at the scopes of the request that waits, then approve it.",
            ),
            Reason::Metadata => (
                "pairing required: the device says that it is another one than before",
                "Look at the device's details in the request that waits, then approve it.",
            ),
        }
    }
}

/// What kind of client asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    /// The page of the gateway itself.
    pub control_ui: bool,
    /// A page.
    pub web: bool,
    /// It cannot be without a device proof.
    pub needs_proof: bool,
    /// An app of a phone or a Mac.
    pub app: bool,
    pub cli: bool,
    /// The gateway's own calls to itself.
    pub backend: bool,
    /// It only looks whether somebody is there.
    pub probe: bool,
}

impl Kind {
    pub fn of(params: &Value) -> Kind {
        let client = &params["client"];
        let (id, mode) = (text(&client["id"]), text(&client["mode"]));
        let control_ui = id == "openclaw-control-ui";
        let copilot = id == "openclaw-browser-copilot";
        let apps = ["openclaw-macos", "openclaw-ios", "openclaw-android", "openclaw-watchos"];
        Kind {
            control_ui,
            web: control_ui || copilot || id == "webchat-ui" || mode == "webchat",
            needs_proof: control_ui || copilot || id == "openclaw-tui",
            app: mode == "ui" && apps.contains(&id),
            cli: id == "cli" && mode == "cli",
            backend: id == "gateway-client" && mode == "backend",
            probe: mode == "probe",
        }
    }
}

/// Whether an approval needs no person (H15). `secret` says that the shared secret was shown.
pub(super) fn silent(peer: &Peer, kind: Kind, secret: bool, reason: Reason) -> bool {
    let here = peer.direct_local();
    let container =
        kind.control_ui && secret && !peer.forwarded && peer.is_private() && peer.loopback_page();
    if !(here || container) || (peer.has_origin() && !kind.web) {
        return false;
    }
    match reason {
        Reason::NotPaired | Reason::Scopes => true,
        Reason::Metadata => {
            here && !peer.has_origin() && !kind.web && (kind.app || kind.cli || secret)
        }
    }
}

/// Whether a device says of itself what it said when it was approved (H14).
pub(super) fn pinned(device: &Device, now: &About) -> bool {
    let low = |text: &Option<String>| text.as_deref().unwrap_or("").to_ascii_lowercase();
    let (was, is) = (low(&device.about.platform), low(&now.platform));
    let system = |text: &str| text.split(' ').next().unwrap_or("").replace("ipados", "ios");
    let app = now.client_id.as_deref().is_some_and(|id| {
        ["openclaw-macos", "openclaw-ios", "openclaw-android", "openclaw-watchos"].contains(&id)
    });
    let platform = was.is_empty() || was == is || (app && system(&was) == system(&is));
    let (was, is) = (low(&device.about.device_family), low(&now.device_family));
    platform && (was.is_empty() || was == is)
}
