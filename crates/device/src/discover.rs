//! What a device is.
