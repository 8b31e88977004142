//! What is stored, as rows, and what clients ask for and change beside the runs. Plain data: the
//! store fills it, the gateway reads it.

mod query;
mod rows;

pub use query::{Fork, Found, Listed, Page, Query, Sort, Stored, Wanted, Which};
pub use rows::{RunRow, SessionRow};
