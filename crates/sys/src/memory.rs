//! Memory: available bytes, and advice to the kernel on allocated memory.

use std::fs;

/// Memory available without swapping (`MemAvailable` in `/proc/meminfo`); none if the kernel does not report it.
pub fn available_bytes() -> Option<u64> {
    available_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// [`available_bytes`], from the text of `/proc/meminfo`.
pub fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Size of a huge page (2 MiB where pages are 4 KiB); smaller slices need none.
const HUGE_PAGE: usize = 2 << 20;

/// Asks for huge pages under a large slice with random reads: fewer page tables to walk. A hint, with no effect where
/// huge pages are off. Best before the memory is first touched.
pub fn advise_huge_pages<T>(slice: &[T]) {
    let bytes = size_of_val(slice);
    if bytes < 2 * HUGE_PAGE {
        return;
    }
    let start = slice.as_ptr().addr();
    let skipped = start.next_multiple_of(HUGE_PAGE) - start;
    let len = (bytes - skipped) / HUGE_PAGE * HUGE_PAGE;
    // SAFETY: whole pages within the slice, not shared with other memory; the advice changes no byte of them.
    unsafe { libc::madvise(slice.as_ptr().cast_mut().byte_add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_nothing() {
        for bytes in [0, 1, 4 << 20, (8 << 20) + 5] {
            let memory: Vec<u8> = (0..bytes).map(|index| index as u8).collect();
            advise_huge_pages(&memory);
            assert!(memory.iter().enumerate().all(|(index, &byte)| byte == index as u8));
        }
    }
}
