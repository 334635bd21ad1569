//! Files that a command makes: pictures and pages.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pcp_archive::internal::directory_of;

/// The names in these directories stand for something that is open, or for a device.
const DEVICES: [&str; 2] = ["/dev", "/dev/fd"];

/// Writes a file under another name in the same directory, and renames it: a symbolic link
/// is replaced and not followed, and the file is complete or not there. What is in `/dev` is
/// written to, and never replaced.
///
/// # Errors
///
/// The system's; an error for anything else that is not a regular file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = directory_of(path);
    if DEVICES.map(Path::new).contains(&directory) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    if let Ok(existing) = path.symlink_metadata()
        && !existing.is_file()
        && !existing.is_symlink()
    {
        return Err(io::Error::other("exists, and is not a regular file"));
    }
    let mut file = tempfile::Builder::new()
        .prefix(".mmv-archive-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, symlink};

    use super::*;

    #[test]
    fn a_file_replaces_a_link_and_leaves_what_it_names() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("victim"), "precious").unwrap();
        symlink(path("victim"), path("x.svg")).unwrap();
        write(&path("x.svg"), b"image").unwrap();
        assert_eq!(fs::read(path("victim")).unwrap(), b"precious");
        let found = path("x.svg").symlink_metadata().unwrap();
        assert!(found.is_file() && found.permissions().mode() & 0o600 == 0o600);
        assert_eq!(fs::read(path("x.svg")).unwrap(), b"image");
        write(&path("x.svg"), b"again").unwrap();
        assert_eq!(fs::read(path("x.svg")).unwrap(), b"again");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "no other file");
        fs::create_dir(path("d.svg")).unwrap();
        assert!(write(&path("d.svg"), b"image").is_err());
    }

    #[test]
    fn devices_and_other_special_files_are_not_replaced() {
        write(Path::new("/dev/null"), b"image").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let error = write(&socket, b"image").unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
        assert!(socket.symlink_metadata().unwrap().file_type().is_socket());
    }
}
