//! Durability: are acknowledged writes there after a power cut?
//!
//! ```text
//! machine under test                                    witness, on another machine
//! layout, Session ----------------------- Begin ----->  Register, a file
//! write, flush returned, "durable up to" - Durable -->
//! the power is cut                                      Record
//! Ask -----------------------------------------------> Record
//! read every slot -> Counts by lane -> Durability  - Judged ->
//! ```
//!
//! A lane is a sequence of numbered writes by one thread. Write n goes to slot n of a ring of slots, so that each slot
//! holds a write of its newest generation. A lane never runs further ahead of the witness than
//! [`session::Lane::window`], so a slot has at most one write whose acknowledgement is unknown.

pub mod examine;
pub mod judge;
pub mod session;
pub mod witness;

#[cfg(test)]
mod stories;
