//! One compressed stream as a reader of its decompressed bytes.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Seek as _};
use std::sync::Arc;

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use crate::Compression;

/// A compressed file, read from some place on.
pub(super) type Input = BufReader<Arc<File>>;

/// The memory that an xz stream may ask for; `xz -9` asks for 65 MiB.
const MAX_XZ_MEMORY: u64 = 128 << 20;

/// How files begin that compress(1) made, of which `.Z` is the suffix. gzip
/// decompresses them, but it is no gzip.
const LZW: [u8; 2] = [0x1f, 0x9d];

/// The decoder of one stream: a file may consist of several.
pub(super) enum Decoder {
    Xz(Box<XzDecoder<Input>>),
    Bzip2(Box<BzDecoder<Input>>),
    Gzip(Box<GzDecoder<Input>>),
    Zstd(Box<StreamingDecoder<Input, FrameDecoder>>),
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
                let decoder = StreamingDecoder::new(input).map_err(io::Error::other)?;
                Self::Zstd(Box::new(decoder))
            }
        })
    }

    /// Where in the file the stream ends, once all of it was read.
    pub(super) fn finish(self) -> io::Result<u64> {
        let mut input = match self {
            Self::Xz(decoder) => decoder.into_inner(),
            Self::Bzip2(decoder) => decoder.into_inner(),
            Self::Gzip(decoder) => decoder.into_inner(),
            Self::Zstd(decoder) => {
                let (input, frame) = decoder.into_parts();
                check_sum(&frame)?;
                input
            }
        };
        input.stream_position()
    }
}

fn lzw() -> io::Error {
    let reason = "the LZW of compress(1) is not supported; decompress the file with \
                  uncompress or gzip -d first";
    io::Error::new(io::ErrorKind::Unsupported, reason)
}

/// The other decoders check their sums themselves.
fn check_sum(frame: &FrameDecoder) -> io::Result<()> {
    match (frame.get_checksum_from_data(), frame.get_calculated_checksum()) {
        (Some(expected), Some(found)) if expected != found => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("checksum {found:#010x}, expected {expected:#010x}"),
        )),
        _ => Ok(()),
    }
}

impl Read for Decoder {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Xz(decoder) => decoder.read(bytes),
            Self::Bzip2(decoder) => decoder.read(bytes),
            Self::Gzip(decoder) => decoder.read(bytes),
            Self::Zstd(decoder) => decoder.read(bytes),
        }
    }
}
