//! One compressed stream as a reader of its decompressed bytes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _};
use std::sync::Arc;

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use zstd::stream::read::Decoder as ZstdDecoder;

use crate::Compression;

/// A compressed file, read from some offset on.
pub(super) type Input = BufReader<Arc<File>>;

/// The memory that an xz stream may ask for; `xz -9` asks for 65 MiB.
pub(in crate::files) const MAX_XZ_MEMORY: u64 = 128 << 20;

/// The first bytes of files made by compress(1), whose suffix is `.Z`. gzip decompresses them,
/// but the format is not gzip's.
const LZW: [u8; 2] = [0x1f, 0x9d];

/// The decoder of one stream: a file may consist of several.
pub(super) enum Decoder {
    Xz(Box<XzDecoder<Input>>),
    Bzip2(Box<BzDecoder<Input>>),
    Gzip(Box<GzDecoder<Input>>),
    Zstd(Box<ZstdDecoder<'static, Input>>),
}

impl Decoder {
    pub(super) fn new(compression: Compression, mut input: Input) -> io::Result<Self> {
        Ok(match compression {
            Compression::Xz => {
                let stream = Stream::new_auto_decoder(MAX_XZ_MEMORY, 0)?;
                Self::Xz(Box::new(XzDecoder::new_stream(input, stream)))
            }
            Compression::Bzip2 => Self::Bzip2(Box::new(BzDecoder::new(input))),
            Compression::Gzip if input.fill_buf()?.starts_with(&LZW) => return Err(lzw()),
            Compression::Gzip => Self::Gzip(Box::new(GzDecoder::new(input))),
            Compression::Zstd => {
                // A stream whose window exceeds 128 MiB is refused, as by zstd(1).
                Self::Zstd(Box::new(ZstdDecoder::with_buffer(input)?.single_frame()))
            }
        })
    }

    /// Returns the offset in the file at which the stream ends, once all of it was read.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut input = match self {
            Self::Xz(decoder) => decoder.into_inner(),
            Self::Bzip2(decoder) => decoder.into_inner(),
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => decoder.finish(),
        };
        input.stream_position()
    }
}

fn lzw() -> io::Error {
    let reason = "the LZW of compress(1) is not supported; decompress the file with \
                  uncompress or gzip -d first";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

impl Read for Decoder {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Xz(decoder) => {
                // It does not say what it had written when it met damage. The next call
                // meets it again.
                let before = decoder.total_out();
                let read = decoder.read(bytes);
                let written = decoder.total_out().saturating_sub(before) as usize;
                if read.is_err() && written > 0 { Ok(written) } else { read }
            }
            Self::Bzip2(decoder) => decoder.read(bytes),
            Self::Gzip(decoder) => decoder.read(bytes),
            Self::Zstd(decoder) => decoder.read(bytes),
        }
    }
}
