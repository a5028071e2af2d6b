//! Blocks of `verify`: written, checked, and explained where they are wrong.

use super::super::content::{Content, fill_random};
use super::super::filler::Filler;
use super::header::{self, Broken, Header};
use super::method::Method;
use results::units::count;
use std::fmt::Write;

/// Damage is told in parts of this size: no drive writes less at once.
const SECTOR_BYTES: usize = 512;

/// Of two sectors with different data half of the bits differ. With fewer than this part, the sector has flipped bits.
const OTHER_DATA: usize = 8;

/// Bytes of a digest in a message at most.
const TOLD_BYTES: usize = 16;

/// Where a block is.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockAddress {
    pub(super) offset: u64,
    /// Bytes of its operation before it.
    pub(super) from: usize,
}

/// The write that a block is to be of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// Number of the write in its job.
    pub(super) write: u64,
    pub(super) seed: u64,
}

/// A block that is wrong.
#[derive(Debug)]
pub struct Damage {
    /// Index of its file among those of the job.
    pub file: usize,
    pub offset: u64,
    /// Kind of damage, what was expected and what was found.
    pub(super) text: String,
    pub received: Vec<u8>,
    /// The right block, if it can be computed.
    pub expected: Option<Vec<u8>>,
}

/// Writer and reader of blocks of one job.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) method: Method,
    /// Bytes of a block.
    pub(super) len: usize,
    /// Byte of a block at which its header is; the data from there is at its beginning instead.
    pub(super) header_at: usize,
    pub(super) pattern: Option<Filler>,
    /// Options on the data without a pattern.
    pub(super) content: Content,
    /// Number of the job.
    pub(super) job: u16,
    /// Start of the run, seconds since 1970.
    pub(super) sec: u32,
    /// Room for a block, with its header at the beginning, and for the data that it should have.
    pub(super) scratch: [Vec<u8>; 2],
}

impl Blocks {
    fn header(&self, place: BlockAddress, wanted: Origin) -> Header {
        Header {
            method: self.method as u8,
            len: self.len as u32,
            seed: wanted.seed,
            offset: place.offset,
            sec: self.sec,
            nsec: 0,
            job: self.job,
            write: wanted.write,
            is_later: false,
        }
    }

    /// Makes `block` the one of `wanted`.
    #[inline]
    pub(super) fn put(&self, block: &mut [u8], place: BlockAddress, wanted: Origin) {
        self.put_straight(block, place, wanted);
        self.turn(block);
    }

    /// The same with its header at the beginning.
    #[inline]
    fn put_straight(&self, block: &mut [u8], place: BlockAddress, wanted: Origin) {
        self.put_data(block, place, wanted.seed);
        if self.method.has_header() {
            self.header(place, wanted).put(block);
            let (head, data) = block.split_at_mut(self.method.head_bytes() as usize);
            let digest = &mut head[header::BYTES..];
            digest.copy_from_slice(&self.method.digest(data)[..digest.len()]);
        }
    }

    fn put_data(&self, block: &mut [u8], place: BlockAddress, seed: u64) {
        match &self.pattern {
            Some(pattern) => pattern.fill(block, place.from, place.offset - place.from as u64),
            None => self.content.fill_mixed(block, seed, block.len(), None),
        }
    }

    /// Puts the header of a block in its place, or back to the beginning.
    fn turn(&self, block: &mut [u8]) {
        if self.header_at > 0 {
            let (start, rest) = block.split_at_mut(self.header_at);
            let len = self.method.head_bytes() as usize;
            start[..len].swap_with_slice(&mut rest[..len]);
        }
    }

    /// Checks a block; `wanted`: the write that it is of, if that is known.
    #[inline]
    pub(super) fn check(
        &mut self,
        block: &[u8],
        place: BlockAddress,
        wanted: Option<Origin>,
    ) -> Result<(), Box<Damage>> {
        if self.header_at == 0 {
            let is_right = self.is_right(block, place, wanted);
            return if is_right { Ok(()) } else { Err(self.explain(block, place, wanted)) };
        }
        let mut straight = std::mem::take(&mut self.scratch[0]);
        straight.clear();
        straight.extend_from_slice(block);
        self.turn(&mut straight);
        let is_right = self.is_right(&straight, place, wanted);
        let checked = if is_right { Ok(()) } else { Err(self.explain(&straight, place, wanted)) };
        self.scratch[0] = straight;
        checked
    }

    #[inline]
    fn is_right(&mut self, block: &[u8], place: BlockAddress, wanted: Option<Origin>) -> bool {
        if self.method == Method::Pattern {
            return self.has_pattern(block, place);
        }
        let Ok(header) = Header::of(block) else { return false };
        let is_wanted = wanted.is_none_or(|wanted| wanted.seed == header.seed);
        is_wanted && self.is_here(&header, place) && self.has_right_data(block, &header, place)
    }

    /// True if a valid header is that of a block at `place`.
    fn is_here(&self, header: &Header, place: BlockAddress) -> bool {
        header.offset == place.offset && self.is_of_job(header)
    }

    /// True if a header has the method and the length of this job's.
    fn is_of_job(&self, header: &Header) -> bool {
        header.len as usize == self.len && Method::of_code(header.method) == Some(self.method)
    }

    fn has_right_data(&mut self, block: &[u8], header: &Header, place: BlockAddress) -> bool {
        let from = header.bytes() + self.method.digest_bytes();
        if from > block.len() {
            return false;
        }
        let data = &block[from..];
        match self.method {
            Method::Meta if self.pattern.is_none() => true,
            Method::Meta | Method::PatternHeader => {
                self.has_pattern(data, BlockAddress { offset: place.offset + from as u64, from: place.from + from })
            }
            method => {
                let stored = &block[header.bytes()..from];
                let is_right = |digest: [u8; super::method::DIGEST_MAX]| digest[..stored.len()] == *stored;
                if method.later_digest(data).is_some_and(is_right) {
                    return true;
                }
                // fio 3.33's digest of this method covers hardly any of the data, so the data itself is compared.
                is_right(method.digest(data))
                    && (method != Method::Sha512 || self.is_data_of(block, from, header, place))
            }
        }
    }

    /// True if the data of `block` from byte `from` on is that of the seed in its header.
    fn is_data_of(&mut self, block: &[u8], from: usize, header: &Header, place: BlockAddress) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch[1]);
        scratch.resize(block.len(), 0);
        self.put_data(&mut scratch, place, header.seed);
        let is_ours = scratch[from..] == block[from..];
        self.scratch[1] = scratch;
        is_ours || self.images(block, header, place).iter().any(|image| image[from..] == block[from..])
    }

    /// Compares in small parts, so that no memory is needed for the whole.
    fn has_pattern(&self, data: &[u8], place: BlockAddress) -> bool {
        let Some(pattern) = &self.pattern else { return false };
        let mut expected = [0; SECTOR_BYTES];
        let offset = place.offset - place.from as u64;
        data.chunks(SECTOR_BYTES).enumerate().all(|(number, part)| {
            let expected = &mut expected[..part.len()];
            pattern.fill(expected, place.from + number * SECTOR_BYTES, offset);
            part == expected
        })
    }

    /// The blocks that `header` of `block` can be of: this program's, and fio's, which makes the data of a whole
    /// operation of one seed.
    fn images(&self, block: &[u8], header: &Header, place: BlockAddress) -> Vec<Vec<u8>> {
        let bytes = header.bytes();
        let finished = |mut image: Vec<u8>| {
            let from = bytes + self.method.digest_bytes();
            if from <= image.len() {
                let (head, data) = image.split_at_mut(from);
                head[..bytes].copy_from_slice(&block[..bytes]);
                let later = if header.is_later { self.method.later_digest(data) } else { None };
                let digest = later.unwrap_or_else(|| self.method.digest(data));
                head[bytes..].copy_from_slice(&digest[..from - bytes]);
            }
            image
        };
        let mut place = place;
        // The header knows where its block was.
        place.offset = header.offset.max(place.from as u64);
        let mut image = vec![0; self.len];
        self.put_data(&mut image, place, header.seed);
        let mut all = vec![finished(image)];
        if place.from > 0 && self.pattern.is_none() && self.content.compress_pct == 0 {
            let mut whole = vec![0; place.from + self.len];
            fill_random(&mut whole, header.seed, None);
            all.push(finished(whole.split_off(place.from)));
        }
        all
    }

    /// Finds what is wrong with a block.
    #[cold]
    fn explain(&self, block: &[u8], place: BlockAddress, wanted: Option<Origin>) -> Box<Damage> {
        let (text, expected) = self.damage(block, place, wanted);
        let name = self.method.name();
        let text = format!("{name}: verify failed at offset {}, length {}: {text}", place.offset, block.len());
        let straight = |mut image: Vec<u8>| {
            self.turn(&mut image);
            image
        };
        let received = straight(block.to_vec());
        Box::new(Damage { file: 0, offset: place.offset, text, received, expected: expected.map(straight) })
    }

    /// Text about a wrong block, and the right one if it can be computed.
    fn damage(&self, block: &[u8], place: BlockAddress, wanted: Option<Origin>) -> (String, Option<Vec<u8>>) {
        let found = if self.method.has_header() { Header::of(block) } else { Err(Broken::Magic(0)) };
        if let Ok(header) = &found {
            let is_whole =
                self.is_of_job(header) && self.images(block, header, place).iter().any(|image| image == block);
            let is_elsewhere = !self.is_of_job(header) || header.offset != place.offset;
            let is_of_other = wanted.is_some_and(|wanted| wanted.seed != header.seed);
            if is_elsewhere && (is_whole || wanted.is_none()) || is_of_other && is_whole {
                return (self.other_block(header, place, wanted), wanted.map(|wanted| self.right(place, wanted)));
            }
        }
        let right = match wanted {
            Some(wanted) => Some(self.right(place, wanted)),
            None if self.method == Method::Pattern => Some(self.right(place, Origin { write: 0, seed: 0 })),
            None => self.nearest(block, place),
        };
        let difference = right.as_ref().map(|right| Difference::of(block, right));
        let mut text = match (difference, &right, &found) {
            (Some(difference), Some(right), _) if !difference.is_of_all() => difference.told(block, right),
            (_, _, Ok(header)) if header.offset != place.offset => self.other_block(header, place, wanted),
            (_, _, Ok(header)) => format!(
                "its header is of write {} of job {}, its data of another one, or made with other options, so that bits cannot be counted",
                header.write, header.job
            ),
            (_, _, Err(broken)) if self.method.has_header() => format!("foreign: {broken}, {}", begins(block)),
            (_, _, Err(_)) => format!("foreign: {}", begins(block)),
        };
        let bytes = self.method.digest_bytes();
        if let Ok(header) = &found
            && let Some((head, data)) = block.split_at_checked(header.bytes() + bytes)
            && bytes > 0
        {
            let told = bytes.min(TOLD_BYTES);
            let (stored, digest) = (&head[header.bytes()..][..told], &self.method.digest(data)[..told]);
            let _ = write!(text, "; expected {} {}, found {}", self.method.name(), hex(stored), hex(digest));
        }
        (text, right)
    }

    /// The block of `wanted`.
    fn right(&self, place: BlockAddress, wanted: Origin) -> Vec<u8> {
        let mut image = vec![0; self.len];
        self.put_straight(&mut image, place, wanted);
        image
    }

    /// The block that the header of `block` is most likely of; a wrong bit in the header is put right.
    fn nearest(&self, block: &[u8], place: BlockAddress) -> Option<Vec<u8>> {
        let mut mended = block.to_vec();
        let header = Header::of(block).ok().or_else(|| {
            let (header, bit) = Header::mended(block)?;
            mended[bit / 8] ^= 1 << (bit % 8);
            Some(header)
        });
        let images = self.images(&mended, &header.filter(|header| self.is_here(header, place))?, place);
        images.into_iter().min_by_key(|image| Difference::of(block, image).bits)
    }

    /// Text about a block that another write, job or place is the origin of.
    fn other_block(&self, header: &Header, place: BlockAddress, wanted: Option<Origin>) -> String {
        let Header { job, len, offset, write, .. } = *header;
        let last = wanted.map_or(0, |wanted| wanted.write & u64::from(u16::MAX));
        match () {
            () if !self.is_of_job(header) => format!(
                "foreign: a block of {len} bytes with verify={} (write {write} of job {job}), and this job has blocks of {} bytes with verify={} - check bs, verify_interval and verify",
                Method::of_code(header.method).map_or("an unknown method", Method::name),
                self.len,
                self.method.name()
            ),
            () if offset != place.offset => {
                format!("foreign: the block of offset {offset}, length {len} (write {write} of job {job})")
            }
            () if job != self.job => {
                format!("foreign: write {write} of job {job}, not write {last} of this one, job {}", self.job)
            }
            () => {
                let run = if header.sec == self.sec { "this run" } else { "an earlier run" };
                format!("stale: write {write} of {run} to this place, although write {last} of this run came after it")
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The first bytes of a block that is not ours.
fn begins(block: &[u8]) -> String {
    match block.iter().all(|byte| *byte == 0) {
        true => "all of it zeros, as never written or trimmed".to_owned(),
        false => format!("it begins with {}", hex(&block[..block.len().min(TOLD_BYTES)])),
    }
}

/// The difference between a block and the one that should be there.
struct Difference {
    bits: u64,
    /// The first byte that differs.
    first: usize,
    sectors: usize,
    /// Sectors with other data.
    other: Vec<usize>,
    /// Bits that differ in the other sectors.
    flipped: u64,
}

impl Difference {
    fn of(block: &[u8], right: &[u8]) -> Self {
        let (mut bits, mut flipped, mut other, mut sectors) = (0, 0, Vec::new(), 0);
        for (at, (found, expected)) in block.chunks(SECTOR_BYTES).zip(right.chunks(SECTOR_BYTES)).enumerate() {
            let differ: u64 = found.iter().zip(expected).map(|(a, b)| u64::from((a ^ b).count_ones())).sum();
            bits += differ;
            sectors += 1;
            match differ as usize * OTHER_DATA > found.len() * 8 {
                true => other.push(at),
                false => flipped += differ,
            }
        }
        let first = block.iter().zip(right).position(|(a, b)| a != b).unwrap_or(0);
        Self { bits, first, sectors, other, flipped }
    }

    /// True if nothing is as it should be.
    fn is_of_all(&self) -> bool {
        self.other.len() == self.sectors
    }

    fn told(&self, block: &[u8], right: &[u8]) -> String {
        let at = self.first;
        let mut text = match (self.other.first(), self.other.last()) {
            (Some(first), Some(last)) => {
                let end = ((last + 1) * SECTOR_BYTES).min(block.len());
                let is_zero = |sector: &usize| {
                    block.chunks(SECTOR_BYTES).nth(*sector).is_some_and(|data| data.iter().all(|byte| *byte == 0))
                };
                let what = if self.other.iter().all(is_zero) { "zeros" } else { "of another write" };
                let mut text = format!(
                    "torn: {} of {} from byte {} to {end} of the block {} {what}",
                    self.other.len(),
                    count(self.sectors as u64, "sector"),
                    first * SECTOR_BYTES,
                    if self.other.len() == 1 { "is" } else { "are" },
                );
                if self.flipped > 0 {
                    let _ = write!(text, ", and {} differ elsewhere", count(self.flipped, "bit"));
                }
                text
            }
            _ if self.bits == 1 => "flipped: 1 bit differs".to_owned(),
            _ => format!("flipped: {} differ", count(self.bits, "bit")),
        };
        let _ = write!(text, "; byte {at} of the block: expected 0x{:02x}, found 0x{:02x}", right[at], block[at]);
        text
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Magic(magic) => write!(f, "no header of verify (bad magic {magic:x}, expected acca)"),
            Self::Version(version) => write!(f, "a header of version {version:x}, which is unknown"),
            Self::Checksum { found, expected } => {
                write!(f, "a damaged header (expected crc {expected:x}, found {found:x})")
            }
        }
    }
}
