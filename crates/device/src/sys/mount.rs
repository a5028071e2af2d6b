//! Mounting a private tracefs instance.
