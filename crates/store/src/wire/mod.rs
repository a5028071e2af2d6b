//! The protocol of Aerospike's clients: parses bytes to transactions, and formats replies; also a client's queries
//! ([`query`]). This module knows nothing of sockets and stores.
//!
//! ```text
//! bytes -> frame::take -> Info      -> info                                    -> text
//!                         Message   -> request::parse -> ParsedMessage         -> transactions -> message::put_reply
//!                                                     -> MessageError::Refused -> message::put_refusal
//!                         other kinds                                          -> query::put_unsupported
//!          Malformed: the connection is closed
//! ```

pub mod frame;
pub mod info;
pub mod message;
pub mod query;
pub mod request;

#[cfg(test)]
mod tests;

pub use frame::{FrameKind, Malformed};
pub use request::{BatchKey, BatchLimits, MessageError, ParsedMessage, RecordRequest, parse};
