//! What the command line says, over what the file says.

use std::path::PathBuf;
use std::time::Duration;

use mmv_archive::Version;
use mmv_writer::mmv_directory;

use super::error::ConfigError;
use super::{Destination, Settings, default_archive_dir, file, pmlogger};
use crate::own;

/// How the agent was called; kept, so that its files can be read again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// A configuration file of pmlogger, whose groups take the place of those
    /// of the former.
    pub pmlogger_config: Option<PathBuf>,
    /// The directory of MMV files.
    pub mmv_dir: Option<PathBuf>,
    /// Where archives go.
    pub destination: Option<Destination>,
    /// The time between samples of what no group has.
    pub interval: Option<Duration>,
    /// Stop after so many samples.
    pub samples: Option<u64>,
    /// Stop after so much time.
    pub duration: Option<Duration>,
    /// The version of archives.
    pub archive_version: Option<Version>,
    /// Whether the agent publishes metrics of its own.
    pub own_metrics: Option<bool>,
    /// Whether what happens goes into the archive.
    pub events: Option<bool>,
}

impl Invocation {
    /// Reads the files and puts all layers together. A daemon tells of itself
    /// unless it is told not to; its own metrics have a group behind all others.
    ///
    /// # Errors
    ///
    /// Any [`ConfigError`].
    pub fn settings(&self) -> Result<Settings, ConfigError> {
        let archive_dir = Destination::Folder(default_archive_dir());
        let mut settings = Settings::new(mmv_directory(), archive_dir);
        (settings.own_metrics, settings.events) = (true, true);
        if let Some(config) = &self.config {
            file::apply(config, &mut settings)?;
        }
        if let Some(file) = &self.pmlogger_config {
            settings.groups = pmlogger::read(file)?;
        }
        if let Some(mmv_dir) = &self.mmv_dir {
            settings.mmv_dir.clone_from(mmv_dir);
        }
        if let Some(destination) = &self.destination {
            settings.destination.clone_from(destination);
        }
        if let Some(interval) = self.interval {
            settings.interval = interval;
        }
        settings.archive_version = self.archive_version.unwrap_or(settings.archive_version);
        settings.samples = self.samples;
        settings.duration = self.duration;
        settings.own_metrics = self.own_metrics.unwrap_or(settings.own_metrics);
        settings.events = self.events.unwrap_or(settings.events);
        if settings.own_metrics {
            settings.groups.push(own::group(settings.interval));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_command_line_wins_over_the_file_and_the_file_over_what_is_built_in() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("agent.toml");
        fs::write(&config, "mmv-dir = \"/m\"\narchive-dir = \"/a\"\ninterval = \"5s\"").unwrap();
        let invocation = Invocation { config: Some(config), ..Invocation::default() };
        let settings = invocation.settings().unwrap();
        assert_eq!(settings.interval, Duration::from_secs(5));
        assert_eq!(settings.destination, Destination::Folder("/a".into()));
        assert_eq!(settings.mmv_dir, PathBuf::from("/m"));

        let invocation = Invocation {
            mmv_dir: Some("/n".into()),
            destination: Some(Destination::Base("/b".into())),
            interval: Some(Duration::from_secs(7)),
            ..invocation
        };
        let settings = invocation.settings().unwrap();
        assert_eq!(settings.interval, Duration::from_secs(7));
        assert_eq!(settings.destination, Destination::Base("/b".into()));
        assert_eq!(settings.mmv_dir, PathBuf::from("/n"));
    }

    #[test]
    fn a_daemon_tells_of_itself_unless_it_is_told_not_to() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("agent.toml");
        let text = "interval = \"4s\"\n[[group]]\nmetrics = [\"mmv.a\"]\n";
        fs::write(&config, text).unwrap();
        let invocation = Invocation { config: Some(config.clone()), ..Invocation::default() };
        let settings = invocation.settings().unwrap();
        assert!(settings.own_metrics && settings.events);
        let [_, own] = &settings.groups[..] else { panic!("{:?}", settings.groups) };
        // A multiple of four seconds, so that no tick is for it alone.
        assert_eq!(own.interval, Some(Duration::from_secs(12)));
        assert_eq!(own.metrics, ["mmv.agent", "mmv.agent_?.*"]);

        let quiet = Invocation { own_metrics: Some(false), events: Some(false), ..invocation };
        let quiet = quiet.settings().unwrap();
        assert!(!quiet.own_metrics && !quiet.events && quiet.groups.len() == 1);
        fs::write(&config, format!("own-metrics = false\nevents = false\n{text}")).unwrap();
        let invocation = Invocation { config: Some(config), ..Invocation::default() };
        assert_eq!(invocation.settings().unwrap(), quiet);
    }

    #[test]
    fn pmloggers_groups_take_the_place_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let (config, theirs) = (dir.path().join("agent.toml"), dir.path().join("config"));
        fs::write(&config, "interval = \"5s\"\n[[group]]\nmetrics = [\"mmv.a\"]\n").unwrap();
        fs::write(&theirs, "log on default mmv.b\n").unwrap();
        let invocation = Invocation {
            config: Some(config),
            pmlogger_config: Some(theirs.clone()),
            ..Invocation::default()
        };
        let settings = invocation.settings().unwrap();
        assert_eq!(settings.groups[0].metrics, ["mmv.b"]);
        assert_eq!(settings.interval, Duration::from_secs(5));
        fs::write(&theirs, "\nlog of default mmv.b\n").unwrap();
        let error = invocation.settings().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2: \"of\"", theirs.display())), "{error}");
    }
}
