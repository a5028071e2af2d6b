//! Memory check before a model is allocated: without enough memory the kernel would kill the process.

use results::format;

/// Errors: less memory is available than needed. Passes if the kernel does not report the available memory.
pub fn check(needed_bytes: u64) -> Result<(), String> {
    match sys::buffer::available_bytes() {
        Some(available_bytes) if needed_bytes > available_bytes => {
            let needed = format::bytes(needed_bytes as f64);
            let available = format::bytes(available_bytes as f64);
            Err(format!(
                "{needed} of memory are needed, but only {available} are available"
            ))
        }
        _ => Ok(()),
    }
}
