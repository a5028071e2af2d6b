//! Page-aligned I/O buffers, each owned by exactly one place at a time.
//!
//! A [`Region`] is one anonymous mapping, cut once into [`Buf`]s that never overlap. A buffer moves from the pool
//! into an operation, from there into the engine that passes its address to the kernel, and back with the completion.
//! The owner of the `Buf` may access the bytes; while the engine owns it, the kernel may.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every buffer: the largest minimum I/O size that probing finds.
pub const ALIGN: usize = 4096;

/// Smallest mapping for which huge pages pay (2 MiB where pages are 4 KiB).
const HUGE_PAGE: usize = 2 << 20;

/// An anonymous private mapping.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory without thread affinity; access goes through the `Buf`s cut
// from it, which never overlap.
unsafe impl Send for Region {}
// SAFETY: as above; `Region` itself gives no access to the bytes.
unsafe impl Sync for Region {}

impl Region {
    fn new(len: usize) -> io::Result<Self> {
        // SAFETY: a fresh anonymous mapping aliases nothing.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        if len >= HUGE_PAGE {
            // A hint: fewer page tables to walk for the kernel and for this process. No effect without huge pages.
            // SAFETY: the range is the mapping just made; the advice changes no byte of it.
            unsafe { libc::madvise(start, len, libc::MADV_HUGEPAGE) };
        }
        Ok(Self { start: NonNull::new(start.cast()).expect("mmap never maps page zero"), len })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `start` and `len` are those of the mapping, and no `Buf` is left: each holds an Arc.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A page-aligned buffer; empty on simulated drives that store no data. One pointer: it moves with every operation.
#[derive(Debug)]
pub struct Buf(Option<Box<Cut>>);

/// The part of a region that is a buffer's.
#[derive(Debug)]
struct Cut {
    region: Arc<Region>,
    offset: usize,
    len: usize,
    registered: Option<u16>,
}

impl Buf {
    /// A buffer of length 0, without memory.
    pub const fn empty() -> Self {
        Self(None)
    }

    /// Index of the registered memory that the buffer lies in, if the engine registered it.
    pub fn registered(&self) -> Option<u16> {
        self.0.as_ref()?.registered
    }

    /// Address for the kernel. The caller keeps the `Buf` until the kernel is done with it.
    pub(crate) fn address(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: offset + len lie in the mapping (checked when cut), the bytes are initialised
            // (anonymous memory is zero), and no other `Buf` covers them.
            Some(cut) => unsafe { std::slice::from_raw_parts(cut.region.start.as_ptr().add(cut.offset), cut.len) },
            None => &[],
        }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &self.0 {
            // SAFETY: as in `deref`, and `&mut self` excludes every other access.
            Some(cut) => unsafe { std::slice::from_raw_parts_mut(cut.region.start.as_ptr().add(cut.offset), cut.len) },
            None => &mut [],
        }
    }
}

/// Cuts buffers from one region, in order, until it is used up.
#[derive(Debug)]
pub struct Pool {
    region: Arc<Region>,
    next: usize,
    registered: Option<u16>,
}

impl Pool {
    /// A pool of `len` bytes, rounded up to whole pages. Memory is touched only when used.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(ALIGN).max(ALIGN);
        Ok(Self { region: Arc::new(Region::new(len)?), next: 0, registered: None })
    }

    /// The next `len` bytes, page-aligned; `None` when less is left in the pool.
    pub fn cut(&mut self, len: usize) -> Option<Buf> {
        let end = self.next.checked_add(len)?;
        if end > self.region.len {
            return None;
        }
        let cut = Cut { region: self.region.clone(), offset: self.next, len, registered: self.registered };
        self.next = end.next_multiple_of(ALIGN);
        Some(Buf(Some(Box::new(cut))))
    }

    /// The whole memory, for registering with the kernel.
    pub(crate) fn iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.region.start.as_ptr().cast(), iov_len: self.region.len }
    }

    /// Marks the buffers cut from now on as registered under `index`.
    pub(crate) fn set_registered(&mut self, index: u16) {
        self.registered = Some(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_do_not_overlap() {
        let mut pool = Pool::new(3 * ALIGN).unwrap();
        let mut first = pool.cut(1536).unwrap();
        let mut second = pool.cut(ALIGN).unwrap();
        first.fill(1);
        second.fill(2);
        assert!(first.iter().all(|byte| *byte == 1));
        assert_eq!(first.as_ptr() as usize % ALIGN, 0);
        assert_eq!(second.as_ptr() as usize % ALIGN, 0);
        assert!(pool.cut(ALIGN + 1).is_none());
        assert!(pool.cut(ALIGN).is_some());
    }

    #[test]
    fn a_buffer_outlives_its_pool() {
        let mut buf = Pool::new(ALIGN).unwrap().cut(8).unwrap();
        buf.fill(7);
        assert_eq!(&*buf, [7; 8]);
    }
}
