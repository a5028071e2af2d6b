//! The simulated world: a queueing model on virtual time.
