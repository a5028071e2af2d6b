//! What the server tells of itself: counters, the lines of its log, the state that info requests are answered from.
//!
//! ```text
//! a core: Counts --copied now and then--> Facts (all cores) --Ticker--> Lines --Logs--> files, console
//!                                           \--wire::info--> replies
//! ```
//!
//! The log has the form of the real server's of 7.0, so that what reads those reads these.

mod counts;
mod facts;
mod log;
#[cfg(test)]
pub(crate) mod tests;
mod ticker;

pub use counts::{Counts, Kind, NamespaceCounts, Origin, Outcomes, Transactions};
pub use facts::{BUILD, Bitmap, Facts, Node, Peer};
pub use log::{Line, Logs};
pub use ticker::{Latency, LatencyValues, Ticker, start_lines};
