//! An open device or file that operations can be issued to.
