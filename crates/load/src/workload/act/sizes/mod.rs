//! Histogram loads: record sizes as a live database counted them, instead of one size or a range.
//!
//! ```text
//! storage-read-histogram   --parse-->  SizeHistogram --+ rule, offset -->  HistogramSizes --> SizeTable
//! storage-write-histogram                                                  mean, largest      drawn from
//! ```
//!
//! The one idea: a histogram says how many sizes lie in each bucket and not where in it, so the place
//! in a bucket is a rule that the user can see and change
//! ([`SizeWithinBucket`]). Source of the keys: Aerospike, "Advanced
//! Flash Device Sizing", which announced them for ACT 4; no released ACT reads them. What they make of
//! rates is in [`rates`](super::rates).
//!
//! * [`histogram`]: the values of a key, exact, and what is wrong with them
//! * [`distribution`]: where in its bucket a size lies, how large it is on average, and a table to draw it from
//! * [`problem`]: what can be wrong with either, and with a load that has them

pub mod distribution;
pub mod histogram;
pub mod problem;

pub use distribution::{HistogramSizes, SizeWithinBucket, Within};
pub use histogram::{BUCKETS_MAX, SizeHistogram};
