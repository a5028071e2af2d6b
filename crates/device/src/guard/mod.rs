//! Whether a device may be erased.
