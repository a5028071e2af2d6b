//! A log-structured record engine like Aerospike's, with the index in memory and the records on devices; a server and a
//! client with Aerospike's protocol. A test instrument, not a database for real data.
//!
//! ```text
//! transaction -> Store (one core's part of a namespace) -> reads of records, writes of whole buffers -> StoreDisk
//!                  ^ embedded in a process, or behind the protocol
//! ```
//!
//! The main idea: a [`Store`] does no I/O, and has neither a clock nor a thread. Its owner passes it transactions,
//! completions and the time, and performs its I/O through a [`StoreDisk`]. So the same code runs on a ring shared
//! with sockets, and on a simulated drive that loses power.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod client;
pub mod conf;
mod device_header;
pub mod embedded;
mod index;
mod io;
mod issuer;
mod namespace;
pub mod nodes;
pub mod object;
pub mod observe;
pub mod ops;
mod record;
mod record_store;
mod result_code;
mod seal;
pub mod server;
mod starts;
#[cfg(test)]
mod testing;
mod transaction;
mod verification;
mod volume;
pub mod wire;
mod write_block;

pub use device_header::{
    BORDER_BYTES, DEVICE_HEADER_BYTES, DeviceHeader, HEADER_OFFSETS, HeaderCheck, WRITTEN_BYTES,
};
pub use io::{IoCounts, IoSnapshot};
pub use issuer::Overload;
pub use namespace::{
    Buckets, DeviceStatistics, Losses, NamespaceSettings, StoreDisk, StoreSpace, StoreStatistics,
    write_unit_bytes,
};
pub use record_store::{Remark, Store};
pub use result_code::ResultCode;
pub use seal::MARKS_BYTES;
pub(crate) use seal::{NOTE_BYTES, Note};
pub use starts::Starts;
pub use transaction::{
    Delete, Digest, Exists, Generation, PARTITIONS, Policy, RecordOp, Replies, Reply, Transaction,
    Ttl, Version, Write, digest, partition,
};
pub use verification::Verification;
