//! Histogram loads: record sizes as a live database counted them, instead of one size or a range.
//!
//! ```text
//! storage-read-histogram   --parse-->  SizeHistogram --+ rule, offset -->  HistogramSizes --> SizeTable
//! storage-write-histogram                                                  mean, largest      drawn from
//! ```
//!
//! The one idea: a histogram gives the share of sizes in each bucket, not their positions in it, so the position is a
//! rule that the user can see and change ([`SizeWithinBucket`]). Source of the keys: Aerospike, "Advanced Flash Device
//! Sizing", which announced them for ACT 4; no released ACT reads them. Their effect on rates is in
//! [`rates`](super::rates).
//!
//! * [`histogram`]: the values of a key, exact
//! * [`distribution`]: position of a size in its bucket, mean size, and a table to draw sizes from

pub mod distribution;
pub mod histogram;

pub use distribution::{HistogramSizes, SizeWithinBucket, Within};
pub use histogram::{BUCKETS_MAX, SizeHistogram};
