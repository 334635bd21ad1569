//! Parses the values of keys and options.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display};
use std::time::Duration;

use pcp_archive::raw::{LabelClass, LabelSet};
use pcp_archive::{Compression, Version};
use pcp_types::{names, parse_interval, parse_size};
use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;

/// Labels that every archive already has, with values from the system.
const SYSTEM_LABELS: [&str; 3] = ["hostname", "domainname", "machineid"];

/// A text that is not an interval that the agent works with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DurationError {
    #[error(transparent)]
    Syntax(#[from] pcp_types::Error),
    #[error("\"{text}\" is not between {least} and {most}")]
    Range { text: String, least: &'static str, most: &'static str },
}

/// Parses an interval by [`parse_interval`]: `100ms`, `5min`, `1h30m`; a number alone
/// is seconds.
///
/// # Errors
///
/// [`DurationError::Syntax`] for other text, [`DurationError::Range`] for
/// less than a millisecond or more than a million days.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    const MAX: Duration = Duration::from_secs(86_400 * 1_000_000);
    let duration = parse_interval(text)?;
    if !(Duration::from_millis(1)..=MAX).contains(&duration) {
        let text = text.to_owned();
        return Err(DurationError::Range { text, least: "1ms", most: "1000000d" });
    }
    Ok(duration)
}

/// Parses the version of archives: `2` or `3`.
///
/// # Errors
///
/// For other text, a message.
pub(crate) fn parse_archive_version(text: &str) -> Result<Version, String> {
    match text {
        "2" => Ok(Version::V2),
        "3" => Ok(Version::V3),
        _ => Err("archives have version 2 or 3".to_owned()),
    }
}

/// Deserializes a text that `parse` accepts.
fn parsed<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Deserializes a text that `parse` accepts, or "none".
fn or_none<'de, D: Deserializer<'de>, T, E: Display>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error> {
    parsed(deserializer, |text| if text == "none" { Ok(None) } else { parse(text).map(Some) })
}

/// Deserializes an interval such as "1s".
pub(super) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parsed(from, parse_duration)
}

pub(super) fn some_interval<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    interval(from).map(Some)
}

pub(super) fn interval_or_none<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Duration>, D::Error> {
    or_none(from, parse_duration)
}

/// Deserializes a number of bytes such as "64MB".
pub(super) fn size<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<T, D::Error> {
    let bytes = parsed(from, parse_size)?;
    T::try_from(bytes).map_err(|_| D::Error::custom("more than this machine can address"))
}

pub(super) fn size_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    or_none(from, parse_size)
}

pub(super) fn some_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size(from).map(Some)
}

/// Deserializes a percentage such as "50%".
pub(super) fn percent<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    parsed(from, |text| {
        let number = text.strip_suffix('%').and_then(|number| number.parse().ok());
        let number = number.filter(|percent| (1..=100).contains(percent));
        number.ok_or_else(|| format!("\"{text}\" is not a percentage from \"1%\" to \"100%\""))
    })
}

/// Deserializes an archive version, 2 or 3.
pub(super) fn archive_version<'de, D: Deserializer<'de>>(from: D) -> Result<Version, D::Error> {
    let number = u32::deserialize(from)?;
    parse_archive_version(&number.to_string()).map_err(D::Error::custom)
}

/// Deserializes "xz", "zstd" or "none".
pub(super) fn compression<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Compression>, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Method {
        Xz,
        Zstd,
        None,
    }
    Ok(match Method::deserialize(from)? {
        Method::Xz => Some(Compression::Xz),
        Method::Zstd => Some(Compression::Zstd),
        Method::None => None,
    })
}

/// Times at which records are synced to disk, so that they survive a power failure. They survive
/// the end of the agent in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SyncPolicy {
    /// Left to the system.
    Never,
    Every(Duration),
    /// After each record.
    Always,
}

impl<'de> Deserialize<'de> for SyncPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        parsed(from, |text| match text {
            "never" => Ok(Self::Never),
            "always" => Ok(Self::Always),
            text => parse_duration(text)
                .map(Self::Every)
                .map_err(|error| format!("{error}; nor \"never\" or \"always\"")),
        })
    }
}

/// A name of a metric or subtree, or a pattern of names.
struct Pattern(String);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Check;

        // An error of a visitor has the place of the element, not of the list.
        impl Visitor<'_> for Check {
            type Value = Pattern;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a name or pattern")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Pattern, E> {
                let mut bytes = text.bytes();
                if !text.is_empty()
                    && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_.*?".contains(&byte))
                {
                    return Ok(Pattern(text.to_owned()));
                }
                let allowed = "letters, digits, \"_\", \".\", \"*\" and \"?\"";
                Err(E::custom(format!("\"{text}\" is not a name or pattern: {allowed}")))
            }
        }
        from.deserialize_str(Check)
    }
}

pub(super) fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<Pattern>::deserialize(from)?;
    Ok(patterns.into_iter().map(|Pattern(text)| text).collect())
}

/// Deserializes names and patterns of metrics, at least one.
pub(super) fn some_patterns<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    match patterns(from)? {
        patterns if patterns.is_empty() => Err(D::Error::custom("a group without metrics")),
        patterns => Ok(patterns),
    }
}

/// The name of a label that a user may set.
#[derive(PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(try_from = "String")]
struct LabelName(String);

impl TryFrom<String> for LabelName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if SYSTEM_LABELS.contains(&name.as_str()) {
            return Err("this label comes from the system".to_owned());
        }
        if !names::is_label_name(&name) {
            return Err(format!(
                "\"{name}\" is not a letter followed by letters, digits and \"_\""
            ));
        }
        Ok(Self(name))
    }
}

struct LabelValue(String);

impl<'de> Deserialize<'de> for LabelValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = match toml::Value::deserialize(from)? {
            toml::Value::String(text) => text.into(),
            toml::Value::Integer(number) => number.into(),
            toml::Value::Boolean(value) => value.into(),
            toml::Value::Float(number) => serde_json::Number::from_f64(number)
                .ok_or_else(|| D::Error::custom("JSON has no such number"))?
                .into(),
            other => {
                let found = Unexpected::Other(other.type_str());
                return Err(D::Error::invalid_type(found, &"a string, a number, true or false"));
            }
        };
        Ok(Self(serde_json::Value::to_string(&value)))
    }
}

pub(super) fn labels<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let labels = BTreeMap::<LabelName, LabelValue>::deserialize(from)?;
    let labels: BTreeMap<_, _> =
        labels.into_iter().map(|(LabelName(name), LabelValue(json))| (name, json)).collect();
    let pairs = labels.iter().map(|(name, json)| (name.as_str(), json.as_str(), false));
    LabelSet::from_pairs(LabelClass::Context, pairs).map_err(D::Error::custom)?;
    Ok(labels)
}

/// Serializes the debug format, which distinguishes all values, paths that are not UTF-8 included.
pub(super) fn debug<T: Debug, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&format_args!("{value:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed_with_their_unit() {
        for (text, millis) in [
            ("100ms", 100),
            ("500ms", 500),
            ("2s", 2_000),
            ("1m", 60_000),
            ("5min", 300_000),
            ("1.5h", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1d", 86_400_000),
            ("3", 3_000),
            ("0.25", 250),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn text_without_number_or_with_another_unit_is_refused() {
        for text in ["", "s", "-1s", "1.2.3s", "ten", "1e3s"] {
            assert!(matches!(parse_duration(text), Err(DurationError::Syntax(_))), "{text}");
        }
    }

    #[test]
    fn zero_and_huge_quantities_are_out_of_range() {
        for text in ["0", "0s", "0.5ms", "1us", "99999999999d"] {
            assert!(matches!(parse_duration(text), Err(DurationError::Range { .. })), "{text}");
        }
    }
}
