//! Block device ioctls.
