//! Names of archives that took the place of others.
//!
//! A [reduced](crate::reduce) archive that replaced another one is called like it, with its
//! interval: `20261127.00.10`, then `20261127.00.10.1m`, then `20261127.00.10.1h`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pcp_types::{format_interval, parse_interval};

use super::members::{AddExtension as _, archives_in};
use crate::Result;

/// Returns the base name of the archive that replaces `base` by one value an interval.
pub fn reduced_base(base: &Path, interval: Duration) -> PathBuf {
    original_base(base).with_extension_added(&format_interval(interval))
}

/// Returns the base name that an archive had before it was replaced by a reduced one; that of any
/// other archive as it is.
pub fn original_base(base: &Path) -> PathBuf {
    match reduced_interval(base) {
        Some(_) => base.with_extension(""),
        None => base.to_owned(),
    }
}

/// Returns the interval in the name of a reduced archive that replaced another one.
pub fn reduced_interval(base: &Path) -> Option<Duration> {
    let extension = base.extension()?.to_str()?;
    let interval = parse_interval(extension).ok()?;
    // Only as it is written: 00 is a minute of the clock.
    (!interval.is_zero() && format_interval(interval) == extension).then_some(interval)
}

/// Returns the archive that has taken the place of one without metadata: that is the same one
/// [reduced](reduced_base).
///
/// # Errors
///
/// [`Error::Io`](crate::Error::Io) if the directory cannot be listed.
pub fn successor(base: &Path) -> Result<Option<PathBuf>> {
    let original = original_base(base);
    let archives = archives_in(base.parent().unwrap_or(Path::new("")))?;
    let mut bases = archives.into_iter().map(|files| files.base);
    Ok(bases.find(|other| other != base && original_base(other) == original))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduced_archive_is_named_by_original_and_interval() {
        let original = Path::new("dir.1h/20261127.00.10");
        let minutes = reduced_base(original, Duration::from_secs(60));
        assert_eq!(minutes, Path::new("dir.1h/20261127.00.10.1m"));
        let hours = reduced_base(&minutes, Duration::from_secs(3600));
        assert_eq!(hours, Path::new("dir.1h/20261127.00.10.1h"));
        assert_eq!(reduced_interval(&hours), Some(Duration::from_secs(3600)));
        assert_eq!(original_base(&hours), original);
        for other in ["20261127.00.10", "20261127.00.10-01", "a.60s", "a.01m", "a.1min", "a"] {
            assert_eq!(reduced_interval(Path::new(other)), None, "{other}");
            assert_eq!(original_base(Path::new(other)), Path::new(other));
        }
    }
}
