//! The configuration: defaults, file and command line.
//!
//! Input: options ([`Invocation`]) and the files that they name. Output: the [`Settings`], whose
//! fixed part holds until the agent ends and whose reloadable part SIGHUP replaces. `check-config`
//! reads files by the same code.
//!
//! Invariant: options override the file, which overrides the defaults; a file with an error
//! changes nothing.

mod directories;
pub(crate) mod error;
mod file;
mod groups;
mod invocation;
mod own_groups;
mod owners;
mod pins;
mod pmlogger;
mod retention;
mod settings;
mod shared_file_system;
mod values;
mod warnings;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use directories::from_systemd;
pub(crate) use directories::{
    Sockets, find_mmv_file, host_directory, missing_mmv_file, recorder_directory,
};
pub(crate) use error::ConfigError;
pub(crate) use groups::{group_named, name_of_group};
pub(crate) use invocation::Invocation;
pub(crate) use owners::{OwnerLimits, OwnersLimits};
#[cfg(test)]
pub(crate) use pins::PinnedTo;
pub(crate) use pins::Pins;
pub(crate) use retention::Retention;
#[cfg(test)]
pub(crate) use retention::Tier;
pub(crate) use settings::{
    ANY_USER, CompressionPolicy, Destination, FixedSettings, FlightRecorderSettings, Group,
    InstancePattern, Limits, LogMode, ReloadableSettings, Rotation, Settings,
};
pub(crate) use values::{SyncPolicy, parse_duration};

use crate::host::file_name;

impl Settings {
    pub(crate) fn summary(&self) -> String {
        let Self { fixed, reloadable, .. } = self;
        let archives = match &fixed.destination {
            Destination::Directory(directory) => format!("archives in {}", directory.display()),
            Destination::Base(base) => format!("the archive {}", base.display()),
        };
        let own = self.own_groups();
        let groups = reloadable.groups.iter().chain(&own).map(|group| match group.log {
            LogMode::Never => format!("{} never", group.name),
            _ => format!("{} each {:?}", group.name, reloadable.interval_of(group)),
        });
        let default = format!("default each {:?}", reloadable.interval);
        let groups = groups.chain([default]).collect::<Vec<_>>().join(", ");
        let retention = match &fixed.destination {
            Destination::Directory(_) => {
                format!("; {}", reloadable.retention.summary(reloadable.interval))
            }
            Destination::Base(_) => String::new(),
        };
        let mmv_dir = fixed.mmv_dir.display();
        format!("MMV files in {mmv_dir}, {archives}; groups: {groups}{retention}")
    }

    /// Returns the file that keeps state for the next run; `None` if the user named the archive
    /// and no state directory: such a run has no successor.
    pub(crate) fn state_file(&self, host: &str) -> Option<PathBuf> {
        let named = self.fixed.state_dir.clone().or_else(|| from_systemd("STATE_DIRECTORY"));
        let directory = named.or_else(|| match &self.fixed.destination {
            Destination::Directory(directory) => Some(directory.join(".state")),
            Destination::Base(_) => None,
        });
        directory.map(|directory| directory.join(format!("{}.json", file_name(host))))
    }
}

impl FixedSettings {
    /// Creates the directory of MMV files if it is the default one, and returns a line about all
    /// directories of the run and why they are used.
    pub(crate) fn prepare(&self, socket: Option<&Path>) -> String {
        let reason = directories::prepare_mmv_dir(&self.mmv_dir);
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let mut line = format!("MMV files: {}{reason}", self.mmv_dir.display());
        let _ = match &self.destination {
            Destination::Directory(directory) => {
                let of_user = directories::are_of_the_user(directory);
                let reason = if of_user { " (of this user)" } else { "" };
                write!(line, "; archives: {}{reason}", directory.display())
            }
            Destination::Base(base) => write!(line, "; archive: {}", base.display()),
        };
        if let Some(socket) = socket {
            let _ = write!(line, "; socket: {}", socket.display());
        }
        line
    }
}

impl Destination {
    /// Returns the status socket of the agent; `None` if the user named the archive.
    pub(crate) fn socket(&self, host: &str) -> Option<PathBuf> {
        let archives = match self {
            Self::Directory(directory) => Some(directory.as_path()),
            Self::Base(_) => None,
        };
        directories::socket(archives, host)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_summary_has_directories_and_groups() {
        let group = |name: &str, interval, log| Group {
            name: name.into(),
            metrics: Vec::new(),
            instances: Vec::new(),
            interval,
            log,
        };
        let mut settings =
            Settings::new("/m".into(), Destination::Directory("/a".into()), Duration::from_secs(1));
        let expected = "MMV files in /m, archives in /a; groups: default each 1s; samples kept for \
                        14d, then a value each 1m up to 90d, then a value each 1h up to 730d; ";
        assert!(settings.summary().starts_with(expected), "{}", settings.summary());
        settings.fixed.destination = Destination::Base("/b".into());
        settings.reloadable.groups = vec![
            group("slow", Some(Duration::from_secs(60)), LogMode::OnChange),
            group("group 2", None, LogMode::Every),
            group("secret", None, LogMode::Never),
        ];
        let expected = "MMV files in /m, the archive /b; \
                        groups: slow each 60s, group 2 each 1s, secret never, default each 1s";
        assert_eq!(settings.summary(), expected);
    }
}
