//! A copy of an archive whose volumes are compressed in another way.
//!
//! In: an archive. Out: the same bytes in other files. No record is taken apart: volumes
//! are decompressed and compressed piece by piece, metadata and index are copied. What
//! cannot be copied in this way because it is damaged, or because its writer goes on while
//! it is read, has to be read record by record ([`Extract`](crate::extract::Extract)).

use std::fs::File;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hashbrown::HashMap;
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use super::pieces::Order;

use super::Effort;
use super::compress_pieces;
use super::pieces::Pieces;
use crate::files::{AddExtension as _, MemberFiles, RecordFile, create_new};
use crate::format::{Role, index};
use crate::{Archive, Compression, Error, Result, Summary, io_error};

/// Bytes that are copied at once.
const STEP: u64 = 8 << 20;

/// Copies an archive to the base name `to`, with all of its volumes compressed in this way
/// or, for `None`, plain; those that are so already as they are. `watch` is called with the
/// bytes of each piece of a volume, decompressed.
///
/// `None`, with files that have to be removed, if the archive is not whole: its index is missing,
/// has defects or points beyond the end of the files, a volume is missing, a file ends within a record, has
/// anything between records or cannot be decompressed, a record is earlier than the one before it,
/// metadata or index are compressed, or a file grew meanwhile.
///
/// # Errors
///
/// [`Error::Io`]; [`Error::Exists`] for a file that is there already.
pub fn recompress(
    archive: &Archive,
    to: impl AsRef<Path>,
    compression: Option<Compression>,
    effort: Effort,
    watch: &mut dyn FnMut(u64),
) -> Result<Option<Summary>> {
    let to = to.as_ref();
    let files = MemberFiles::list(archive.base())?;
    let (Some(metadata), Some(own_index)) = (&files.metadata, &files.index) else {
        return Ok(None);
    };
    let is_whole = archive.torn_tail().is_none()
        && archive.bad_metadata().is_empty()
        && archive.index().defects().is_empty()
        && archive.missing_volumes().is_empty()
        && files.volumes.keys().copied().eq(archive.volumes())
        && [metadata, own_index].iter().all(|file| Compression::from_path(file).is_none())
        && is_of_records(metadata)?;
    if !is_whole {
        return Ok(None);
    }
    let mut made = Summary {
        base: to.to_owned(),
        records: 0,
        span: None,
        volumes: files.volumes.len() as u32,
        bytes: 0,
    };
    let mut plain = HashMap::new();
    let mut order = Order::new(archive.version());
    for (number, file) in &files.volumes {
        let mut name = to.with_extension_added(&Role::Data(*number).extension());
        if let Some(compression) = compression {
            name = name.with_extension_added(compression.suffix());
        }
        let copied = copy_volume(file, &name, compression, effort, &mut order, watch)?;
        let Some(copied) = copied else { return Ok(None) };
        made.records += copied.records;
        made.bytes += copied.written;
        plain.insert(*number, copied.plain);
    }
    let metadata_len = len(metadata)?;
    for entry in archive.index().entries() {
        let Some(data_len) = plain.get(&entry.volume) else { return Ok(None) };
        if entry.metadata_offset > metadata_len || entry.data_offset > *data_len {
            return Ok(None);
        }
    }
    // In this order the index has no place that is not there yet.
    for (file, role) in [(metadata, Role::Metadata), (own_index, Role::Index)] {
        let copied = copy(file, &to.with_extension_added(&role.extension()))?;
        let is_whole = role != Role::Index || {
            let entries = copied.checked_sub(archive.version().label_size());
            entries.is_some_and(|len| len % index::size(archive.version()) as u64 == 0)
        };
        if !is_whole || len(file)? != copied {
            return Ok(None);
        }
        made.bytes += copied;
    }
    let again = MemberFiles::list(archive.base())?;
    if again.volumes != files.volumes {
        return Ok(None);
    }
    let made_anew = Archive::open_tolerant(to)?;
    let first = made_anew.records()?.next()?.map(|record| record.timestamp());
    made.span = first.map(|first| (first, made_anew.end()));
    Ok((made_anew.end() == archive.end()).then_some(made))
}

struct CopiedVolume {
    records: u64,
    written: u64,
    /// Bytes of its records and its label.
    plain: u64,
}

/// Copies a volume; `None` if it has anything but records in the order of time, or grew.
fn copy_volume(
    file: &Path,
    name: &Path,
    compression: Option<Compression>,
    effort: Effort,
    order: &mut Order,
    watch: &mut dyn FnMut(u64),
) -> Result<Option<CopiedVolume>> {
    let output = create_new(name)?;
    let before = len(file)?;
    let mut plain = 0;
    let watch = &mut |bytes| {
        plain += bytes;
        watch(bytes);
    };
    let bytes = Plain { file: RecordFile::open(file)?.read_once(), offset: 0, watch };
    let mut pieces = Pieces::of_volume(bytes, *order);
    let goes_on = AtomicBool::new(true);
    let poured = match compression {
        _ if Compression::from_path(file) == compression => thread::scope(|scope| {
            let copy = scope.spawn(|| pour_file(file, &output, &goes_on));
            let checked = pour(&mut pieces, &mut io::sink());
            // A file of zeros takes no room on the disk; its copy would.
            goes_on.store(checked.is_ok() && pieces.records().is_some(), Ordering::Relaxed);
            let copied = copy.join().unwrap_or_else(|panic| resume_unwind(panic));
            checked.and(copied)
        }),
        Some(compression) => {
            compress_pieces(&mut pieces, &output, compression, effort, &mut || true)
        }
        None => pour(&mut pieces, &mut &output),
    };
    match poured.and_then(|()| output.sync_all()).map_err(io::Error::downcast::<Error>) {
        Ok(()) if len(file)? == before => {}
        Ok(()) | Err(Ok(Error::Decompress { .. })) => return Ok(None),
        Err(Ok(error)) => return Err(error),
        Err(Err(error)) => return Err(io_error("write", name)(error)),
    }
    *order = pieces.order().unwrap_or(*order);
    let written = len(name)?;
    // The label is not a record of the archive.
    let records = pieces.records().and_then(|all| all.checked_sub(1));
    Ok(records.map(|records| CopiedVolume { records, written, plain }))
}

fn pour(pieces: &mut Pieces<impl Read>, output: &mut impl io::Write) -> io::Result<()> {
    while let Some(piece) = pieces.next()? {
        output.write_all(&piece)?;
    }
    Ok(())
}

/// Copies a file while it `goes_on`, and has what was copied written to the disk meanwhile:
/// synchronizing it takes as long as copying.
fn pour_file(file: &Path, mut output: &File, goes_on: &AtomicBool) -> io::Result<()> {
    let mut input = File::open(file)?;
    let mut copied = 0;
    loop {
        if !goes_on.load(Ordering::Relaxed) {
            return Ok(());
        }
        let len = io::copy(&mut input.by_ref().take(STEP), &mut output)?;
        if len == 0 {
            return Ok(());
        }
        // This advice starts to write pages that are not on the disk yet, and drops others.
        // It costs time only if it fails.
        let advice = PosixFadviseAdvice::POSIX_FADV_DONTNEED;
        let _ = posix_fadvise(output, copied, len as i64, advice);
        copied += len as i64;
    }
}

/// Returns whether a plain file has nothing but records.
fn is_of_records(file: &Path) -> Result<bool> {
    let input = File::open(file).map_err(io_error("open", file))?;
    let mut pieces = Pieces::of_records(input);
    while pieces.next().map_err(io_error("read", file))?.is_some() {}
    Ok(pieces.records().is_some())
}

/// Copies a file as it is; returns its length.
fn copy(file: &Path, name: &Path) -> Result<u64> {
    let mut output = create_new(name)?;
    let mut input = File::open(file).map_err(io_error("open", file))?;
    let copied = io::copy(&mut input, &mut output);
    copied.and_then(|len| output.sync_all().map(|()| len)).map_err(io_error("write", name))
}

fn len(file: &Path) -> Result<u64> {
    file.metadata().map(|file| file.len()).map_err(io_error("stat", file))
}

/// The bytes of a volume, decompressed.
struct Plain<'w> {
    file: RecordFile,
    offset: u64,
    watch: &'w mut dyn FnMut(u64),
}

impl Plain<'_> {
    fn read_next(&mut self, bytes: &mut [u8]) -> Result<usize> {
        let mut len = self.file.available(self.offset, 0, bytes.len() as u64)?;
        if len == 0 {
            // Damage is an error, the end is none.
            len = self.file.available(self.offset, 1, 1)?;
        }
        let bytes = bytes.get_mut(..len as usize).unwrap_or_default();
        self.file.read_at(bytes, self.offset)?;
        self.offset += len;
        (self.watch)(len);
        Ok(len as usize)
    }
}

impl Read for Plain<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.read_next(bytes).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use test_archives::Builder;

    use super::*;
    use crate::Version;
    use crate::format::frame;
    use crate::internal::member_files;

    const KINDS: [Option<Compression>; 5] = [
        None,
        Some(Compression::Zstd),
        Some(Compression::Xz),
        Some(Compression::Gzip),
        Some(Compression::Bzip2),
    ];

    /// An archive of three volumes with 40 records, one of them a mark. The first volume has two
    /// blocks.
    fn write(base: &Path) {
        let mut builder = Builder::of_host("host", base).metric("acme.text", "string discrete");
        let mut random = 1u32;
        for second in 0..39 {
            let mut next = || {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 28) as u8
            };
            let len = if second <= 25 { 45_000 } else { 5_000 };
            let text: Vec<u8> = (0..len).map(|_| b'a' + next()).collect();
            builder = builder.row(second, [("acme.text", text)]);
            builder = match second {
                25 | 30 => builder.volume(),
                20 => builder.mark(20.000_000_005),
                _ => builder,
            };
        }
        builder.finish();
    }

    fn copy_of(base: &Path, to: &Path, compression: Option<Compression>) -> Option<Summary> {
        let archive = Archive::open(base).unwrap();
        recompress(&archive, to, compression, Effort::Usual, &mut |_| {}).unwrap()
    }

    fn files(base: &Path) -> Vec<(String, Vec<u8>)> {
        let len = base.to_str().unwrap().len();
        let files = member_files(base).unwrap().into_iter();
        files.map(|file| (file.to_str().unwrap()[len..].into(), fs::read(&file).unwrap())).collect()
    }

    #[test]
    fn from_any_compression_to_any_other_nothing_is_lost() {
        let directory = tempfile::tempdir().unwrap();
        let base = |name: &str| directory.path().join(name);
        write(&base("plain"));
        let plain = files(&base("plain"));
        for (number, kind) in KINDS.into_iter().enumerate() {
            let first = base(&format!("first{number}"));
            let made = copy_of(&base("plain"), &first, kind).unwrap();
            assert_eq!((made.records, made.volumes), (40, 3));
            let (start, end) = made.span.unwrap();
            assert_eq!((start.seconds(), end.seconds()), (1_700_000_000, 1_700_000_038));
            let all: usize = files(&first).iter().map(|(_, bytes)| bytes.len()).sum();
            assert_eq!(made.bytes, all as u64);
            for (then, other) in KINDS.into_iter().enumerate() {
                let second = base(&format!("second{number}{then}"));
                copy_of(&first, &second, other).unwrap();
                if other == kind {
                    assert!(files(&second) == files(&first), "{kind:?}");
                }
                let third = base(&format!("third{number}{then}"));
                copy_of(&second, &third, None).unwrap();
                assert!(files(&third) == plain, "{kind:?}, {other:?}");
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_not_copied() {
        type Spoil = fn(&mut Vec<u8>);
        let cases: [(&str, &str, Spoil); 9] = [
            ("index beyond a volume", "index", |bytes| {
                let offset = Version::V3.label_size() as usize + 24;
                bytes[offset..offset + 8].copy_from_slice(&(1_u64 << 40).to_be_bytes());
            }),
            ("index of a volume that is not there", "index", |bytes| {
                let volume = Version::V3.label_size() as usize + 12;
                bytes[volume..volume + 4].copy_from_slice(&9_u32.to_be_bytes());
            }),
            ("torn", "2", |bytes| bytes.truncate(bytes.len() - 10)),
            ("a length", "1", |bytes| {
                let label = Version::V3.label_size() as usize;
                let len = frame::parse_length(&bytes[label..]).unwrap() as usize;
                bytes[label + len - 1] ^= 1;
            }),
            ("garbage", "0", |bytes| bytes.extend([7; 900])),
            ("torn metadata", "meta", |bytes| bytes.truncate(bytes.len() - 3)),
            ("metadata", "meta", |bytes| bytes.extend([0; 8])),
            ("torn index", "index", |bytes| bytes.truncate(bytes.len() - 3)),
            ("index", "index", |bytes| bytes.extend([0xff; 32])),
        ];
        let directory = tempfile::tempdir().unwrap();
        for (number, (name, part, spoil)) in cases.into_iter().enumerate() {
            let base = directory.path().join(format!("a{number}"));
            write(&base);
            let file = base.with_extension(part);
            let mut bytes = fs::read(&file).unwrap();
            spoil(&mut bytes);
            fs::write(&file, bytes).unwrap();
            let Ok(archive) = Archive::open_tolerant(&base) else { continue };
            let to = directory.path().join(format!("b{number}"));
            let zstd = Some(Compression::Zstd);
            let made = recompress(&archive, &to, zstd, Effort::Usual, &mut |_| {}).unwrap();
            assert_eq!(made, None, "{name}");
        }
    }
}
