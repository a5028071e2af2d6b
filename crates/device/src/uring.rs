//! The world of io_uring.
