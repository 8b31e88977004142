//! Who may connect, and what paired devices may do (`spec/auth.md`). Pure: addresses, headers,
//! time and random bytes come in; verdicts, changes and events come out.

mod connect;
mod devices;
#[cfg(any(test, fuzzing, feature = "sim"))]
pub mod fuzz;
mod http;
mod lockout;
mod methods;
mod origin;
mod pairing;
mod proof;
mod refusal;
mod scopes;
mod secret;
mod table;
#[cfg(test)]
mod tests;

pub use connect::{Admitted, Gate, Policy, Verdict};
pub use devices::{About, Change, Device, Devices, Effects, Entropy, Event, Issuer, Token};
pub use http::HttpRefusal;
pub use methods::{Caller, Done};
pub use origin::{Origins, Peer, is_forwarding};
pub use proof::Challenge;
pub use refusal::Refused;
pub use scopes::{Scope, Scopes, droppable, hears, permit};
pub use secret::{Auth, AuthError, Mode};
