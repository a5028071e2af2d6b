//! What a live cluster says of the load on its drives, and the load profile that follows.
//!
//! ```text
//! server logs  --server_log--> ServerLog  \
//! iostat       --iostat------> Iostat      >--derive--> Profile --configuration--> ACT's dialect
//! info replies --info--------> InfoReplies /               |
//!                                                          +--align, select
//! ```
//!
//! The one idea: whatever is read keeps its counters and instants as they were told; rates are made in one
//! place, of differences between two instants, and each is checked against the others before it is used.
//!
//! * [`source`], [`lines`]: files that somebody names, and their lines
//! * [`server_log`]: logs of the database: histograms, drv_ssd lines, restarts
//! * [`loglatency`]: tables of one histogram of a log, as asloglatency prints them
//! * [`info`]: replies of the info protocol, as files keep them
//! * [`pasted`]: tables of asloglatency in the place of a log
//! * [`iostat`]: what sysstat's iostat printed
//! * [`source`]: files that somebody names, decompressed
//! * [`profile`]: the load of each namespace on each device, as a file
//! * [`drive_io`]: what reaches a drive, in iostat's numbers
//! * [`configuration`]: a test's configuration for each namespace
//! * [`align`]: the offsets with which a configuration does what the cluster did
//! * [`select`]: how many drives of a kind a cluster's load needs

#![forbid(unsafe_code)]

pub mod align;
pub mod configuration;
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
