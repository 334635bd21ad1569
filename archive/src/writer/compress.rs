//! Compressing the files of an archive.
//!
//! The index stays as it is, and metadata too unless there is much of it: they are small, and every
//! reader needs all of them at once. Files are compressed in blocks of about 1 MB, each of
//! whole records, that the file lists: xz in its index, zstd in the seek table of the
//! zstd project's seekable format. A reader that knows the list decompresses the blocks
//! that it needs; to others the file is one like any other (decision 011).

mod encoder;
mod pieces;
mod recompress;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use encoder::BlockEncoder;
use flate2::write::GzEncoder;
use pieces::Pieces;
pub use recompress::recompress;

use crate::files::parallel::in_order;
use crate::files::{AddExtension as _, MemberFiles, RecordFile, parallel};
use crate::{Compression, Error, Result, io_error};

/// Bytes of two files that are compared at a time.
const COMPARED: usize = 1 << 20;

/// The time to spend on making files small. Only zstd has several levels here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Little, and one processor: a logger does it all day.
    Least,
    /// More, and all processors: someone waits for it.
    Usual,
}

impl Effort {
    /// Returns the level of libzstd (decision 028).
    const fn zstd_level(self) -> i32 {
        match self {
            Self::Least => 5,
            Self::Usual => 9,
        }
    }

    /// Returns the number of encoders that work at a time.
    fn encoders(self) -> usize {
        match self {
            Self::Least => 1,
            Self::Usual => parallel::threads(),
        }
    }
}

/// Compresses the data volumes of an archive that is not being written. A
/// volume takes its new name when it is compressed to its end; volumes that are
/// compressed already stay.
///
/// # Errors
///
/// [`Error::Io`]; the volume then stays as it was.
pub fn compress_volumes(base: impl AsRef<Path>, compression: Compression) -> Result<()> {
    for volume in MemberFiles::list(base.as_ref())?.volumes.values() {
        if Compression::from_path(volume).is_none() {
            compress_member(volume, compression, Effort::Usual, &mut || true)?;
        }
    }
    Ok(())
}

/// Compresses a data volume or metadata, which must be complete. The new name has the suffix of
/// the compression; the file appears under it when it is on disk, and then the
/// plain one is removed. Returns the new name.
///
/// `go_on` is called for each block; if it returns `false`, nothing changes
/// and the result is `None`.
///
/// # Errors
///
/// [`Error::Io`]; the file is then as it was. A process that is killed leaves one
/// whose name ends in `.unfinished`, which must be removed before the file
/// can be compressed.
pub fn compress_member(
    plain: impl AsRef<Path>,
    compression: Compression,
    effort: Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<PathBuf>> {
    let plain = plain.as_ref();
    let name = plain.with_extension_added(compression.suffix());
    // No archive has a member with this ending.
    let unfinished = name.with_extension_added("unfinished");
    let input = File::open(plain).map_err(io_error("open", plain))?;
    let output = OpenOptions::new().write(true).create_new(true).open(&unfinished);
    let output = output.map_err(io_error("create", &unfinished))?;
    let poured = pour(&input, &output, compression, effort, go_on);
    let done = poured.and_then(|whole| {
        if whole {
            output.sync_all()?;
            fs::rename(&unfinished, &name)?;
        }
        Ok(whole)
    });
    match done {
        Ok(true) => {}
        Ok(false) => {
            fs::remove_file(&unfinished).map_err(io_error("remove", &unfinished))?;
            return Ok(None);
        }
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            return Err(io_error("compress", plain)(error));
        }
    }
    fs::remove_file(plain).map_err(io_error("remove", plain))?;
    Ok(Some(name))
}

/// Returns whether a compressed file has the same bytes as a plain one. One that cannot be
/// decompressed to its end has not.
///
/// # Errors
///
/// [`Error::Io`] if either cannot be read.
pub fn is_same(compressed: impl AsRef<Path>, plain: impl AsRef<Path>) -> Result<bool> {
    match has_same_bytes(compressed.as_ref(), plain.as_ref()) {
        Err(Error::Decompress { .. }) => Ok(false),
        same => same,
    }
}

fn has_same_bytes(compressed: &Path, plain: &Path) -> Result<bool> {
    let mut packed = RecordFile::open(compressed)?;
    let mut plain = RecordFile::open(plain)?;
    let mut one = Vec::new();
    let mut other = Vec::new();
    let len = plain.len()?;
    let mut offset = 0;
    while offset < len {
        let piece = (len - offset).min(COMPARED as u64);
        if packed.available(offset, piece, piece)? < piece {
            return Ok(false);
        }
        one.resize(piece as usize, 0);
        other.resize(piece as usize, 0);
        packed.read_at(&mut one, offset)?;
        plain.read_at(&mut other, offset)?;
        if one != other {
            return Ok(false);
        }
        offset += piece;
    }
    Ok(packed.available(len, 1, 1)? == 0)
}

/// Compresses a plain file into another; `false` if `go_on` ended it.
fn pour(
    input: &File,
    output: &File,
    compression: Compression,
    effort: Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> io::Result<bool> {
    let mut whole = true;
    let go_on = &mut || {
        whole = go_on();
        whole
    };
    compress_pieces(&mut Pieces::new(input), output, compression, effort, go_on)?;
    Ok(whole)
}

/// Compresses pieces into a file, as long as `go_on` allows.
fn compress_pieces(
    pieces: &mut Pieces<impl Read>,
    output: &File,
    compression: Compression,
    effort: Effort,
    go_on: &mut dyn FnMut() -> bool,
) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    match compression {
        Compression::Xz => {
            compress_in_blocks(|| Ok(BlockEncoder::Xz), effort, pieces, &mut output, go_on)?;
        }
        Compression::Zstd => {
            let level = effort.zstd_level();
            compress_in_blocks(|| BlockEncoder::zstd(level), effort, pieces, &mut output, go_on)?;
        }
        Compression::Bzip2 => {
            let mut encoder = BzEncoder::new(&mut output, bzip2::Compression::best());
            each_piece(pieces, go_on, |piece| encoder.write_all(&piece))?;
            encoder.finish()?;
        }
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(&mut output, flate2::Compression::default());
            each_piece(pieces, go_on, |piece| encoder.write_all(&piece))?;
            encoder.finish()?;
        }
    }
    output.flush()
}

fn compress_in_blocks(
    encoder: impl Fn() -> io::Result<BlockEncoder>,
    effort: Effort,
    pieces: &mut Pieces<impl Read>,
    output: &mut impl Write,
    go_on: &mut dyn FnMut() -> bool,
) -> io::Result<()> {
    let count = effort.encoders();
    let mut first = encoder()?;
    let mut container = first.container();
    container.begin(output)?;
    if count == 1 {
        each_piece(pieces, go_on, |piece| container.push(&first.encode(&piece)?, output))?;
        return container.finish(output);
    }
    let others: io::Result<Vec<_>> = (1..count).map(|_| encoder()).collect();
    let encoders = others?.into_iter().chain([first]);
    in_order(
        encoders,
        |encoder, piece: Vec<u8>| encoder.encode(&piece),
        |jobs| {
            each_piece(pieces, go_on, |piece| {
                jobs.push(piece);
                // One waits for each encoder.
                if jobs.len() < 2 * count {
                    return Ok(());
                }
                jobs.pop().map_or(Ok(()), |block| container.push(&block?, output))
            })?;
            while let Some(block) = jobs.pop() {
                container.push(&block?, output)?;
            }
            container.finish(output)
        },
    )
}

/// Passes pieces on, as long as `go_on` allows.
fn each_piece(
    pieces: &mut Pieces<impl Read>,
    go_on: &mut dyn FnMut() -> bool,
    mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    while let Some(piece) = pieces.next()? {
        if !go_on() {
            return Ok(());
        }
        take(piece)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pieces::PIECE;
    use super::*;

    /// Bytes that compress, but not to nothing, in two pieces.
    fn bytes() -> Vec<u8> {
        let mut state = 1u32;
        let bytes = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        });
        bytes.take(PIECE + 1000).collect()
    }

    #[test]
    fn every_compression_gives_back_what_went_in() {
        let plain = bytes();
        for (compression, suffix) in [
            (Compression::Xz, "xz"),
            (Compression::Bzip2, "bz2"),
            (Compression::Gzip, "gz"),
            (Compression::Zstd, "zst"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let base = directory.path().join("a");
            fs::write(base.with_extension("0"), &plain).unwrap();
            fs::write(base.with_extension("3"), b"").unwrap();
            fs::write(base.with_extension("meta"), b"stays").unwrap();
            compress_volumes(&base, compression).unwrap();
            let mut names: Vec<_> = fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            assert_eq!(names, [format!("a.0.{suffix}"), format!("a.3.{suffix}"), "a.meta".into()]);
            let file = base.with_extension(format!("0.{suffix}"));
            assert!(fs::metadata(&file).unwrap().len() < plain.len() as u64 * 3 / 4, "{suffix}");
            let expanded = RecordFile::open(&file).unwrap().read_from(0, usize::MAX).unwrap();
            assert!(expanded == plain, "{suffix}");
            // Again: nothing is left to do.
            compress_volumes(&base, compression).unwrap();
        }
    }

    #[test]
    fn only_a_whole_volume_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("a.0");
        for compression in [Compression::Xz, Compression::Zstd, Compression::Gzip] {
            fs::write(&plain, bytes()).unwrap();
            let go_on = &mut || true;
            let done = compress_member(&plain, compression, Effort::Least, go_on);
            let compressed = done.unwrap().unwrap();
            let is_same = |bytes: &[u8]| {
                fs::write(&plain, bytes).unwrap();
                super::is_same(&compressed, &plain).unwrap()
            };
            let mut bytes = bytes();
            assert!(is_same(&bytes));
            assert!(!is_same(&bytes[..bytes.len() - 1]));
            bytes[PIECE + 7] ^= 1;
            assert!(!is_same(&bytes));
            let packed = fs::read(&compressed).unwrap();
            fs::write(&compressed, &packed[..packed.len() / 2]).unwrap();
            bytes[PIECE + 7] ^= 1;
            assert!(!is_same(&bytes), "cut off");
        }
        assert!(super::is_same(&plain, directory.path().join("none")).is_err());
    }

    #[test]
    fn an_abandoned_compression_leaves_the_volume_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("a.0");
        fs::write(&plain, bytes()).unwrap();
        for compression in [Compression::Xz, Compression::Zstd] {
            let mut pieces = 0;
            let stop = &mut || {
                pieces += 1;
                pieces < 2
            };
            let done = compress_member(&plain, compression, Effort::Least, stop).unwrap();
            assert_eq!((done, pieces), (None, 2));
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
            assert!(fs::read(&plain).unwrap() == bytes());
        }
    }

    #[test]
    fn what_cannot_be_written_leaves_the_volume() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().join("a");
        fs::write(base.with_extension("0"), b"plain").unwrap();
        fs::create_dir(base.with_extension("0.xz.unfinished")).unwrap();
        assert!(compress_volumes(&base, Compression::Xz).is_err());
        assert_eq!(fs::read(base.with_extension("0")).unwrap(), b"plain");
    }
}
