//! stub
pub mod stamp;
