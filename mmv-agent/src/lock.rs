//! One agent per directory of archives.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::Error;

/// Its name begins with a dot: in directories with a file called `lock` pmproxy does
/// not look for archives.
const NAME: &str = ".mmv-agent.lock";

/// A directory to which no other agent writes as long as this exists.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: Flock<std::fs::File>,
}

impl Lock {
    /// Locks the directory, which must exist.
    ///
    /// # Errors
    ///
    /// [`Error::Locked`] if another agent has it; [`Error::ArchiveDirectory`].
    pub(crate) fn take(directory: &Path) -> Result<Self, Error> {
        let failed = |source| Error::ArchiveDirectory { directory: directory.to_owned(), source };
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path);
        match Flock::lock(file.map_err(failed)?, FlockArg::LockExclusiveNonblock) {
            Ok(mut file) => {
                note_holder(&mut file).map_err(failed)?;
                Ok(Self { _file: file })
            }
            Err((mut file, Errno::EWOULDBLOCK)) => {
                let mut holder = String::new();
                // The holder may not have written its number yet.
                let _ = file.read_to_string(&mut holder);
                Err(Error::Locked {
                    directory: PathBuf::from(directory),
                    holder: holder.trim().into(),
                })
            }
            Err((_, error)) => Err(failed(error.into())),
        }
    }
}

fn note_holder(file: &mut std::fs::File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_agent_gets_an_error_that_names_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lock::take(dir.path()).unwrap();
        let refused = Lock::take(dir.path()).unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())));
        drop(first);
        Lock::take(dir.path()).unwrap();
    }
}
