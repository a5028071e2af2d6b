//! The bytes of a log, decompressed if necessary.
//!
//! The format is detected from the first bytes, never from the file name. `gzip` and `zstd` files are decompressed,
//! also with several members or frames; xz, bzip2 and lz4 files and binary traces are refused; other files are read
//! unchanged. A compressed log that was copied while it was growing reads as a truncated log; [`Input::is_cut`] reports
//! this. Damage in the middle fails the checksum of either format, which is an error.
//!
//! The frames of a zstd file are decoded as one stream. The decoder reads the checksum of a frame, but does not compare
//! it, so this module compares it. A frame needs as much memory as its window; this module limits the window's size,
//! which is in the frame's header.

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Source: RFC 1952, section 2.3.1, and RFC 8878, sections 3.1.1 and 3.1.2.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Bytes 2 to 4 of the magic number of zstd's skippable frames. Byte 1 is 0x50 to 0x5f.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Formats that are refused: magic bytes, name, program that converts to text. Source: the format specifications of xz
/// (2.1.1.1), bzip2, and lz4 frames; blktrace_api.h (in either byte order), perf's header.h, trace-cmd.dat(5).
const UNSUPPORTED_FORMATS: [(&[u8], &str, &str); 10] = [
    (
        &[0xfd, b'7', b'z', b'X', b'Z', 0],
        "compressed with xz",
        "xz -dc",
    ),
    (b"BZh", "compressed with bzip2", "bzip2 -dc"),
    (&[0x04, 0x22, 0x4d, 0x18], "compressed with lz4", "lz4 -dc"),
    (b"PK\x03\x04", "a zip archive", "unzip -p"),
    (
        &[0xff, 0xfe],
        "UTF-16, as PowerShell writes it",
        "iconv -f UTF-16 -t UTF-8",
    ),
    (&[0xfe, 0xff], "UTF-16", "iconv -f UTF-16 -t UTF-8"),
    (b"\x07tae", "a binary trace of blktrace", "blkparse -i"),
    (b"eat\x07", "a binary trace of blktrace", "blkparse -i"),
    (b"PERFILE2", "a binary trace of perf", "perf script -i"),
    (
        b"\x17\x08\x44tracing",
        "a binary trace of trace-cmd",
        "trace-cmd report -i",
    ),
];
const UTF8_BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Length of the longest magic number, bytes.
const FIRST_BYTES: u64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    /// Detects the compression from the first bytes of a file; four are enough.
    pub fn detect(first: &[u8]) -> Self {
        let skippable =
            first.len() >= 4 && first[0] & 0xf0 == 0x50 && first[1..4] == ZSTD_SKIPPABLE;
        match first {
            _ if first.starts_with(&GZIP_MAGIC) => Self::Gzip,
            _ if first.starts_with(&ZSTD_MAGIC) || skippable => Self::Zstd,
            _ => Self::Plain,
        }
    }
}

/// The entry of [`UNSUPPORTED_FORMATS`] for a file's first bytes: name, program.
fn unsupported(first: &[u8]) -> Option<(&'static str, &'static str)> {
    let (_, name, program) = UNSUPPORTED_FORMATS
        .iter()
        .find(|(magic, ..)| first.starts_with(magic))?;
    Some((name, program))
}

/// If a file is not plain text by its first bytes: its format, and the program that converts the file to text.
pub fn encoding(first: &[u8]) -> Option<(&'static str, &'static str)> {
    unsupported(first).or(match Compression::detect(first) {
        Compression::Plain => None,
        Compression::Gzip => Some(("compressed with gzip", "zcat")),
        Compression::Zstd => Some(("compressed with zstd", "zstd -dc")),
    })
}

/// Reader of a log's decompressed bytes. Like the readers of a log, not generic: a generic reader would be compiled in
/// the crates that use it, some of which are not optimised.
pub struct Input<'a> {
    decoder: LogDecoder<'a>,
    cut: bool,
}

enum LogDecoder<'a> {
    Plain(Raw<'a>),
    Gzip(Box<MultiGzDecoder<Raw<'a>>>),
    Zstd(Box<ZstdFrames<'a>>),
}

impl<'a> Input<'a> {
    /// Reads the first bytes. Errors: the source cannot be read, or its compression is not supported.
    pub fn new(source: impl Read + 'a) -> io::Result<Self> {
        Self::piped_to(Box::new(source), "flashproof latency -l -")
    }

    /// Like [`new`](Self::new). Messages suggest `command`, which reads a log from standard input.
    pub fn piped_to(mut source: Box<dyn Read + 'a>, command: &'static str) -> io::Result<Self> {
        let mut first = Vec::new();
        source.by_ref().take(FIRST_BYTES).read_to_end(&mut first)?;
        if let Some((name, program)) = unsupported(&first) {
            let why = format!(
                "the file is {name}, which is not supported: use {program} FILE | {command}"
            );
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let compression = Compression::detect(&first);
        if first.starts_with(UTF8_BYTE_ORDER_MARK) {
            first.drain(..UTF8_BYTE_ORDER_MARK.len());
        }
        let raw = Raw {
            first: Cursor::new(first),
            source,
            is_at_eof: false,
        };
        let decoder = match compression {
            Compression::Plain => LogDecoder::Plain(raw),
            Compression::Gzip => LogDecoder::Gzip(Box::new(MultiGzDecoder::new(raw))),
            Compression::Zstd => {
                LogDecoder::Zstd(Box::new(ZstdFrames::new(BufReader::new(raw), command)))
            }
        };
        Ok(Self {
            decoder,
            cut: false,
        })
    }

    /// True if compressed data ended early. Valid once everything was read.
    pub fn is_cut(&self) -> bool {
        self.cut
    }
}

/// Bytes that are not compressed.
impl<'a> From<&'a [u8]> for Input<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        let raw = Raw {
            first: Cursor::new(Vec::new()),
            source: Box::new(bytes),
            is_at_eof: false,
        };
        Self {
            decoder: LogDecoder::Plain(raw),
            cut: false,
        }
    }
}

impl fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input")
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cut {
            return Ok(0);
        }
        let (read, is_at_eof) = match &mut self.decoder {
            LogDecoder::Plain(raw) => return raw.read(buffer),
            LogDecoder::Gzip(decoder) => (decoder.read(buffer), decoder.get_ref().is_at_eof),
            LogDecoder::Zstd(frames) => (frames.read(buffer), frames.source.get_ref().is_at_eof),
        };
        match read {
            // The decoder needed more bytes than the source had.
            Err(_) if is_at_eof => {
                self.cut = true;
                Ok(0)
            }
            read => read,
        }
    }
}

/// Reader of the raw bytes of the file. `is_at_eof` is set once the end was reached.
struct Raw<'a> {
    first: Cursor<Vec<u8>>,
    source: Box<dyn Read + 'a>,
    is_at_eof: bool,
}

impl Read for Raw<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = match self.first.read(buffer)? {
            0 => self.source.read(buffer)?,
            length => length,
        };
        self.is_at_eof |= length == 0 && !buffer.is_empty();
        Ok(length)
    }
}

/// Largest accepted window: that of `zstd --ultra -20`. `--long` and higher levels make up to 128 MiB by default.
const WINDOW_BYTES_MAX: u64 = 32 << 20;

struct ZstdFrames<'a> {
    source: BufReader<Raw<'a>>,
    decoder: FrameDecoder,
    is_in_frame: bool,
    command: &'static str,
}

impl<'a> ZstdFrames<'a> {
    fn new(source: BufReader<Raw<'a>>, command: &'static str) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self {
            source,
            decoder,
            is_in_frame: false,
            command,
        }
    }

    /// Reads the header of the next frame; false if there is none.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(
                        &mut self.source.by_ref().take(length.into()),
                        &mut io::sink(),
                    )?;
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    return Err(io::Error::other(format!(
                        "this zstd data needs a window of {requested} bytes, more than the {max} that are accepted; \
                         decompress the file first: zstd -dc --long=31 FILE | {}",
                        self.command
                    )));
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Compares the checksum at the end of a frame, if any, with the checksum of the decoded bytes.
    fn end_frame(&self) -> io::Result<()> {
        match (
            self.decoder.get_checksum_from_data(),
            self.decoder.get_calculated_checksum(),
        ) {
            (Some(stored), Some(found)) if stored != found => Err(io::Error::other(format!(
                "the zstd data is damaged: its bytes have the checksum {found:08x}, but {stored:08x} was stored"
            ))),
            _ => Ok(()),
        }
    }
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            while self.is_in_frame && self.decoder.can_collect() == 0 && !self.decoder.is_finished()
            {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder
                    .decode_blocks(&mut self.source, blocks)
                    .map_err(io::Error::other)?;
            }
            if self.is_in_frame {
                match self.decoder.read(buffer)? {
                    0 => self.end_frame()?,
                    length => return Ok(length),
                }
            }
            self.is_in_frame = self.begin_frame()?;
            if !self.is_in_frame {
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

    /// 3 MB of poorly compressible text: more than one block in either format.
    fn text() -> Vec<u8> {
        (0..300_000u32)
            .flat_map(|n| format!("{:08x}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
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
        (read, Compression::detect(bytes), input.is_cut())
    }

    #[test]
    fn compression_is_detected_from_the_first_bytes_and_not_from_the_name() {
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
    fn unsupported_compression_and_binary_traces_are_refused_with_the_command_that_prints_text() {
        for (bytes, program) in [
            (&b"\xfd7zXZ\0\0"[..], "xz -dc"),
            (b"BZh91AY", "bzip2 -dc"),
            (b"\x04\x22\x4d\x18d", "lz4 -dc"),
            (b"\x07tae\x01\0\0\0", "blkparse -i"),
            (b"eat\x07\0\0\0\x01", "blkparse -i"),
            (b"PERFILE2\x68\0\0\0", "perf script -i"),
            (b"\x17\x08Dtracing6\0", "trace-cmd report -i"),
        ] {
            let error = Input::new(bytes).err().unwrap().to_string();
            let way_out = format!("not supported: use {program} FILE | flashproof latency -l -");
            assert!(error.contains(&way_out), "{error}");
        }
    }

    #[test]
    fn several_members_or_frames_are_one_log() {
        let text = text();
        let (one, two) = text.split_at(1_000_000);
        assert!(read(&[gzip(one), gzip(two)].concat()).0.unwrap() == text);
        let skippable = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        assert!(
            read(&[&skippable[..], &zstd(one), &skippable, &zstd(two)].concat())
                .0
                .unwrap()
                == text
        );
    }

    #[test]
    fn truncated_compressed_data_is_read_to_its_end_and_reported_as_cut() {
        let text = text();
        for compressed in [gzip(&text), zstd(&text)] {
            for length in [compressed.len() / 2, compressed.len() - 1] {
                let (read, _, cut) = read(&compressed[..length]);
                let read = read.unwrap();
                assert!(
                    cut && text.starts_with(&read) && read.len() > text.len() / 4,
                    "{} bytes",
                    read.len()
                );
            }
        }
    }

    #[test]
    fn damage_in_the_middle_is_an_error() {
        let mut compressed = gzip(&text());
        let middle = compressed.len() / 2;
        compressed[middle..middle + 64].fill(0xff);
        assert!(read(&compressed).0.is_err());
        // Changes the checksum, which is followed only by the length.
        let mut compressed = gzip(&text());
        let end = compressed.len();
        compressed[end - 6] ^= 1;
        assert!(read(&compressed).0.is_err());
        let mut compressed = [zstd(&text()), zstd(b"more")].concat();
        let second = zstd(&text()).len();
        compressed[second] = 0;
        assert!(read(&compressed).0.is_err());
    }
    #[test]
    fn a_changed_byte_of_a_raw_zstd_block_is_found_by_the_checksum() {
        let level = ruzstd::encoding::CompressionLevel::Uncompressed;
        let whole = ruzstd::encoding::compress_to_vec(&text()[..], level);
        assert!(read(&whole).0.unwrap() == text());
        for at in [whole.len() / 2, whole.len() - 5] {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            // Damage in the last frame of the file, and in a frame before another frame.
            for bytes in [changed.clone(), [&changed[..], &whole].concat()] {
                let (read, _, cut) = read(&bytes);
                let error = read.unwrap_err().to_string();
                assert!(
                    !cut && error.contains("the zstd data is damaged: its bytes have the checksum"),
                    "{error}"
                );
            }
        }
        // Without a checksum, damage is not detected.
        let mut unchecked = whole[..whole.len() - 4].to_vec();
        assert_eq!(
            unchecked[4] & 0b100,
            0b100,
            "the frame says that it has a checksum"
        );
        unchecked[4] &= !0b100;
        assert!(read(&unchecked).0.unwrap() == text());
    }

    #[test]
    fn zstd_windows_above_the_memory_limit_are_refused_with_the_remedy() {
        // A frame without a checksum: the window descriptor and a single empty raw block, marked as the last.
        let frame = |window: u8| [&ZSTD_MAGIC[..], &[0, window, 1, 0, 0]].concat();
        let descriptor = |log: u8, eighths: u8| (log - 10) << 3 | eighths;
        assert_eq!(read(&frame(descriptor(25, 0))).0.unwrap(), b"");
        for window in [descriptor(25, 1), descriptor(27, 0), descriptor(31, 0)] {
            let error = read(&frame(window)).0.unwrap_err().to_string();
            let way_out = "more than the 33554432 that are accepted; decompress the file first: zstd -dc --long=31";
            assert!(error.contains(way_out), "{error}");
        }
    }
}
