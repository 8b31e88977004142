//! Which scope an event needs, and whether it may be left out for a slow client (protocol 5.1).

/// The scope that a client must have to be told; none for what everybody is told.
pub(super) fn scope(name: &str) -> Option<&'static str> {
    match name {
        "health" | "heartbeat" | "tick" | "shutdown" => None,
        name if name.starts_with("device.pair.") => Some("operator.pairing"),
        _ => Some("operator.read"),
    }
}

/// The events that this gateway sends.
pub(super) const EVENTS: [&str; 11] = [
    "agent",
    "chat",
    "device.pair.changed",
    "device.pair.requested",
    "device.pair.resolved",
    "health",
    "presence",
    "session.message",
    "session.tool",
    "sessions.changed",
    "shutdown",
];
