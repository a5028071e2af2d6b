//! Page-aligned I/O buffers, each with exactly one owner at a time. Also the machine's available memory, and huge
//! pages.
//!
//! A [`Pool`] is one anonymous mapping, cut once into [`Buf`]s that never overlap. A buffer moves from the pool into an
//! operation, from there into the engine that passes its address to the kernel, and back with the completion. The owner
//! of the `Buf` may access the bytes; while the engine owns it, the kernel may.

use crate::succeed;
use libc::c_int;
use std::ops::{Deref, DerefMut};
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::{fs, io};

/// Alignment of every buffer. No probed minimum I/O size is larger.
pub const ALIGN: usize = 4096;

/// Size of a huge page (2 MiB where pages are 4 KiB); smaller slices and mappings get no huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// A mapping of memory, or of the start of a file.
#[derive(Debug)]
pub(crate) struct Mapping {
    pub(crate) start: NonNull<u8>,
    pub(crate) len: usize,
}

// SAFETY: a mapping has no thread affinity, and its address and length never change. A mapping gives no access to its
// bytes: only the kernel and `Buf`s, which never overlap, access them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file` (-1: anonymous). `flags` must not name an address (`MAP_FIXED`). Errors: mmap(2).
    pub(crate) fn new(
        len: usize,
        protection: c_int,
        flags: c_int,
        file: RawFd,
    ) -> io::Result<Self> {
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            start: NonNull::new(start.cast()).expect("mmap never maps page zero"),
            len,
        })
    }

    /// Advises the kernel on the whole mapping. The caller must not give advice that changes its bytes.
    pub(crate) fn advise(&self, advice: c_int) -> io::Result<()> {
        // SAFETY: the range is the mapping, and the advice changes no byte.
        succeed(unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, advice) }).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no reference to its bytes is left, because each `Buf` holds an Arc
        // of it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A page-aligned buffer; empty on simulated drives that store no data. The type is one pointer wide, because every
/// operation moves its buffer.
#[derive(Debug)]
pub struct Buf(Option<Box<Cut>>);

/// A buffer's slice of a region.
#[derive(Debug)]
struct Cut {
    region: Arc<Mapping>,
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
            Some(cut) => unsafe {
                std::slice::from_raw_parts(cut.region.start.as_ptr().add(cut.offset), cut.len)
            },
            None => &[],
        }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &self.0 {
            // SAFETY: as in `deref`, and `&mut self` excludes every other access.
            Some(cut) => unsafe {
                std::slice::from_raw_parts_mut(cut.region.start.as_ptr().add(cut.offset), cut.len)
            },
            None => &mut [],
        }
    }
}

/// A region of memory, from which buffers are cut in order until the region is used up.
#[derive(Debug)]
pub struct Pool {
    region: Arc<Mapping>,
    next_offset: usize,
    registered: Option<u16>,
}

impl Pool {
    /// A pool of `len` bytes, rounded up to whole pages. The kernel allocates a page at its first access.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.next_multiple_of(ALIGN).max(ALIGN);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let region = Mapping::new(len, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        if len >= HUGE_PAGE {
            // A hint: fewer page tables to walk for the kernel and for this process. No effect without huge pages.
            let _ = region.advise(libc::MADV_HUGEPAGE);
        }
        Ok(Self {
            region: Arc::new(region),
            next_offset: 0,
            registered: None,
        })
    }

    /// The next `len` bytes, page-aligned; `None` if the pool has fewer bytes left.
    pub fn cut(&mut self, len: usize) -> Option<Buf> {
        let end = self.next_offset.checked_add(len)?;
        if end > self.region.len {
            return None;
        }
        let cut = Cut {
            region: self.region.clone(),
            offset: self.next_offset,
            len,
            registered: self.registered,
        };
        self.next_offset = end.next_multiple_of(ALIGN);
        Some(Buf(Some(Box::new(cut))))
    }

    /// The whole memory, for registering with the kernel.
    pub(crate) fn iovec(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.region.start.as_ptr().cast(),
            iov_len: self.region.len,
        }
    }

    /// Marks the buffers cut from now on as registered under `index`.
    pub(crate) fn set_registered(&mut self, index: u16) {
        self.registered = Some(index);
    }
}

/// Bytes available without swapping (`MemAvailable` in `/proc/meminfo`); `None` if the kernel does not report it.
pub fn available_bytes() -> Option<u64> {
    meminfo_bytes(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable")
}

/// Bytes of `key` in the text of `/proc/meminfo`.
pub fn meminfo_bytes(meminfo: &str, key: &str) -> Option<u64> {
    let value = meminfo
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// Requests huge pages for a large slice with random reads, to save page table walks. A hint, without effect if huge
/// pages are off. Best called before the memory is first touched.
pub fn advise_huge_pages<T>(slice: &[T]) {
    let bytes = size_of_val(slice);
    if bytes < 2 * HUGE_PAGE {
        return;
    }
    let start = slice.as_ptr().addr();
    let skipped = start.next_multiple_of(HUGE_PAGE) - start;
    let len = (bytes - skipped) / HUGE_PAGE * HUGE_PAGE;
    // SAFETY: whole pages within the slice, not shared with other memory; the advice changes no byte of them.
    unsafe {
        libc::madvise(
            slice.as_ptr().cast_mut().byte_add(skipped).cast(),
            len,
            libc::MADV_HUGEPAGE,
        )
    };
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

    #[test]
    fn advice_for_huge_pages_does_not_change_the_data() {
        for bytes in [0, 1, 4 << 20, (8 << 20) + 5] {
            let memory: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
            advise_huge_pages(&memory);
            assert!(
                memory
                    .iter()
                    .enumerate()
                    .all(|(index, &byte)| byte == index as u8)
            );
        }
    }
}
