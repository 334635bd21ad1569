//! The configuration file, in TOML.
//!
//! Every key may be left out; `systemd/agent.toml` has all of them with what
//! is built in. A key that is not known is an error: one that was misspelt
//! would be a setting that somebody believes in.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mmv_archive::{Compression, LabelClass, LabelSet, Version};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use toml::Spanned;

use super::error::ConfigError;
use super::quantity::{Length, OrNone, Size, archive_version, parse_duration};
use super::{
    Destination, Group, HindsightSettings, InstancePattern, LogMode, Settings, SyncPolicy,
};

/// Labels of an archive that say which host it is of; they come from the
/// system.
const OWN_LABELS: [&str; 3] = ["hostname", "domainname", "machineid"];

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    mmv_dir: Option<PathBuf>,
    archive_dir: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    interval: Option<Length>,
    sync: Option<SyncText>,
    archive_version: Option<VersionNumber>,
    group: Vec<GroupTable>,
    rotation: RotationTable,
    retention: RetentionTable,
    compression: CompressionTable,
    limits: LimitsTable,
    hindsight: Option<HindsightTable>,
    labels: BTreeMap<Spanned<String>, LabelValue>,
    mark_on_restart: Option<bool>,
    remove_dead_after: Option<OrNone<Duration>>,
    own_metrics: Option<bool>,
    events: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct GroupTable {
    name: Option<Spanned<String>>,
    metrics: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    instances: Vec<String>,
    interval: Option<Length>,
    #[serde(default)]
    log: LogMode,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RotationTable {
    volume_size: Option<Size>,
    volume_time: Option<OrNone<Duration>>,
    daily: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RetentionTable {
    age: Option<OrNone<Duration>>,
    size: Option<OrNone<u64>>,
    free: Option<OrNone<u64>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct CompressionTable {
    method: Option<Method>,
    after: Option<Length>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Method {
    Xz,
    Zstd,
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct LimitsTable {
    queue: Option<Size>,
    files: Option<usize>,
    values: Option<usize>,
    metadata: Option<Size>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HindsightTable {
    interval: Option<Spanned<Length>>,
    span: Option<Spanned<Length>>,
    memory: Option<Size>,
    metrics: Vec<Spanned<String>>,
}

/// Puts what the file says over `settings`.
///
/// # Errors
///
/// Any [`ConfigError`]; `settings` are then of no use.
pub(super) fn apply(file: &Path, settings: &mut Settings) -> Result<(), ConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|source| ConfigError::Read { file: file.to_owned(), source })?;
    apply_text(file, &text, settings)
}

fn apply_text(file: &Path, text: &str, settings: &mut Settings) -> Result<(), ConfigError> {
    let wrong = |span, message: &str| ConfigError::at(file, text, span, message);
    let file: File = toml::from_str(text).map_err(|error| wrong(error.span(), error.message()))?;
    let File { mmv_dir, archive_dir, state_dir, interval, sync, group, labels, .. } = file;
    replace(&mut settings.mmv_dir, mmv_dir);
    replace(&mut settings.destination, archive_dir.map(Destination::Folder));
    settings.state_dir = state_dir;
    replace(&mut settings.interval, interval.map(|Length(interval)| interval));
    for table in group {
        let group = group_of(table, &settings.groups);
        settings.groups.push(group.map_err(|(span, message)| wrong(Some(span), &message))?);
    }
    replace(&mut settings.mark_on_restart, file.mark_on_restart);
    replace(&mut settings.remove_dead_after, file.remove_dead_after.map(|OrNone(time)| time));
    replace(&mut settings.own_metrics, file.own_metrics);
    replace(&mut settings.events, file.events);
    replace(
        &mut settings.archive_version,
        file.archive_version.map(|VersionNumber(number)| number),
    );
    replace(&mut settings.sync, sync.map(|SyncText(sync)| sync));
    let RotationTable { volume_size, volume_time, daily } = file.rotation;
    replace(&mut settings.rotation.volume_size, volume_size.map(|Size(bytes)| bytes));
    replace(&mut settings.rotation.volume_time, volume_time.map(|OrNone(time)| time));
    replace(&mut settings.rotation.daily, daily);
    let RetentionTable { age, size, free } = file.retention;
    replace(&mut settings.retention.age, age.map(|OrNone(age)| age));
    replace(&mut settings.retention.size, size.map(|OrNone(size)| size));
    replace(&mut settings.retention.free, free.map(|OrNone(free)| free));
    let CompressionTable { method, after } = file.compression;
    replace(&mut settings.compression.method, method.map(Method::compression));
    replace(&mut settings.compression.after, after.map(|Length(after)| after));
    let limits = file.limits;
    replace(&mut settings.limits.queue_bytes, limits.queue.map(|Size(bytes)| bytes));
    replace(&mut settings.limits.files, limits.files);
    replace(&mut settings.limits.values, limits.values);
    replace(&mut settings.limits.metadata_bytes, limits.metadata.map(|Size(bytes)| bytes));
    settings.hindsight = file
        .hindsight
        .map(|table| hindsight_of(table).map_err(|(span, message)| wrong(Some(span), &message)))
        .transpose()?;
    for (name, LabelValue(json)) in labels {
        if OWN_LABELS.contains(&name.as_ref().as_str()) {
            return Err(wrong(Some(name.span()), "this label comes from the system"));
        }
        LabelSet::from_pairs(LabelClass::Context, [(name.as_ref().as_str(), json.as_str(), false)])
            .map_err(|error| wrong(Some(name.span()), &error.to_string()))?;
        settings.labels.push((name.into_inner(), json));
    }
    Ok(())
}

/// The group of a table; else what is wrong, and where.
fn group_of(table: GroupTable, known: &[Group]) -> Result<Group, (Range<usize>, String)> {
    let GroupTable { name, metrics, instances, interval, log } = table;
    if metrics.as_ref().is_empty() {
        return Err((metrics.span(), "a group without metrics".to_owned()));
    }
    let metrics = metrics.into_inner();
    check_patterns(&metrics)?;
    let name = match name {
        Some(name) if known.iter().any(|group| group.name == *name.as_ref()) => {
            return Err((name.span(), format!("there is a group \"{}\" already", name.as_ref())));
        }
        Some(name) => name.into_inner(),
        None => format!("group {}", known.len() + 1),
    };
    let metrics = metrics.into_iter().map(Spanned::into_inner).collect();
    let instances = instances.into_iter().map(InstancePattern::Matching).collect();
    let interval = interval.map(|Length(interval)| interval);
    Ok(Group { name, metrics, instances, interval, log })
}

/// The hindsight of a table; else what is wrong, and where.
fn hindsight_of(table: HindsightTable) -> Result<HindsightSettings, (Range<usize>, String)> {
    let HindsightTable { interval, span, memory, metrics } = table;
    check_patterns(&metrics)?;
    let mut settings = HindsightSettings::default();
    let at = span.as_ref().or(interval.as_ref()).map(Spanned::span);
    replace(&mut settings.interval, interval.map(|interval| interval.into_inner().0));
    replace(&mut settings.span, span.map(|span| span.into_inner().0));
    if settings.span < settings.interval {
        return Err((at.unwrap_or_default(), "the span is shorter than the interval".to_owned()));
    }
    let memory = memory.map(|Size(bytes)| usize::try_from(bytes).unwrap_or(usize::MAX));
    replace(&mut settings.memory, memory);
    settings.metrics = metrics.into_iter().map(Spanned::into_inner).collect();
    Ok(settings)
}

/// Names and patterns of metrics, or the first one that is none.
fn check_patterns(metrics: &[Spanned<String>]) -> Result<(), (Range<usize>, String)> {
    match metrics.iter().find(|pattern| !is_pattern(pattern.as_ref())) {
        Some(pattern) => Err((
            pattern.span(),
            format!(
                "\"{}\" is not a name or pattern: letters, digits, \"_\", \".\", \"*\" and \"?\"",
                pattern.as_ref()
            ),
        )),
        None => Ok(()),
    }
}

/// Whether a metric may have such a name, or match such a pattern.
fn is_pattern(text: &str) -> bool {
    let may_be = |byte: u8| byte.is_ascii_alphanumeric() || b"_.*?".contains(&byte);
    !text.is_empty() && text.bytes().all(may_be)
}

fn replace<T>(setting: &mut T, by: Option<T>) {
    if let Some(by) = by {
        *setting = by;
    }
}

impl Method {
    fn compression(self) -> Option<Compression> {
        match self {
            Self::Xz => Some(Compression::Xz),
            Self::Zstd => Some(Compression::Zstd),
            Self::None => None,
        }
    }
}

/// `"never"`, `"always"`, or a length of time.
#[derive(Debug)]
struct SyncText(SyncPolicy);

impl<'de> Deserialize<'de> for SyncText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self(match text.as_str() {
            "never" => SyncPolicy::Never,
            "always" => SyncPolicy::Always,
            text => match parse_duration(text) {
                Ok(time) => SyncPolicy::Every(time),
                Err(error) => {
                    let error = format!("{error}; nor \"never\" or \"always\"");
                    return Err(D::Error::custom(error));
                }
            },
        }))
    }
}

/// 2 or 3.
#[derive(Debug)]
struct VersionNumber(Version);

impl<'de> Deserialize<'de> for VersionNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        archive_version(&number.to_string()).map(Self).map_err(D::Error::custom)
    }
}

/// A label's value, as JSON.
#[derive(Debug)]
struct LabelValue(String);

impl<'de> Deserialize<'de> for LabelValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;

        impl Visitor<'_> for Scalar {
            type Value = serde_json::Value;

            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a string, a number, true or false")
            }

            fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
                Ok(value.into())
            }

            fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
                Ok(value.into())
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
                let number = serde_json::Number::from_f64(value);
                number.map(Into::into).ok_or_else(|| E::custom("JSON has no such number"))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
                Ok(value.into())
            }
        }

        let value = deserializer.deserialize_any(Scalar)?;
        serde_json::to_string(&value).map(Self).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CompressionPolicy, Limits, Retention, Rotation};

    fn built_in() -> Settings {
        Settings::new("/mmv".into(), Destination::Folder("/archives".into()))
    }

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = built_in();
        match apply_text(Path::new("agent.toml"), text, &mut settings) {
            Ok(()) => Ok(settings),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn nothing_said_is_what_is_built_in() {
        assert_eq!(read(""), Ok(built_in()));
    }

    #[test]
    fn what_is_said_is_set() {
        let text = "mmv-dir = \"/m\"\narchive-dir = \"/a\"\ninterval = \"250ms\"\n\
                    [limits]\nqueue = \"1MB\"\nfiles = 7\nvalues = 8\nmetadata = \"9kB\"\n\
                    [labels]\nsite = \"no\\\"rth\"\nrack = 4\nspare = false\n";
        let settings = read(text).unwrap();
        assert_eq!(settings.mmv_dir, Path::new("/m"));
        assert_eq!(settings.destination, Destination::Folder("/a".into()));
        assert_eq!(settings.interval, Duration::from_millis(250));
        let limits = Limits { queue_bytes: 1_000_000, files: 7, values: 8, metadata_bytes: 9_000 };
        assert_eq!(settings.limits, limits);
        let labels: Vec<(&str, &str)> =
            settings.labels.iter().map(|(name, json)| (name.as_str(), json.as_str())).collect();
        assert_eq!(labels, [("rack", "4"), ("site", "\"no\\\"rth\""), ("spare", "false")]);
    }

    #[test]
    fn what_becomes_of_programs_that_end_is_as_is_said() {
        let settings = read("mark-on-restart = true\nremove-dead-after = \"1h\"\n").unwrap();
        assert!(settings.mark_on_restart);
        assert_eq!(settings.remove_dead_after, Some(Duration::from_secs(3600)));
        let settings = read("remove-dead-after = \"none\"\n").unwrap();
        assert_eq!(settings.remove_dead_after, None);
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
        assert_eq!(read(text).unwrap().groups, [first, second]);
    }

    #[test]
    fn archives_are_kept_as_is_said() {
        let text = "sync = \"always\"\narchive-version = 2\n\
                    [rotation]\nvolume-size = \"1MB\"\nvolume-time = \"1h\"\ndaily = false\n\
                    [retention]\nage = \"2d\"\nsize = \"none\"\nfree = \"1GB\"\n\
                    [compression]\nmethod = \"zstd\"\nafter = \"1s\"\n";
        let settings = read(text).unwrap();
        assert_eq!((settings.sync, settings.archive_version), (SyncPolicy::Always, Version::V2));
        assert!(read("archive-version = 4").is_err());
        let volume_time = Some(Duration::from_secs(3600));
        let rotation = Rotation { volume_size: 1_000_000, volume_time, daily: false };
        assert_eq!(settings.rotation, rotation);
        let age = Some(Duration::from_secs(2 * 86_400));
        assert_eq!(settings.retention, Retention { age, size: None, free: Some(1_000_000_000) });
        let after = Duration::from_secs(1);
        let compression = CompressionPolicy { method: Some(Compression::Zstd), after };
        assert_eq!(settings.compression, compression);
        let never = read("sync = \"never\"\n[compression]\nmethod = \"none\"").unwrap();
        assert_eq!((never.sync, never.compression.method), (SyncPolicy::Never, None));
    }

    #[test]
    fn hindsight_is_there_if_it_is_named() {
        assert_eq!(read("").unwrap().hindsight, None);
        assert_eq!(read("[hindsight]").unwrap().hindsight, Some(HindsightSettings::default()));
        let text = "[hindsight]\ninterval = \"20ms\"\nspan = \"1m\"\nmemory = \"1MB\"\n\
                    metrics = [\"mmv.a\", \"*.b?\"]\n";
        let expected = HindsightSettings {
            interval: Duration::from_millis(20),
            span: Duration::from_secs(60),
            memory: 1_000_000,
            metrics: vec!["mmv.a".into(), "*.b?".into()],
        };
        assert_eq!(read(text).unwrap().hindsight, Some(expected));
    }

    #[test]
    fn an_error_tells_file_line_and_key() {
        for (text, error) in [
            ("interval = \"1s\"\nintervall = \"2s\"", "agent.toml:2: intervall: unknown field"),
            ("\ninterval = 1", "agent.toml:2: interval: invalid type: integer `1`"),
            ("interval = \"0s\"", "agent.toml:1: interval: \"0s\" is not between 1ms and"),
            ("[limits]\nqueue = \"1 MB\"", "agent.toml:2: limits.queue: \"1 MB\" is not a number"),
            ("[limits]\nfiles = -1", "agent.toml:2: limits.files: invalid value: integer `-1`"),
            ("[limits]\ndepth = 1", "agent.toml:2: limits.depth: unknown field"),
            ("[labels]\n9a = 1", "agent.toml:2: labels.9a: "),
            ("[labels]\nhostname = \"x\"", "agent.toml:2: labels.hostname: this label comes"),
            ("[labels]\nrack = [1]", "agent.toml:2: labels.rack: invalid type: sequence"),
            ("[labels]\nrack = nan", "agent.toml:2: labels.rack: JSON has no such number"),
            ("sync = \"often\"", "agent.toml:1: sync: \"often\" is not a number with a unit"),
            ("[retention]\nsize = \"1d\"", "agent.toml:2: retention.size: \"1d\" is not a number"),
            (
                "[compression]\nmethod = \"lzma\"",
                "agent.toml:2: compression.method: unknown variant",
            ),
            ("[[group]]\ninterval = \"1s\"", "agent.toml:1: group: missing field `metrics`"),
            ("[[group]]\nmetrics = []", "agent.toml:2: group.metrics: a group without"),
            (
                "[[group]]\nmetrics = [\n\"mmv\",\n\"a b\"]",
                "agent.toml:4: group.metrics: \"a b\" is",
            ),
            (
                "[[group]]\nmetrics = [\"a\"]\nlog = \"of\"",
                "agent.toml:3: group.log: unknown variant",
            ),
            (
                "[[group]]\nname = \"a\"\nmetrics = [\"a\"]\n[[group]]\nname = \"a\"\nmetrics = [\"b\"]",
                "agent.toml:5: group.name: there is a group \"a\" already",
            ),
            ("[hindsight]\nspann = \"1m\"", "agent.toml:2: hindsight.spann: unknown field"),
            (
                "[hindsight]\ninterval = \"1m\"\nspan = \"1s\"",
                "agent.toml:3: hindsight.span: the span is shorter",
            ),
            ("[hindsight]\ninterval = \"1h\"", "agent.toml:2: hindsight.interval: the span is"),
            ("[hindsight]\nmetrics = [\"a b\"]", "agent.toml:2: hindsight.metrics: \"a b\" is"),
            ("interval = ", "agent.toml:1: interval: "),
            ("interval = \"1s\"\ninterval = \"1s\"", "agent.toml:2: interval: duplicate key"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{text}: {found}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("agent.toml");
        let found = apply(&file, &mut built_in()).unwrap_err();
        assert!(found.to_string().starts_with(file.to_str().unwrap()), "{found}");
        fs::write(&file, b"mmv-dir = \"\xff\"").unwrap();
        assert!(apply(&file, &mut built_in()).is_err());
    }

    /// The example with every key that it comments out.
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
    fn the_example_as_it_is_changes_nothing() {
        assert_eq!(read(include_str!("../../../systemd/agent.toml")), Ok(built_in()));
    }

    #[test]
    fn the_example_says_what_is_built_in() {
        let found = read(&example()).unwrap();
        let built_in = Settings::new(
            "/var/lib/pcp/tmp/mmv".into(),
            Destination::Folder(crate::config::DEFAULT_ARCHIVE_DIR.into()),
        );
        // As a daemon has it.
        let built_in = Settings { own_metrics: true, events: true, ..built_in };
        // What has no default is there as an example.
        let [group] = &found.groups[..] else { panic!("{:?}", found.groups) };
        assert_eq!((group.interval, group.log), (Some(Duration::from_secs(60)), LogMode::OnChange));
        let hindsight =
            HindsightSettings { metrics: vec!["mmv".to_owned()], ..HindsightSettings::default() };
        assert_eq!(found.hindsight, Some(hindsight));
        let found = Settings { labels: Vec::new(), groups: Vec::new(), hindsight: None, ..found };
        // Built in is: as systemd says, else beside the archives.
        let state_dir = Some("/var/lib/mmv-agent".into());
        assert_eq!(found, Settings { state_dir, ..built_in });
    }

    #[test]
    fn the_example_has_every_key() {
        let example: toml::Table = example().parse().unwrap();
        for table in ["", "[group]", "rotation", "retention", "compression", "limits", "hindsight"]
        {
            let found = match table {
                "" => &example,
                "[group]" => example["group"][0].as_table().unwrap(),
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
