//! The options of `mmv-agent run`, which override the file.

use std::path::PathBuf;
use std::time::Duration;

use pcp_archive::Version;

use super::error::ConfigError;
use super::values::{parse_archive_version, parse_duration};
use super::{Destination, Settings, file, pmlogger};

/// The options of `mmv-agent run`; kept, so that SIGHUP can read the files again.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Invocation {
    /// The configuration file, in TOML; the options below override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A configuration file of pmlogger, whose statements replace the groups of the
    /// configuration file; macros are not supported
    #[arg(long, value_name = "FILE")]
    pub pmlogger_config: Option<PathBuf>,
    /// The directory of MMV files [default: `$PCP_TMP_DIR/mmv` from the
    /// environment, else from `$PCP_CONF` or /etc/pcp.conf, else
    /// /var/lib/pcp/tmp/mmv; where this user may not write there, mmv in
    /// `$XDG_RUNTIME_DIR`, else in ~/.local/state: where programs of this user
    /// publish]
    #[arg(long, value_name = "DIR")]
    pub mmv_dir: Option<PathBuf>,
    /// The directory for archives, which are called HOST/YYYYMMDD.HH.MM after their
    /// start in UTC [default: `$LOGS_DIRECTORY` as set by systemd; for root
    /// /var/log/mmv-agent, for other users mmv-agent/archives in `$XDG_STATE_HOME`,
    /// else in ~/.local/state]
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub archive_dir: Option<PathBuf>,
    /// The base name of the archive, instead of a directory
    #[arg(long, value_name = "BASE")]
    pub output: Option<PathBuf>,
    /// Time between two samples: 100ms, 2s, 5min, 1h, 1d [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub interval: Option<Duration>,
    /// Stop after this many samples
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub samples: Option<u64>,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// The version of archives: 3, or 2 for readers before PCP 6, with timestamps cut to
    /// microseconds [default: 3]
    #[arg(long, value_name = "VERSION", value_parser = parse_archive_version)]
    pub archive_version: Option<Version>,
    /// Publish the agent's own metrics, mmv.agent.*, and log them [default: true]
    #[arg(long, value_name = "BOOL")]
    pub own_metrics: Option<bool>,
    /// Log what happens to files and samples, as mmv.agent.events [default: true]
    #[arg(long, value_name = "BOOL")]
    pub events: Option<bool>,
}

impl Invocation {
    /// Reads the files and lets the options override them.
    ///
    /// # Errors
    ///
    /// Any [`ConfigError`].
    pub(crate) fn settings(&self) -> Result<Settings, ConfigError> {
        let mut settings =
            self.config.as_deref().map_or_else(|| Ok(Settings::default()), file::read)?;
        let Settings { fixed, reloadable, samples, duration, .. } = &mut settings;
        if let Some(file) = &self.pmlogger_config {
            reloadable.groups = pmlogger::read(file)?;
        }
        let base = self.output.clone().map(Destination::Base);
        let destination = base.or(self.archive_dir.clone().map(Destination::Directory));
        replace(&mut fixed.mmv_dir, self.mmv_dir.clone());
        replace(&mut fixed.destination, destination);
        replace(&mut fixed.archive_version, self.archive_version);
        replace(&mut fixed.own_metrics, self.own_metrics);
        replace(&mut fixed.events, self.events);
        replace(&mut reloadable.interval, self.interval);
        (*samples, *duration) = (self.samples, self.duration);
        Ok(settings)
    }
}

fn replace<T>(setting: &mut T, option: Option<T>) {
    if let Some(option) = option {
        *setting = option;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn options_override_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("agent.toml");
        fs::write(&config, "mmv-dir = \"/m\"\narchive-dir = \"/a\"\ninterval = \"5s\"").unwrap();
        let invocation = Invocation { config: Some(config), ..Invocation::default() };
        let Settings { fixed, reloadable, .. } = invocation.settings().unwrap();
        assert_eq!(reloadable.interval, Duration::from_secs(5));
        assert_eq!(fixed.destination, Destination::Directory("/a".into()));
        assert_eq!(fixed.mmv_dir, PathBuf::from("/m"));

        let invocation = Invocation {
            mmv_dir: Some("/n".into()),
            output: Some("/b".into()),
            interval: Some(Duration::from_secs(7)),
            ..invocation
        };
        let Settings { fixed, reloadable, .. } = invocation.settings().unwrap();
        assert_eq!(reloadable.interval, Duration::from_secs(7));
        assert_eq!(fixed.destination, Destination::Base("/b".into()));
        assert_eq!(fixed.mmv_dir, PathBuf::from("/n"));
    }

    #[test]
    fn own_metrics_and_events_are_logged_unless_they_are_turned_off() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("agent.toml");
        let text = "interval = \"4s\"\n[[group]]\nmetrics = [\"mmv.a\"]\n";
        fs::write(&config, text).unwrap();
        let invocation = Invocation { config: Some(config.clone()), ..Invocation::default() };
        let settings = invocation.settings().unwrap();
        assert!(settings.fixed.own_metrics && settings.fixed.events);
        let [rare, own] = &settings.own_groups()[..] else { panic!("two groups") };
        assert_eq!(rare.interval, Some(Duration::from_secs(600)));
        assert_eq!(own.interval, Some(Duration::from_secs(60)));
        assert_eq!(own.metrics, ["mmv.agent", "mmv.agent_?.*"]);

        let quiet = Invocation { own_metrics: Some(false), events: Some(false), ..invocation };
        let quiet = quiet.settings().unwrap();
        assert!(!quiet.fixed.own_metrics && !quiet.fixed.events);
        assert_eq!(quiet.own_groups(), []);
        fs::write(&config, format!("own-metrics = false\nevents = false\n{text}")).unwrap();
        let invocation = Invocation { config: Some(config), ..Invocation::default() };
        assert_eq!(invocation.settings().unwrap(), quiet);
    }

    #[test]
    fn groups_of_pmlogger_replace_ours() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("agent.toml");
        let theirs = dir.path().join("config");
        fs::write(&config, "interval = \"5s\"\n[[group]]\nmetrics = [\"mmv.a\"]\n").unwrap();
        fs::write(&theirs, "log on default mmv.b\n").unwrap();
        let invocation = Invocation {
            config: Some(config),
            pmlogger_config: Some(theirs.clone()),
            ..Invocation::default()
        };
        let settings = invocation.settings().unwrap().reloadable;
        assert_eq!(settings.groups[0].metrics, ["mmv.b"]);
        assert_eq!(settings.interval, Duration::from_secs(5));
        fs::write(&theirs, "\nlog of default mmv.b\n").unwrap();
        let error = invocation.settings().unwrap_err().to_string();
        assert!(error.starts_with(&format!("{}:2: found \"of\"", theirs.display())), "{error}");
    }
}
