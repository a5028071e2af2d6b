//! ACT 6.6's log, written and read.
