//! The frames of a zstd file, one after another, as one stream: checked, and bounded in memory.
//!
//! Part of [`super::Input`]. The decoder reads the checksum of a frame and leaves it to its caller to
//! compare; that is done here. What a frame needs is its window, and its header says how large that is.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// Largest window accepted: that of `zstd --ultra -20`. Only `--long` and higher levels make larger
/// ones, up to 128 MiB by default, far more than a table takes.
const WINDOW_BYTES_MAX: u64 = 32 << 20;

/// Decompressed bytes of `source`.
pub(super) struct ZstdFrames<S> {
    pub(super) source: S,
    decoder: FrameDecoder,
    within: bool,
}

impl<S: BufRead> ZstdFrames<S> {
    pub(super) fn new(source: S) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_BYTES_MAX);
        Self { source, decoder, within: false }
    }

    /// Reads the header of the next frame; false when there is none.
    fn begin_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                    return Err(io::Error::other(format!(
                        "this zstd data needs a window of {requested} bytes, more than the {max} that are accepted; \
                         pipe it in: zstd -dc --long=31 LOG | flashproof latency -l -"
                    )));
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    /// Compares the checksum at the end of a frame, if it has one, with that of the bytes it gave.
    fn end_frame(&self) -> io::Result<()> {
        match (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum()) {
            (Some(stored), Some(found)) if stored != found => Err(io::Error::other(format!(
                "the zstd data is damaged: its bytes have the checksum {found:08x}, and {stored:08x} was stored"
            ))),
            _ => Ok(()),
        }
    }
}

impl<S: BufRead> Read for ZstdFrames<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            while self.within && self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let blocks = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, blocks).map_err(io::Error::other)?;
            }
            if self.within {
                match self.decoder.read(buffer)? {
                    0 => self.end_frame()?,
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
