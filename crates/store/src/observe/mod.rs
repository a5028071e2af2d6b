//! The server's own state: counters, log lines, facts for info requests.
//!
//! ```text
//! a core: Counts --copied now and then--> Facts (all cores) --Ticker--> Lines --Logs--> files, console
//!                                           \--wire::info--> replies
//! ```
//!
//! The log has the format of the real server 7.0, so that the same tools can read it.

mod counts;
mod facts;
mod log;
#[cfg(test)]
pub(crate) mod tests;
mod ticker;

pub(crate) use counts::Merge;
pub use counts::{Counts, Kind, Migration, NamespaceCounts, Origin, Outcomes, Transactions};
pub use facts::{BUILD, Bitmap, Facts, Latency, LatencyValues, Node, Peer, Takeover};
pub use log::{Line, Logs};
pub use ticker::{Ticker, start_lines};
