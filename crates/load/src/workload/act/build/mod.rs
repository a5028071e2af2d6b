//! From a test's configuration to what its shards run: streams, lanes, limits and buffers.
//!
//! The one idea: everything about a stream on a device (its cell, buffers, phase and random numbers)
//! follows from the stream, the device and the shard. Pure: it sees devices as sizes only.
//!
//! * [`storage`](mod@storage), [`index`](mod@index): check that the devices are large enough, and add the streams of either test with
//!   their limits and buffers, shard by shard
//! * `common`: how rates become arrivals, limits and shards

mod common;
mod index;
mod storage;

pub(super) use index::index;
pub(super) use storage::storage;
