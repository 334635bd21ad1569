//! Compressing the data volumes of an archive.
//!
//! Metadata and index stay as they are: they are small, and every reader needs
//! all of them at once. The volumes are compressed in pieces, so that memory is
//! bounded and a reader that can go to a piece (PCP's reader of xz) need not
//! expand what is in front of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::Compression;
use crate::error::{Error, Result};
use crate::reader::{AddExtension as _, MemberFiles};

/// Bytes that are compressed at a time: of xz a block, of zstd a frame.
const PIECE: usize = 8 << 20;

/// The level of xz; what `xz` uses without being told.
const XZ_LEVEL: u32 = 6;

/// Compresses the data volumes of an archive that nobody else writes. A volume
/// takes its new name when it is compressed to its end; volumes that are
/// compressed already stay.
///
/// # Errors
///
/// [`Error::Io`]; the volume at hand is then as it was.
pub fn compress_volumes(base: &Path, compression: Compression) -> Result<()> {
    for volume in MemberFiles::of(base)?.volumes.values() {
        if Compression::of(volume).is_none() {
            compress(volume, compression)?;
        }
    }
    Ok(())
}

/// A file of an archive, compressed; it is called as before with the suffix of
/// the compression.
fn compress(plain: &Path, compression: Compression) -> Result<PathBuf> {
    let failed = |operation, file: &Path| {
        let file = file.to_owned();
        move |source| Error::Io { file, operation, source }
    };
    let name = plain.with_extension_added(compression.suffix());
    // No archive has a member with this ending.
    let unfinished = name.with_extension_added("unfinished");
    let input = File::open(plain).map_err(failed("open", plain))?;
    let output = OpenOptions::new().write(true).create_new(true).open(&unfinished);
    let output = output.map_err(failed("create", &unfinished))?;
    let done = pour(&input, &output, compression)
        .and_then(|()| output.sync_all())
        .and_then(|()| fs::rename(&unfinished, &name));
    if let Err(error) = done {
        let _ = fs::remove_file(&unfinished);
        return Err(failed("compress", plain)(error));
    }
    fs::remove_file(plain).map_err(failed("remove", plain))?;
    Ok(name)
}

/// Everything from a plain file into a compressed one.
fn pour(input: &File, output: &File, compression: Compression) -> io::Result<()> {
    let output = BufWriter::new(output);
    let mut output = match compression {
        Compression::Xz => {
            let mut encoder = XzEncoder::new(output, XZ_LEVEL);
            // Flushing ends a block.
            each_piece(input, |piece| encoder.write_all(piece).and_then(|()| encoder.flush()))?;
            encoder.finish()?
        }
        Compression::Bzip2 => {
            let mut encoder = BzEncoder::new(output, bzip2::Compression::best());
            each_piece(input, |piece| encoder.write_all(piece))?;
            encoder.finish()?
        }
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(output, flate2::Compression::default());
            each_piece(input, |piece| encoder.write_all(piece))?;
            encoder.finish()?
        }
        Compression::Zstd => {
            let mut output = output;
            each_piece(input, |piece| {
                // In memory, since this encoder panics if it cannot write.
                output.write_all(&compress_to_vec(piece, CompressionLevel::Fastest))
            })?;
            output
        }
    };
    output.flush()
}

/// The bytes of a file, so many at a time.
fn each_piece(input: &File, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut piece = Vec::new();
    loop {
        piece.clear();
        input.take(PIECE as u64).read_to_end(&mut piece)?;
        if piece.is_empty() {
            return Ok(());
        }
        take(&piece)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::RecordFile;

    /// Bytes that compress, but not to nothing, in two pieces.
    fn bytes() -> Vec<u8> {
        let mut state = 1u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 28) as u8
        };
        std::iter::repeat_with(next).take(PIECE + 1000).collect()
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
            let expanded = RecordFile::open(&file).unwrap().read_from(0).unwrap();
            assert!(expanded == plain, "{suffix}");
            // Again: nothing is left to do.
            compress_volumes(&base, compression).unwrap();
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
