//! An open device or file that operations can be issued to.
use std::os::fd::{AsFd, BorrowedFd};
/// stub
#[derive(Debug)]
pub struct Target {
    file: std::fs::File,
}
impl Target {
    /// stub
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
    /// stub
    pub fn file(&self) -> &std::fs::File {
        &self.file
    }
    /// stub
    pub fn stub(file: std::fs::File) -> Self {
        Self { file }
    }
}
