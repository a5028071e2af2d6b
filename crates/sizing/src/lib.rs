//! The load on the drives of a live cluster, and the load profile derived from it.
//!
//! ```text
//! server logs  --server_log--> ServerLog  \
//! iostat       --iostat------> Iostat      >--derive--> Profile --configuration--> ACT's dialect
//! info replies --info--------> InfoReplies /               |
//!                                                          +--align, select
//! ```
//!
//! The main idea: the readers keep all counters and instants unchanged. Rates are computed in one place, from
//! differences between two instants. Rates from different sources are compared before use.
//!
//! "The paper" is Aerospike's "Advanced Flash Device Sizing", which describes the same steps by hand.
//!
//! * [`source`], [`lines`]: decompressed input files, and their lines
//! * [`server_log`]: logs of the database: histograms, drv_ssd lines, restarts
//! * [`loglatency`]: tables of one histogram of a log, as asloglatency prints them
//! * [`info`]: replies of the info protocol, recorded in files
//! * [`pasted`]: tables of asloglatency in place of a log
//! * [`iostat`]: output of sysstat's iostat
//! * [`profile`]: the load of each namespace on each device, as a file
//! * [`drive_io`]: I/O that reaches a drive, in iostat's numbers
//! * [`configuration`]: a test's configuration for each namespace
//! * [`align`]: the offsets with which a configuration reproduces the cluster's I/O
//! * [`select`]: number of drives of one model that a cluster's load needs

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files of their own")
)]

pub mod align;
pub mod configuration;
#[cfg(test)]
#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
pub mod drive_io;
pub mod info;
pub mod iostat;
pub mod lines;
pub mod loglatency;
pub mod pasted;
pub mod profile;
pub mod select;
pub mod server_log;
pub mod source;
