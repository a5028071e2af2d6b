//! The bytes of a log, decompressed where they are compressed.
//!
//! What they are is told by their first bytes, never by a name: `gzip` and `zstd` files are read, of
//! several members or frames too, and anything else as it is. A compressed log that ends early is
//! what a copy of a growing one looks like, so it reads as a log that ends early; [`Input::is_cut`]
//! says so. Compressed data that is damaged in the middle is an error.

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Source: RFC 1952, section 2.3.1, and RFC 8878, sections 3.1.1 and 3.1.2.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames of zstd have any last digit in their first byte.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// How a log is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// By gzip.
    Gzip,
    /// By zstd.
    Zstd,
}

impl Compression {
    /// By the first bytes of a file; four are enough.
    pub fn of(first: &[u8]) -> Self {
        let skippable = first.len() >= 4 && first[0] & 0xf0 == 0x50 && first[1..4] == ZSTD_SKIPPABLE;
        match first {
            _ if first.starts_with(&GZIP_MAGIC) => Self::Gzip,
            _ if first.starts_with(&ZSTD_MAGIC) || skippable => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// A log's bytes as they were before compression.
pub struct Input<R: Read> {
    decoder: Decoder<R>,
    cut: bool,
}

enum Decoder<R: Read> {
    Plain(Raw<R>),
    Gzip(Box<MultiGzDecoder<Raw<R>>>),
    Zstd(Box<ZstdFrames<BufReader<Raw<R>>>>),
}

impl<R: Read> Input<R> {
    /// Looks at the first bytes. Errors: the source cannot be read.
    pub fn new(mut source: R) -> io::Result<Self> {
        let mut first = Vec::new();
        source.by_ref().take(ZSTD_MAGIC.len() as u64).read_to_end(&mut first)?;
        let compression = Compression::of(&first);
        let raw = Raw { first: Cursor::new(first), source, ended: false };
        let decoder = match compression {
            Compression::Plain => Decoder::Plain(raw),
            Compression::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(raw))),
            Compression::Zstd => Decoder::Zstd(Box::new(ZstdFrames::new(BufReader::new(raw)))),
        };
        Ok(Self { decoder, cut: false })
    }

    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        match self.decoder {
            Decoder::Plain(_) => Compression::Plain,
            Decoder::Gzip(_) => Compression::Gzip,
            Decoder::Zstd(_) => Compression::Zstd,
        }
    }

    /// Whether compressed data ended before its end. Known once everything was read.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

impl<R: Read> Read for Input<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cut {
            return Ok(0);
        }
        let (read, ended) = match &mut self.decoder {
            Decoder::Plain(raw) => return raw.read(buffer),
            Decoder::Gzip(decoder) => (decoder.read(buffer), decoder.get_ref().ended),
            Decoder::Zstd(frames) => (frames.read(buffer), frames.source.get_ref().ended),
        };
        match read {
            // The decoder asked for more than there is.
            Err(_) if ended => {
                self.cut = true;
                Ok(0)
            }
            read => read,
        }
    }
}

impl<R: Read> fmt::Debug for Input<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input({:?}, cut: {})", self.compression(), self.cut)
    }
}

/// The bytes as they are in the file, and whether its end was met.
struct Raw<R> {
    first: Cursor<Vec<u8>>,
    source: R,
    ended: bool,
}

impl<R: Read> Read for Raw<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match self.first.read(buffer)? {
            0 => self.source.read(buffer)?,
            length => length,
        };
        self.ended |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

/// The frames of a zstd file, one after another, as one stream.
struct ZstdFrames<S> {
    source: S,
    decoder: FrameDecoder,
    within: bool,
}

impl<S: BufRead> ZstdFrames<S> {
    fn new(source: S) -> Self {
        Self { source, decoder: FrameDecoder::new(), within: false }
    }

    /// Reads the header of the next frame; false when there is none.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<S: BufRead> Read for ZstdFrames<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            while self.within && self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            }
            if self.within {
                match self.decoder.read(buffer)? {
                    0 => self.within = false,
                    length => return Ok(length),
                }
            }
            self.within = self.begin_frame()?;
            if !self.within {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// 3 MB that do not compress to nothing: more than one block of either format.
    fn text() -> Vec<u8> {
        (0..300_000u32).flat_map(|n| format!("{:08x}\n", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn read(bytes: &[u8]) -> (io::Result<Vec<u8>>, Compression, bool) {
        let mut input = Input::new(bytes).unwrap();
        let mut text = Vec::new();
        let read = input.read_to_end(&mut text).map(|_| text);
        (read, input.compression(), input.is_cut())
    }

    #[test]
    fn first_bytes_and_not_names_tell_what_a_log_is() {
        let text = text();
        for (bytes, compression) in [
            (text.clone(), Compression::Plain),
            (gzip(&text), Compression::Gzip),
            (zstd(&text), Compression::Zstd),
            (Vec::new(), Compression::Plain),
            (vec![0x1f], Compression::Plain),
        ] {
            let (read, found, cut) = read(&bytes);
            assert_eq!((found, cut), (compression, false));
            assert!(read.unwrap() == if bytes.len() > 1 { text.clone() } else { bytes });
        }
    }

    #[test]
    fn several_members_or_frames_are_one_log() {
        let text = text();
        let (one, two) = text.split_at(1_000_000);
        assert!(read(&[gzip(one), gzip(two)].concat()).0.unwrap() == text);
        let skippable = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert!(read(&[&skippable[..], &zstd(one), &skippable, &zstd(two)].concat()).0.unwrap() == text);
    }

    #[test]
    fn compressed_data_that_ends_early_gives_what_there_was_and_says_so() {
        let text = text();
        for compressed in [gzip(&text), zstd(&text)] {
            for length in [compressed.len() / 2, compressed.len() - 1] {
                let (read, _, cut) = read(&compressed[..length]);
                let read = read.unwrap();
                assert!(cut && text.starts_with(&read) && read.len() > text.len() / 4, "{} bytes", read.len());
            }
        }
    }

    #[test]
    fn damage_in_the_middle_is_an_error() {
        let mut compressed = gzip(&text());
        let middle = compressed.len() / 2;
        compressed[middle..middle + 64].fill(0xff);
        assert!(read(&compressed).0.is_err());
        let mut compressed = [zstd(&text()), zstd(b"more")].concat();
        let second = zstd(&text()).len();
        compressed[second] = 0;
        assert!(read(&compressed).0.is_err());
    }
}
