//! The world of threads with pread and pwrite.
