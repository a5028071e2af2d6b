//! A rating: the highest multiple of a load that a drive holds in its steady state.
//!
//! ```text
//! Search ──next()──> Move: try, recover, confirm ──run, watched by Watcher──> Seen ──record()──> Search ...
//!                                                                                └──> Finding
//! ```
//!
//! The search climbs from below and never loads a drive by more than one step beyond what it is known to hold, because
//! an overdriven drive answers slowly for a long time afterwards. A step is watched round by round and ends as soon as
//! its shares are settled or a cliff shows. After a failed step the last held load runs until its earlier shares
//! return; only then is another load judged.
//!
//! Nothing runs here. The caller runs a step and records its result, so the same search can be replayed from a record.

mod conclude;
mod search;
mod watch;

pub use conclude::{Details, Standing, conclude};
pub use search::{Finding, Move, Multiple, Search, Stop};
pub use watch::{Judged, RECOVERY_ROUNDS_MAX, ROUNDS_MIN, SPELLS_IN_WINDOW, Seen, Shares, Target, Watcher};
