//! The commands, one file each.

pub mod align;
pub mod baseline;
pub mod certify;
pub mod client;
pub mod cluster;
pub mod compare;
pub mod config;
pub mod devices;
pub mod doctor;
pub mod fio;
pub mod latency;
pub mod loglatency;
pub mod predict;
pub mod prep;
pub mod rate;
pub mod replay;
pub mod report;
pub mod select;
pub mod serve;
pub mod size;
pub mod status;
pub mod tenants;
pub mod test;
pub mod trace;
pub mod transactions;
pub mod waf;

/// As whose program a command behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// Ours: verdicts and results on standard output, exit codes 0 to 4.
    Own,
    /// That of ACT's program by whose name we were called: its log or its lines on standard output, its
    /// exit codes, of which there are two.
    Act,
    /// That of fio, by whose name we were called: what it prints, and 0 or 1.
    Fio,
}
