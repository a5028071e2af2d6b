//! The bytes that are written.
