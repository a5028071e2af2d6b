//! Blocks of `verify`: writes and checks them, and explains damage.

use super::super::content::fill_random;
use super::super::job::Job;
use super::damage::{
    Damage, SECTOR_BYTES, SHOWN_BYTES, describe_start, difference, differing_bits,
};
use super::formats::{BlockHeader, HEADER_BYTES, HeaderError};
use super::method::Method;
use results::format::hex;
use std::fmt::Write;
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
pub(super) struct BlockAddress {
    pub(super) offset: u64,
    /// Number of bytes of the operation that precede this block.
    pub(super) offset_in_op: usize,
}

/// The write that a block should come from.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteOrigin {
    /// Number of the write in its job.
    pub(super) write: u64,
    pub(super) seed: u64,
}

#[derive(Debug)]
pub(super) struct BlockCodec {
    pub(super) job: Arc<Job>,
    method: Method,
    /// Number of the clone.
    number: u16,
    /// Bytes of a block.
    pub(super) len: usize,
    /// Start of the run, seconds since 1970.
    sec: u32,
    scratch: Vec<u8>,
}

impl BlockCodec {
    pub(super) fn new(job: Arc<Job>, number: u16, sec: u32) -> Self {
        let method = job.verify.method;
        let len = job.block_bytes() as usize;
        Self {
            job,
            method,
            number,
            len,
            sec,
            scratch: Vec::with_capacity(len),
        }
    }

    /// Fills `block` with the contents that the write `origin` puts at `address`.
    pub(super) fn put(&self, block: &mut [u8], address: BlockAddress, origin: WriteOrigin) {
        self.put_data(block, address, origin.seed);
        if self.method.has_header() {
            let header = BlockHeader {
                method: self.method as u8,
                len: self.len as u32,
                seed: origin.seed,
                offset: address.offset,
                sec: self.sec,
                job: self.number,
                write: origin.write,
                ..BlockHeader::default()
            };
            header.put(block);
            let (head, data) = block.split_at_mut(self.method.head_bytes() as usize);
            let digest = &mut head[HEADER_BYTES..];
            digest.copy_from_slice(&self.method.digest(data)[..digest.len()]);
        }
    }

    fn put_data(&self, block: &mut [u8], address: BlockAddress, seed: u64) {
        match &self.job.verify.pattern {
            Some(pattern) => pattern.fill(
                block,
                address.offset_in_op,
                address.offset - address.offset_in_op as u64,
            ),
            None => self.job.content.fill_mixed(block, seed, block.len(), None),
        }
    }

    /// Checks a block. `origin`: the write from which the block should come, if known.
    pub(super) fn check(
        &mut self,
        block: &[u8],
        address: BlockAddress,
        origin: Option<WriteOrigin>,
    ) -> Result<(), Box<Damage>> {
        if self.is_right(block, address, origin) {
            Ok(())
        } else {
            Err(self.explain(block, address, origin))
        }
    }

    fn is_right(
        &mut self,
        block: &[u8],
        address: BlockAddress,
        origin: Option<WriteOrigin>,
    ) -> bool {
        if self.method == Method::Pattern {
            return self.has_pattern(block, address);
        }
        let Ok(header) = BlockHeader::parse(block) else {
            return false;
        };
        let is_same_origin = origin.is_none_or(|origin| origin.seed == header.seed);
        is_same_origin
            && self.is_here(&header, address)
            && self.has_right_data(block, &header, address)
    }

    fn is_here(&self, header: &BlockHeader, address: BlockAddress) -> bool {
        header.offset == address.offset && self.is_of_job(header)
    }

    fn is_of_job(&self, header: &BlockHeader) -> bool {
        header.len as usize == self.len && Method::from_code(header.method) == Some(self.method)
    }

    fn has_right_data(
        &mut self,
        block: &[u8],
        header: &BlockHeader,
        address: BlockAddress,
    ) -> bool {
        let data_start = header.bytes() + self.method.digest_bytes();
        if data_start > block.len() {
            return false;
        }
        let data = &block[data_start..];
        match self.method {
            Method::Meta if self.job.verify.pattern.is_none() => true,
            Method::Meta | Method::PatternHeader => self.has_pattern(
                data,
                BlockAddress {
                    offset: address.offset + data_start as u64,
                    offset_in_op: address.offset_in_op + data_start,
                },
            ),
            method => {
                let stored = &block[header.bytes()..data_start];
                let is_right =
                    |digest: [u8; super::method::DIGEST_MAX]| digest[..stored.len()] == *stored;
                if method.later_digest(data).is_some_and(is_right) {
                    return true;
                }
                // fio 3.33's sha512 digest covers only 128 bytes of the data, so the data is compared as well.
                is_right(method.digest(data))
                    && (method != Method::Sha512
                        || self.is_data_of(block, data_start, header, address))
            }
        }
    }

    /// True if the data of `block`, from byte `data_start` on, was generated from the seed in its header.
    fn is_data_of(
        &mut self,
        block: &[u8],
        data_start: usize,
        header: &BlockHeader,
        address: BlockAddress,
    ) -> bool {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(block.len(), 0);
        self.put_data(&mut scratch, address, header.seed);
        let is_own_data = scratch[data_start..] == block[data_start..];
        self.scratch = scratch;
        is_own_data
            || self
                .candidate_blocks(block, header, address)
                .iter()
                .any(|image| image[data_start..] == block[data_start..])
    }

    /// Compares sector by sector, so that no memory is needed for a whole block.
    fn has_pattern(&self, data: &[u8], address: BlockAddress) -> bool {
        let Some(pattern) = &self.job.verify.pattern else {
            return false;
        };
        let mut expected = [0; SECTOR_BYTES];
        let offset = address.offset - address.offset_in_op as u64;
        data.chunks(SECTOR_BYTES).enumerate().all(|(number, part)| {
            let expected = &mut expected[..part.len()];
            pattern.fill(
                expected,
                address.offset_in_op + number * SECTOR_BYTES,
                offset,
            );
            part == expected
        })
    }

    /// The right block according to `header` of `block`: as flashproof writes the block and, if different, as fio does.
    /// fio derives the data of a whole operation from one seed, flashproof the data of each block.
    fn candidate_blocks(
        &self,
        block: &[u8],
        header: &BlockHeader,
        address: BlockAddress,
    ) -> Vec<Vec<u8>> {
        let mut address = address;
        // Use the header's offset: the block may have been written for another offset.
        address.offset = header.offset.max(address.offset_in_op as u64);
        let mut image = vec![0; self.len];
        self.put_data(&mut image, address, header.seed);
        let mut candidates = vec![image];
        if address.offset_in_op > 0
            && self.job.verify.pattern.is_none()
            && self.job.content.compress_pct == 0
        {
            let mut operation = vec![0; address.offset_in_op + self.len];
            fill_random(&mut operation, header.seed, None);
            candidates.push(operation.split_off(address.offset_in_op));
        }
        let bytes = header.bytes();
        let digest_bytes = self.method.digest_bytes();
        for candidate in &mut candidates {
            let Some((head, data)) = candidate.split_at_mut_checked(bytes + digest_bytes) else {
                continue;
            };
            let later = if header.is_later {
                self.method.later_digest(data)
            } else {
                None
            };
            let digest = later.unwrap_or_else(|| self.method.digest(data));
            head[..bytes].copy_from_slice(&block[..bytes]);
            head[bytes..].copy_from_slice(&digest[..digest_bytes]);
        }
        candidates
    }

    #[cold]
    fn explain(
        &self,
        block: &[u8],
        address: BlockAddress,
        origin: Option<WriteOrigin>,
    ) -> Box<Damage> {
        let (text, expected) = self.damage(block, address, origin);
        let name = self.method.name();
        let text = format!(
            "{name}: verify failed at offset {}, length {}: {text}",
            address.offset,
            block.len()
        );
        Box::new(Damage {
            file: 0,
            offset: address.offset,
            text,
            received: block.to_vec(),
            expected,
        })
    }

    /// Description of a wrong block, and the right block if it can be computed.
    fn damage(
        &self,
        block: &[u8],
        address: BlockAddress,
        origin: Option<WriteOrigin>,
    ) -> (String, Option<Vec<u8>>) {
        let parsed = if self.method.has_header() {
            BlockHeader::parse(block)
        } else {
            Err(HeaderError::Magic(0))
        };
        if let Ok(header) = &parsed {
            let is_whole = self.is_of_job(header)
                && self
                    .candidate_blocks(block, header, address)
                    .iter()
                    .any(|image| image == block);
            let is_elsewhere = !self.is_of_job(header) || header.offset != address.offset;
            let is_of_other = origin.is_some_and(|origin| origin.seed != header.seed);
            if is_elsewhere && (is_whole || origin.is_none()) || is_of_other && is_whole {
                return (
                    self.other_block(header, address, origin),
                    origin.map(|origin| self.right(address, origin)),
                );
            }
        }
        let expected = match origin {
            Some(origin) => Some(self.right(address, origin)),
            None if self.method == Method::Pattern => {
                Some(self.right(address, WriteOrigin { write: 0, seed: 0 }))
            }
            None => self.nearest(block, address),
        };
        let difference = expected.as_ref().and_then(|right| difference(block, right));
        let mut text = match (difference, &parsed) {
            (Some(difference), _) => difference,
            (None, Ok(header)) if header.offset != address.offset => {
                self.other_block(header, address, origin)
            }
            (None, Ok(header)) => format!(
                "the header is of write {} of job {}, but the data is of another write or was made with other options, so differing bits cannot be counted",
                header.write, header.job
            ),
            (None, Err(broken)) if self.method.has_header() => {
                format!("foreign: {broken}, {}", describe_start(block))
            }
            (None, Err(_)) => format!("foreign: {}", describe_start(block)),
        };
        let bytes = self.method.digest_bytes();
        if let Ok(header) = &parsed
            && let Some((head, data)) = block.split_at_checked(header.bytes() + bytes)
            && bytes > 0
        {
            let shown_bytes = bytes.min(SHOWN_BYTES);
            let stored = &head[header.bytes()..][..shown_bytes];
            let digest = &self.method.digest(data)[..shown_bytes];
            let _ = write!(
                text,
                "; expected {} {}, found {}",
                self.method.name(),
                hex(stored),
                hex(digest)
            );
        }
        (text, expected)
    }

    fn right(&self, address: BlockAddress, origin: WriteOrigin) -> Vec<u8> {
        let mut image = vec![0; self.len];
        self.put(&mut image, address, origin);
        image
    }

    /// The block most likely written, judging by the header of `block`, of which one flipped bit is corrected.
    fn nearest(&self, block: &[u8], address: BlockAddress) -> Option<Vec<u8>> {
        let mut mended = block.to_vec();
        let header = BlockHeader::parse(block).ok().or_else(|| {
            let (header, bit) = BlockHeader::corrected(block)?;
            mended[bit / 8] ^= 1 << (bit % 8);
            Some(header)
        });
        let images = self.candidate_blocks(
            &mended,
            &header.filter(|header| self.is_here(header, address))?,
            address,
        );
        images
            .into_iter()
            .min_by_key(|image| differing_bits(block, image).iter().sum::<u64>())
    }

    /// Description of a block that comes from another write, job or offset.
    fn other_block(
        &self,
        header: &BlockHeader,
        address: BlockAddress,
        origin: Option<WriteOrigin>,
    ) -> String {
        let BlockHeader {
            job,
            len,
            offset,
            write,
            ..
        } = *header;
        let expected_write = origin.map_or(0, |origin| origin.write & u64::from(u16::MAX));
        if !self.is_of_job(header) {
            format!(
                "foreign: a block of {len} bytes with verify={} (write {write} of job {job}), but this job has blocks of {} bytes with verify={} - check bs, verify_interval and verify",
                Method::from_code(header.method).map_or("unknown", Method::name),
                self.len,
                self.method.name()
            )
        } else if offset != address.offset {
            format!(
                "foreign: the block of offset {offset}, length {len} (write {write} of job {job})"
            )
        } else if job != self.number {
            format!(
                "foreign: write {write} of job {job}, not write {expected_write} of this job (job {})",
                self.number
            )
        } else {
            let run = if header.sec == self.sec {
                "this run"
            } else {
                "an earlier run"
            };
            format!(
                "stale: write {write} of {run}; the later write {expected_write} of this run to the same offset is missing"
            )
        }
    }
}
