//! Durability: tests if acknowledged writes survive a power cut.
//!
//! ```text
//! machine under test                                    witness, on another machine
//! layout, Session ----------------------- Begin ----->  sessions in a file
//! write, flush returned, "durable up to" - Durable -->
//! the power is cut                                      Record
//! Ask -----------------------------------------------> Record
//! read every slot -> Counts by lane -> Durability  - Judged ->
//! ```
//!
//! A lane is a sequence of numbered writes by one thread to a ring of slots. Successive writes go to different slots,
//! and each write overwrites the oldest write. A lane issues at most [`session::WriteLane::window`] writes that the witness
//! has not confirmed, so a slot has at most one write whose acknowledgement is unknown.

pub mod examine;
pub mod judge;
pub mod session;
pub mod witness;

#[cfg(test)]
mod stories;
