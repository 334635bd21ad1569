//! Reads the configuration file, in TOML.
//!
//! `systemd/agent.toml` documents all keys and their defaults. An unknown key is an
//! error, since a misspelt one would silently keep its default.

use std::fs;
use std::ops::Range;
use std::path::Path;

use pcp_types::format_interval;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, Deserializer};

use super::error::ConfigError;
use super::{FixedSettings, ReloadableSettings, Settings};

/// Minimum similarity, from 0 to 1, of a name that is suggested.
const MIN_LIKENESS: f64 = 0.6;

/// Reads the settings of a file.
///
/// # Errors
///
/// Any [`ConfigError`].
pub(super) fn read(file: &Path) -> Result<Settings, ConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
    parse(&text).map_err(|error| ConfigError::in_toml(file, &text, error.span, &error.message))
}

struct KeyError {
    span: Option<Range<usize>>,
    message: String,
}

fn parse(text: &str) -> Result<Settings, KeyError> {
    parse_keys(text)
        .map_err(|KeyError { span, message }| KeyError { span, message: with_suggestion(message) })
}

/// Suggests the most similar name if a message lists all valid ones.
fn with_suggestion(message: String) -> String {
    if !message.starts_with("unknown ") {
        return message;
    }
    let mut names = message.split('`').skip(1).step_by(2);
    let wanted = names.next().unwrap_or_default();
    let best = names
        .map(|name| (strsim::normalized_damerau_levenshtein(wanted, name), name))
        .max_by(|(one, _), (other, _)| one.total_cmp(other));
    match best {
        Some((likeness, name)) if likeness >= MIN_LIKENESS => {
            format!("{message}; did you mean `{name}`?")
        }
        _ => message,
    }
}

fn key_error(error: &toml::de::Error) -> KeyError {
    KeyError { span: error.span(), message: error.message().to_owned() }
}

fn parse_keys(text: &str) -> Result<Settings, KeyError> {
    let table = DeTable::parse(text).map_err(|error| key_error(&error))?;
    let part = |keys| Deserializer::from(Spanned::new(table.span(), keys));
    let names = FixedSettings::names();
    let all = table.get_ref().clone().into_iter();
    let (fixed, reloadable): (DeTable<'_>, DeTable<'_>) =
        all.partition(|(key, _)| names.iter().any(|name| name == key.get_ref()));
    let fixed = FixedSettings::deserialize(part(fixed)).map_err(|error| key_error(&error))?;
    let reloadable = ReloadableSettings::deserialize(part(reloadable)).map_err(|error| {
        let mut error = key_error(&error);
        // The error for an unknown key lists the reloadable ones only.
        let is_key = table.get_ref().iter().any(|(key, _)| Some(key.span()) == error.span);
        if is_key && error.message.starts_with("unknown field") {
            error.message = format!("{}, `{}`", error.message, names.join("`, `"));
        }
        error
    })?;
    let mut settings = Settings { fixed, reloadable, ..Settings::default() };
    name_groups(table.get_ref(), &mut settings.reloadable)?;
    check_flight_recorder(table.get_ref(), &settings.reloadable)?;
    Ok(settings)
}

/// Names the groups that the file does not name, and checks that no name is used twice.
fn name_groups(table: &DeTable<'_>, settings: &mut ReloadableSettings) -> Result<(), KeyError> {
    for number in 0..settings.groups.len() {
        let (before, after) = settings.groups.split_at_mut(number);
        let [group, ..] = after else { break };
        if group.name.is_empty() {
            group.name = format!("group {}", number + 1);
        } else if before.iter().any(|other| other.name == group.name) {
            let place = table.get("group").and_then(|groups| groups.get_ref().get(number));
            let place = place.and_then(|group| group.get_ref().get("name"));
            let message = format!("there is already a group \"{}\"", group.name);
            return Err(KeyError { span: place.map(Spanned::span), message });
        }
    }
    Ok(())
}

fn check_flight_recorder(
    table: &DeTable<'_>,
    settings: &ReloadableSettings,
) -> Result<(), KeyError> {
    match &settings.flight_recorder {
        Some(recorder) if recorder.span < recorder.interval => {
            let keys = table.get("hindsight").map(Spanned::get_ref);
            let place = keys.and_then(|keys| keys.get("span").or_else(|| keys.get("interval")));
            let span = format_interval(recorder.span);
            let interval = format_interval(recorder.interval);
            let message = format!("the span {span} is shorter than the interval {interval}");
            Err(KeyError { span: place.map(Spanned::span), message })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pcp_archive::{Compression, Version};

    use super::*;
    use crate::config::{
        CompressionPolicy, Destination, FlightRecorderSettings, Group, InstancePattern, Limits,
        LogMode, Retention, Rotation, SyncPolicy,
    };

    fn read(text: &str) -> Result<Settings, String> {
        parse(text).map_err(|KeyError { span, message }| {
            ConfigError::in_toml(Path::new("agent.toml"), text, span, &message).to_string()
        })
    }

    fn reloadable(text: &str) -> ReloadableSettings {
        read(text).unwrap().reloadable
    }

    #[test]
    fn an_empty_file_keeps_the_defaults() {
        assert_eq!(read(""), Ok(Settings::default()));
    }

    #[test]
    fn keys_override_the_defaults() {
        let text = "mmv-dir = \"/m\"\narchive-dir = \"/a\"\ninterval = \"250ms\"\n\
                    [limits]\nqueue = \"1MB\"\nfiles = 7\nvalues = 8\nmetadata = \"9kB\"\n\
                    metadata-total = \"10kB\"\nmapped = \"1GB\"\nshare = \"30%\"\ndisk-a-day = \"none\"\n\
                    [labels]\nsite = \"no\\\"rth\"\nrack = 4\nspare = false\n";
        let Settings { fixed, reloadable, .. } = read(text).unwrap();
        assert_eq!(fixed.mmv_dir, Path::new("/m"));
        assert_eq!(fixed.destination, Destination::Directory("/a".into()));
        assert_eq!(reloadable.interval, Duration::from_millis(250));
        let limits = Limits {
            queue_bytes: 1_000_000,
            files: 7,
            values: 8,
            metadata_bytes: 9_000,
            metadata_total: 10_000,
            mapped: 1_000_000_000,
            share: 30,
            disk_a_day: None,
        };
        assert_eq!(reloadable.limits, limits);
        let labels: Vec<(&str, &str)> =
            reloadable.labels.iter().map(|(name, json)| (name.as_str(), json.as_str())).collect();
        assert_eq!(labels, [("rack", "4"), ("site", "\"no\\\"rth\""), ("spare", "false")]);
    }

    #[test]
    fn the_keys_for_programs_that_end_are_read() {
        let settings = reloadable("mark-on-restart = true\nremove-dead-after = \"1h\"\n");
        assert!(settings.mark_on_restart);
        assert_eq!(settings.remove_dead_after, Some(Duration::from_secs(3600)));
        assert_eq!(reloadable("remove-dead-after = \"none\"\n").remove_dead_after, None);
    }

    #[test]
    fn groups_are_read_in_their_order() {
        let text = "[[group]]\nmetrics = [\"mmv.a\", \"*.b?\"]\n\
                    [[group]]\nname = \"slow\"\nmetrics = [\"mmv\"]\ninstances = [\"sd*\"]\n\
                    interval = \"1m\"\nlog = \"on-change\"\n";
        let first = Group {
            name: "group 1".into(),
            metrics: vec!["mmv.a".into(), "*.b?".into()],
            instances: Vec::new(),
            interval: None,
            log: LogMode::Every,
        };
        let second = Group {
            name: "slow".into(),
            metrics: vec!["mmv".into()],
            instances: vec![InstancePattern::Matching("sd*".into())],
            interval: Some(Duration::from_secs(60)),
            log: LogMode::OnChange,
        };
        assert_eq!(reloadable(text).groups, [first, second]);
    }

    #[test]
    fn the_keys_for_archives_are_read() {
        let text = "sync = \"always\"\narchive-version = 2\n\
                    [rotation]\nvolume-size = \"1MB\"\nvolume-time = \"1h\"\ndaily = false\n\
                    [retention]\nage = \"2d\"\nsize = \"none\"\nfree = \"1GB\"\n\
                    [compression]\nmethod = \"zstd\"\nafter = \"1s\"\n";
        let Settings { fixed, reloadable: settings, .. } = read(text).unwrap();
        assert_eq!((settings.sync, fixed.archive_version), (SyncPolicy::Always, Version::V2));
        assert!(read("archive-version = 4").is_err());
        let volume_time = Some(Duration::from_secs(3600));
        let rotation = Rotation { volume_size: 1_000_000, volume_time, daily: false };
        assert_eq!(settings.rotation, rotation);
        let age = Some(Duration::from_secs(2 * 86_400));
        let free = Some(1_000_000_000);
        assert_eq!(settings.retention, Retention { age, size: None, free, tiers: Vec::new() });
        let after = Duration::from_secs(1);
        let compression = CompressionPolicy { method: Some(Compression::Zstd), after };
        assert_eq!(settings.compression, compression);
        let never = reloadable("sync = \"never\"\n[compression]\nmethod = \"none\"");
        assert_eq!((never.sync, never.compression.method), (SyncPolicy::Never, None));
    }

    #[test]
    fn the_flight_recorder_runs_if_its_table_is_there() {
        assert_eq!(reloadable("").flight_recorder, None);
        let default = Some(FlightRecorderSettings::default());
        assert_eq!(reloadable("[hindsight]").flight_recorder, default);
        let text = "[hindsight]\ninterval = \"20ms\"\nspan = \"1m\"\nmemory = \"1MB\"\n\
                    metrics = [\"mmv.a\", \"*.b?\"]\n";
        let expected = FlightRecorderSettings {
            interval: Duration::from_millis(20),
            span: Duration::from_secs(60),
            memory: 1_000_000,
            metrics: vec!["mmv.a".into(), "*.b?".into()],
        };
        assert_eq!(reloadable(text).flight_recorder, Some(expected));
    }

    #[test]
    fn an_error_has_file_line_column_and_key() {
        for (text, error) in [
            ("interval = \"1s\"\nintervall = \"2s\"", "agent.toml:2:1: intervall: unknown field"),
            ("\ninterval = 1", "agent.toml:2:12: interval: invalid type: integer `1`"),
            ("interval = \"0s\"", "agent.toml:1:12: interval: \"0s\" is not between 1ms and"),
            ("[limits]\nqueue = \"1 PB\"", "agent.toml:2:9: limits.queue: \"1 PB\" is not a size"),
            ("[limits]\nfiles = -1", "agent.toml:2:9: limits.files: invalid value: integer `-1`"),
            ("[limits]\ndepth = 1", "agent.toml:2:1: limits.depth: unknown field"),
            ("[labels]\n9a = 1", "agent.toml:2:1: labels.9a: "),
            ("[labels]\nhostname = \"x\"", "agent.toml:2:1: labels.hostname: this label comes"),
            ("[labels]\nrack = [1]", "agent.toml:2:8: labels.rack: invalid type: array"),
            ("[labels]\nrack = nan", "agent.toml:2:8: labels.rack: JSON has no such number"),
            ("sync = \"often\"", "agent.toml:1:8: sync: \"often\" is not an interval"),
            ("[retention]\nsize = \"1d\"", "agent.toml:2:8: retention.size: \"1d\" is not a size"),
            (
                "[compression]\nmethod = \"lzma\"",
                "agent.toml:2:10: compression.method: unknown variant",
            ),
            ("[[group]]\ninterval = \"1s\"", "agent.toml:1:1: group[0]: missing field `metrics`"),
            ("[[group]]\nmetrics = []", "agent.toml:2:11: group[0].metrics: a group without"),
            (
                "[[group]]\nmetrics = [\n\"mmv\",\n\"a b\"]",
                "agent.toml:4:1: group[0].metrics[1]: \"a b\" is",
            ),
            (
                "[[group]]\nmetrics = [\"a\"]\nlog = \"of\"",
                "agent.toml:3:7: group[0].log: unknown variant",
            ),
            (
                "[[group]]\nname = \"a\"\nmetrics = [\"a\"]\n[[group]]\nname = \"a\"\nmetrics = [\"b\"]",
                "agent.toml:5:8: group[1].name: there is already a group \"a\"",
            ),
            (
                "[retention]\nage = \"2d\"\n[[retention.tier]]\ninterval = \"1m\"\nage = \"1d\"",
                "agent.toml:1:1: retention: tier 1: age 1d is not longer than 2d of retention.age",
            ),
            (
                "[[retention.tier]]\ninterval = \"0s\"\nage = \"1d\"",
                "agent.toml:2:12: retention.tier[0].interval: \"0s\" is not",
            ),
            ("[hindsight]\nspann = \"1m\"", "agent.toml:2:1: hindsight.spann: unknown field"),
            (
                "[hindsight]\ninterval = \"1m\"\nspan = \"1s\"",
                "agent.toml:3:8: hindsight.span: the span 1s is shorter than the interval 1m",
            ),
            (
                "[hindsight]\ninterval = \"1h\"",
                "agent.toml:2:12: hindsight.interval: the span 10m is",
            ),
            (
                "[hindsight]\nmetrics = [\"a b\"]",
                "agent.toml:2:12: hindsight.metrics[0]: \"a b\" is",
            ),
            ("limits.queue = \"1 PB\"", "agent.toml:1:16: limits.queue: \"1 PB\" is not"),
            ("limits = { files = 1, depth = 2 }", "agent.toml:1:23: limits.depth: unknown field"),
            ("limits = { files = 1, files = 2 }", "agent.toml:1:23: limits.files: duplicate key"),
            ("group = [{ metrics = [] }]", "agent.toml:1:22: group[0].metrics: a group without"),
            (
                "[[group]]\nmetrics = [\"a\"]\n[[group]]\nlog = \"once\"",
                "agent.toml:3:1: group[1]: missing field `metrics`",
            ),
            ("interval = ", "agent.toml:1:12: interval: "),
            ("interval = \"1s\"\ninterval = \"1s\"", "agent.toml:2:1: interval: duplicate key"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn an_unknown_key_is_compared_with_all_keys() {
        let error = read("archive-dirr = \"/a\"").unwrap_err();
        assert!(error.contains("`interval`") && error.contains("`archive-dir`"), "{error}");
    }

    #[test]
    fn an_unknown_key_or_word_is_compared_with_the_known_ones() {
        for (text, expected) in [
            ("mmv_dir = \"/a\"", Some("mmv-dir")),
            ("intervall = \"1s\"", Some("interval")),
            ("[limits]\nqueu = \"1MB\"", Some("queue")),
            ("[[group]]\nmetrics = [\"a\"]\nlog = \"on_change\"", Some("on-change")),
            ("[compression]\nmethod = \"zst\"", Some("zstd")),
            ("colour = 1", None),
        ] {
            let error = read(text).unwrap_err();
            let question = expected.map(|name| format!("; did you mean `{name}`?"));
            assert!(error.ends_with(question.as_deref().unwrap_or("`")), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.toml");
        let found = super::read(&file).unwrap_err();
        assert!(found.to_string().starts_with(file.to_str().unwrap()), "{found}");
        fs::write(&file, b"mmv-dir = \"\xff\"").unwrap();
        assert!(super::read(&file).is_err());
    }

    /// Returns the example, with every key that is commented out there.
    fn example() -> String {
        let text = include_str!("../../../systemd/agent.toml");
        let lines = text.lines().map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|first: char| first.is_ascii_lowercase()) => key,
            Some(key) if key.starts_with('[') => key,
            _ => line,
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_unmodified_example_changes_nothing() {
        assert_eq!(read(include_str!("../../../systemd/agent.toml")), Ok(Settings::default()));
    }

    #[test]
    fn the_example_documents_the_defaults() {
        let Settings { fixed, reloadable, .. } = read(&example()).unwrap();
        // These defaults depend on the environment.
        let expected = FixedSettings {
            mmv_dir: "/var/lib/pcp/tmp/mmv".into(),
            destination: Destination::Directory(mmv_format::directory::SYSTEM_ARCHIVES.into()),
            state_dir: Some("/var/lib/mmv-agent".into()),
            capture_group: Some("mmv-agent".into()),
            ..FixedSettings::default()
        };
        assert_eq!(fixed, expected);
        // Keys without a default have an example.
        let [group] = &reloadable.groups[..] else { panic!("{:?}", reloadable.groups) };
        assert_eq!((group.interval, group.log), (Some(Duration::from_secs(60)), LogMode::OnChange));
        let recorder =
            FlightRecorderSettings { metrics: vec!["mmv".to_owned()], ..Default::default() };
        assert_eq!(reloadable.flight_recorder, Some(recorder));
        let expected = ReloadableSettings {
            groups: reloadable.groups.clone(),
            flight_recorder: reloadable.flight_recorder.clone(),
            labels: reloadable.labels.clone(),
            owners: reloadable.owners.clone(),
            ..ReloadableSettings::default()
        };
        assert_eq!(reloadable.owners.by_user.len(), 1);
        assert_eq!(reloadable, expected);
    }

    #[test]
    fn the_example_has_every_key() {
        let example: toml::Table = example().parse().unwrap();
        for table in [
            "",
            "[group]",
            "rotation",
            "retention",
            "[retention.tier]",
            "compression",
            "limits",
            "owner.4711",
            "hindsight",
        ] {
            let found = match table {
                "" => &example,
                "[group]" => example["group"][0].as_table().unwrap(),
                "[retention.tier]" => example["retention"]["tier"][0].as_table().unwrap(),
                "owner.4711" => example["owner"]["4711"].as_table().unwrap(),
                table => example[table].as_table().unwrap(),
            };
            let known = known_keys(table);
            assert!(!known.is_empty(), "{table}");
            for key in known {
                assert!(found.contains_key(&key), "{table}.{key}");
            }
        }
    }

    /// The keys of a table, as the error about another one lists them.
    fn known_keys(table: &str) -> Vec<String> {
        let header = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
        let error = read(&format!("{header}no-such-key = 1")).unwrap_err();
        let listed = error.split_once("expected ").unwrap().1;
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }
}
