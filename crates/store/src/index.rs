//! The index: 64 bytes for each record, all in memory, found by digest.
//!
//! Entries are in an arena of chunks and are chained by their numbers. The buckets grow by linear hashing (Litwin
//! 1980): each insertion splits at most one bucket, so no insertion waits until a whole table is copied.

use crate::Digest;
use crate::record::Record;
use sys::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    /// Write block of the volume.
    pub(crate) block: u32,
    /// Offset in the block, in units of 16 bytes.
    pub(crate) offset: u32,
    /// Length, in units of 16 bytes.
    pub(crate) units: u32,
    pub(crate) volume: u8,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct IndexEntry {
    pub(crate) digest: Digest,
    /// Number of the next entry in the bucket, or of the next unused entry.
    next: u32,
    /// Time of the last write, us since 1970; always greater than the record's previous version.
    pub(crate) version: u64,
    pub(crate) location: RecordLocation,
    /// Seconds since 2010; 0: never.
    pub(crate) void_time: u32,
    pub(crate) generation: u16,
    flags: u8,
    /// Number of times that the record had been moved when a cold start found it, modulo 128.
    pub(crate) moves: u8,
}

// The sizing commands assume this size.
const _: () = assert!(size_of::<IndexEntry>() == 64);

const TOMBSTONE: u8 = 1;
const HAS_KEY: u8 = 2;
const UNUSED: u8 = 4;
const MARKED: u8 = 8;

impl IndexEntry {
    pub(crate) fn for_record(record: &Record<'_>, location: RecordLocation) -> Self {
        let Record {
            digest,
            version,
            generation,
            void_time,
            is_tombstone,
            key,
            ..
        } = *record;
        let flags =
            if is_tombstone { TOMBSTONE } else { 0 } | if key.is_empty() { 0 } else { HAS_KEY };
        Self {
            digest,
            next: NONE,
            version,
            location,
            void_time,
            generation,
            flags,
            moves: 0,
        }
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        self.flags & TOMBSTONE != 0
    }

    /// True for a tombstone that was marked by the tomb raider and not unmarked since.
    pub(crate) fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    pub(crate) fn is_expired(&self, now_sec: u32) -> bool {
        self.void_time != 0 && self.void_time < now_sec
    }

    pub(crate) fn has_key(&self) -> bool {
        self.flags & HAS_KEY != 0
    }
}

const NONE: u32 = u32::MAX;
const CHUNK: usize = 1 << 14;
const SEGMENT: usize = 1 << 12;

#[derive(Debug)]
pub(crate) struct Index {
    /// Chunks of entries. All are full except the last, so that only memory in use is touched.
    chunks: Vec<Vec<IndexEntry>>,
    free_head: u32,
    len: u64,
    segments: Vec<Box<[u32]>>,
    buckets: usize,
    /// The greatest power of two that is not above `buckets`.
    base: usize,
    /// Random keys of the hash: clients choose the digests, and could otherwise fill a single bucket.
    keys: [u64; 2],
    bytes_max: u64,
}

impl Index {
    pub(crate) fn new(bytes_max: u64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        Self {
            chunks: Vec::new(),
            free_head: NONE,
            len: 0,
            segments: vec![vec![NONE; SEGMENT].into()],
            buckets: SEGMENT,
            base: SEGMENT,
            keys: [random.next_u64(), random.next_u64()],
            bytes_max,
        }
    }

    /// Number of entries, including tombstones.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes that entries and buckets take.
    pub(crate) fn bytes(&self) -> u64 {
        self.len * size_of::<IndexEntry>() as u64 + (self.buckets * size_of::<u32>()) as u64
    }

    pub(crate) fn is_full(&self) -> bool {
        self.bytes() >= self.bytes_max
    }

    /// True if an eighth of the memory or less is left.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.bytes() / 7 >= self.bytes_max / 8
    }

    fn hash(&self, digest: &Digest) -> usize {
        let word = |at: usize| u64::from_le_bytes(digest[at..at + 8].try_into().expect("8 bytes"));
        let product = u128::from(word(4) ^ self.keys[0]) * u128::from(word(12) ^ self.keys[1]);
        (product as u64 ^ (product >> 64) as u64) as usize
    }

    fn bucket(&self, digest: &Digest) -> usize {
        let hash = self.hash(digest);
        let bucket = hash & (2 * self.base - 1);
        if bucket < self.buckets {
            bucket
        } else {
            hash & (self.base - 1)
        }
    }

    fn head(&mut self, bucket: usize) -> &mut u32 {
        &mut self.segments[bucket / SEGMENT][bucket % SEGMENT]
    }

    fn at(&self, number: u32) -> &IndexEntry {
        &self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn at_mut(&mut self, number: u32) -> &mut IndexEntry {
        &mut self.chunks[number as usize / CHUNK][number as usize % CHUNK]
    }

    fn find(&self, digest: &Digest) -> Option<u32> {
        let bucket = self.bucket(digest);
        let mut number = self.segments[bucket / SEGMENT][bucket % SEGMENT];
        while number != NONE {
            let entry = self.at(number);
            if entry.digest == *digest {
                return Some(number);
            }
            number = entry.next;
        }
        None
    }

    pub(crate) fn get(&self, digest: &Digest) -> Option<&IndexEntry> {
        self.find(digest).map(|number| self.at(number))
    }

    /// Prefetches into the CPU cache the entries of `digests`, and the entries of the buckets that the next
    /// `insertions` insertions would split. Otherwise each lookup would wait for memory two or three times. Returns the
    /// number of entries examined.
    pub(crate) fn warm<'a>(
        &self,
        digests: impl Iterator<Item = &'a Digest>,
        insertions: usize,
    ) -> u64 {
        let splits = (self.buckets - self.base..self.buckets).take(insertions);
        let buckets = splits.chain(digests.map(|digest| self.bucket(digest)));
        let heads = buckets.map(|bucket| self.segments[bucket / SEGMENT][bucket % SEGMENT]);
        let mut chains: Vec<_> = heads.collect();
        let mut visited = 0;
        // All chains advance together, one entry at a time: these loads do not wait for each other.
        while !chains.is_empty() {
            chains.retain(|number| *number != NONE);
            visited += chains.len() as u64;
            chains
                .iter_mut()
                .for_each(|number| *number = self.at(*number).next);
        }
        visited
    }

    pub(crate) fn move_to(&mut self, digest: &Digest, location: RecordLocation) {
        if let Some(number) = self.find(digest) {
            let entry = self.at_mut(number);
            // The tombstone's old block may hold an older version of the record, so the mark is removed.
            (entry.location, entry.flags) = (location, entry.flags & !MARKED);
        }
    }

    pub(crate) fn mark_tombstone(&mut self, number: u32) {
        if self.nth(number).is_some_and(IndexEntry::is_tombstone) {
            self.at_mut(number).flags |= MARKED;
        }
    }

    /// Removes the tomb raider's mark from the entry of `digest`, unless the entry's record is in `block` of `volume`.
    /// Returns true if a mark was removed.
    pub(crate) fn unmark(&mut self, digest: &Digest, volume: u8, block: u32) -> bool {
        let Some(number) = self.find(digest) else {
            return false;
        };
        let entry = self.at_mut(number);
        let is_marked =
            entry.is_marked() && (entry.location.volume, entry.location.block) != (volume, block);
        if is_marked {
            entry.flags &= !MARKED;
        }
        is_marked
    }

    /// Inserts an entry. Replaces and returns the existing entry of the same digest.
    pub(crate) fn put(&mut self, entry: IndexEntry) -> Option<IndexEntry> {
        if let Some(number) = self.find(&entry.digest) {
            let slot = self.at_mut(number);
            let old = *slot;
            *slot = IndexEntry {
                next: old.next,
                ..entry
            };
            return Some(old);
        }
        let bucket = self.bucket(&entry.digest);
        let entry = IndexEntry {
            next: *self.head(bucket),
            ..entry
        };
        let number = self.store(entry);
        *self.head(bucket) = number;
        self.len += 1;
        if self.len > self.buckets as u64 {
            self.split();
        }
        None
    }

    fn store(&mut self, entry: IndexEntry) -> u32 {
        if self.free_head != NONE {
            let number = self.free_head;
            self.free_head = self.at(number).next;
            *self.at_mut(number) = entry;
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let chunk_start = (self.chunks.len() - 1) * CHUNK;
        let chunk = self.chunks.last_mut().expect("one was pushed");
        chunk.push(entry);
        (chunk_start + chunk.len() - 1) as u32
    }

    pub(crate) fn remove(&mut self, digest: &Digest) -> Option<IndexEntry> {
        let bucket = self.bucket(digest);
        let mut previous = NONE;
        let mut number = *self.head(bucket);
        while number != NONE && self.at(number).digest != *digest {
            (previous, number) = (number, self.at(number).next);
        }
        if number == NONE {
            return None;
        }
        let entry = *self.at(number);
        match previous {
            NONE => *self.head(bucket) = entry.next,
            previous => self.at_mut(previous).next = entry.next,
        }
        let unused = self.free_head;
        (self.at_mut(number).flags, self.at_mut(number).next) = (UNUSED, unused);
        self.free_head = number;
        self.len -= 1;
        Some(entry)
    }

    fn split(&mut self) {
        let old_bucket = self.buckets - self.base;
        let new_bucket = self.buckets;
        if new_bucket.is_multiple_of(SEGMENT) {
            self.segments.push(vec![NONE; SEGMENT].into());
        }
        let mut heads = [NONE; 2];
        let mut number = *self.head(old_bucket);
        while number != NONE {
            let is_moved = self.hash(&self.at(number).digest) & (2 * self.base - 1) == new_bucket;
            let entry = self.at_mut(number);
            let next = std::mem::replace(&mut entry.next, heads[usize::from(is_moved)]);
            heads[usize::from(is_moved)] = number;
            number = next;
        }
        [*self.head(old_bucket), *self.head(new_bucket)] = heads;
        self.buckets += 1;
        if self.buckets == 2 * self.base {
            self.base *= 2;
        }
    }

    /// The greatest entry number plus one.
    pub(crate) fn end(&self) -> u32 {
        self.chunks
            .last()
            .map_or(0, |chunk| (self.chunks.len() - 1) * CHUNK + chunk.len()) as u32
    }

    pub(crate) fn nth(&self, number: u32) -> Option<&IndexEntry> {
        let entry = self
            .chunks
            .get(number as usize / CHUNK)?
            .get(number as usize % CHUNK)?;
        (entry.flags & UNUSED == 0).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn digest(key: u64) -> Digest {
        crate::digest(b"set", 1, &key.to_be_bytes())
    }

    fn entry(digest: Digest, version: u64, place: RecordLocation, tombstone: bool) -> IndexEntry {
        let set = &b""[..];
        let key = &b""[..];
        let body = &b""[..];
        IndexEntry::for_record(
            &Record {
                digest,
                version,
                generation: 1,
                void_time: 0,
                is_tombstone: tombstone,
                set,
                key,
                body,
            },
            place,
        )
    }

    #[test]
    fn the_index_behaves_like_a_hash_map() {
        let mut random = Random::new(5);
        let mut index = Index::new(u64::MAX, 5);
        let mut map = HashMap::new();
        for version in 0..60_000 {
            let digest = digest(random.below(20_000));
            if random.below(3) == 0 {
                let found = index.remove(&digest).map(|entry| entry.version);
                assert_eq!(found, map.remove(&digest));
            } else {
                let place = RecordLocation {
                    block: 1,
                    offset: 2,
                    units: 3,
                    volume: 0,
                };
                let old = index.put(entry(digest, version, place, false));
                assert_eq!(old.map(|entry| entry.version), map.insert(digest, version));
            }
            assert_eq!(index.len(), map.len() as u64);
        }
        assert!(index.buckets > SEGMENT, "it grew");
        for (digest, version) in &map {
            assert_eq!(index.get(digest).map(|entry| entry.version), Some(*version));
        }
        let mut all: Vec<_> = (0..index.end())
            .filter_map(|n| index.nth(n))
            .map(|entry| entry.version)
            .collect();
        let mut expected: Vec<_> = map.values().copied().collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn a_mark_is_removed_when_its_tombstone_moves_or_hides_a_version_elsewhere() {
        let mut index = Index::new(u64::MAX, 5);
        let place = |block| RecordLocation {
            block,
            offset: 2,
            units: 3,
            volume: 0,
        };
        let mark = |index: &mut Index| {
            index.put(entry(digest(1), 1, place(1), true));
            index.mark_tombstone(0);
        };
        let is_marked = |index: &Index| index.get(&digest(1)).is_some_and(IndexEntry::is_marked);
        mark(&mut index);
        assert!(
            !index.unmark(&digest(1), 0, 1) && is_marked(&index),
            "a version in its own block goes with it"
        );
        assert!(index.unmark(&digest(1), 0, 2) && !is_marked(&index));
        mark(&mut index);
        assert!(index.unmark(&digest(1), 1, 1), "of another device");
        mark(&mut index);
        index.move_to(&digest(1), place(2));
        assert!(
            !is_marked(&index),
            "a version may be in the block that it left"
        );
    }

    #[test]
    fn an_entry_and_its_bucket_take_68_bytes_and_bucket_chains_stay_short() {
        let mut index = Index::new(64 * 100_000, 1);
        let place = RecordLocation {
            block: 1,
            offset: 2,
            units: 3,
            volume: 0,
        };
        let mut key = 0;
        while !index.is_full() {
            index.put(entry(digest(key), 0, place, false));
            key += 1;
        }
        assert!((93_000..95_000).contains(&key), "{key}");
        let longest = (0..index.buckets).map(|bucket| {
            let mut number = *index.head(bucket);
            std::iter::from_fn(|| (number != NONE).then(|| number = index.at(number).next)).count()
        });
        assert!(longest.max().unwrap() < 16);
    }
}
