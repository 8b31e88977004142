//! The events that this gateway sends.

/// The events that this gateway sends.
pub(super) const EVENTS: [&str; 12] = [
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
    "tick",
];
