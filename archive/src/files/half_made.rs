//! Archives whose writer ended before it had made their files.

use std::path::Path;

use super::members::{AddExtension as _, MemberFiles};
use super::record_file::RecordFile;
use crate::format::{Role, frame};
use crate::{Compression, Error, Result, Version};

/// Finds out what an archive lacks whose writer did not finish creating it: [`Error::Missing`]
/// without metadata or without a data volume, [`Error::Corrupt`] if the metadata or all data
/// volumes end within their label. `None` for any other archive, damaged or not.
///
/// # Errors
///
/// [`Error::Io`] if the directory or a file cannot be read.
pub fn half_made(base: &Path) -> Result<Option<Error>> {
    let files = MemberFiles::list(base)?;
    let missing = |extension| Some(Error::Missing { file: base.with_extension_added(extension) });
    let Some(metadata) = &files.metadata else { return Ok(missing("meta")) };
    if files.volumes.is_empty() {
        return Ok(missing("0"));
    }
    if let Some(error) = cut_label(metadata)? {
        return Ok(Some(error));
    }
    let mut cut = None;
    for volume in files.volumes.values() {
        match cut_label(volume)? {
            Some(error) => cut = Some(error),
            None => return Ok(None),
        }
    }
    Ok(cut)
}

/// Returns whether an archive has metadata, by which readers find it: not if it was removed.
///
/// # Errors
///
/// [`Error::Io`] if the directory cannot be listed.
pub fn has_metadata(base: &Path) -> Result<bool> {
    Ok(MemberFiles::list(base)?.metadata.is_some())
}

/// Returns whether a data volume of the archive has anything after its label, with metadata or
/// without.
///
/// # Errors
///
/// As [`half_made`].
pub fn has_data(base: &Path) -> Result<bool> {
    for (path, role) in MemberFiles::list(base)?.all() {
        if matches!(role, Role::Data(_)) && has_more_than_label(path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_more_than_label(path: &Path) -> Result<bool> {
    let mut file = RecordFile::open(path)?;
    let mut bytes = [0; 4];
    let len = file.available(0, 0, bytes.len() as u64)?;
    file.read_at(bytes.get_mut(..len as usize).unwrap_or_default(), 0)?;
    let longest = Version::V3.label_size();
    let is_longest = frame::parse_length(&bytes).is_ok_and(|len| u64::from(len) == longest);
    let size = if is_longest { longest } else { Version::V2.label_size() };
    // What cannot be decompressed is something, too.
    Ok(file.available(0, 0, size + 1)? > size || file.damaged_until(size).is_some())
}

fn cut_label(path: &Path) -> Result<Option<Error>> {
    let mut file = RecordFile::open(path)?;
    match file.read_any_label() {
        Ok(_) => Ok(None),
        Err(error @ Error::Io { .. }) => Err(error),
        Err(error) => {
            let longest = Version::V3.label_size();
            // Only whole files are compressed.
            let is_cut = Compression::from_path(path).is_none()
                && file.available(0, 0, longest).is_ok_and(|len| len < longest);
            Ok(Some(error).filter(|_| is_cut))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use test_archives::Builder;

    use super::*;

    #[test]
    fn an_archive_is_half_made_until_its_files_have_their_labels() {
        let builder = Builder::new().metric("m", "i32 instant");
        let (_directory, base) = builder.row(0, [("m", 1)]).finish().into_parts();
        let members = ["meta", "0", "index"].map(|part| base.with_extension_added(part));
        let bytes = members.clone().map(|file| fs::read(file).unwrap());
        assert!(half_made(&base).unwrap().is_none() && has_data(&base).unwrap());
        for cut in [0, 3, 131, 132, 807, 808] {
            for (file, bytes) in members.iter().zip(&bytes).take(2) {
                fs::write(file, &bytes[..cut]).unwrap();
                assert_eq!(half_made(&base).unwrap().is_some(), cut < 808, "{file:?} {cut}");
                assert_eq!(has_data(&base).unwrap(), *file == members[0], "{file:?} {cut}");
                fs::write(file, bytes).unwrap();
            }
        }
        fs::remove_file(&members[0]).unwrap();
        assert!(matches!(half_made(&base), Ok(Some(Error::Missing { .. }))));
        assert!(has_data(&base).unwrap());
        fs::remove_file(&members[1]).unwrap();
        assert!(!has_data(&base).unwrap());
        fs::write(&members[0], &bytes[0]).unwrap();
        assert!(matches!(half_made(&base), Ok(Some(Error::Missing { .. }))));
    }
}
