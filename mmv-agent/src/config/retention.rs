//! The rules of retention: how long samples are kept, and one value an interval after that.

use std::fmt::Write as _;
use std::time::Duration;

use pcp_types::format_interval;
use serde::Deserialize;

use super::values;

/// The number of values for which space is estimated.
const ESTIMATED_VALUES: f64 = 1_000.0;
/// Estimates of the bytes of a value after compression. Samples of programs take 0.5 to 2
/// (docs/operators.md). Values of a reduced archive differ more from each other, and extremes and
/// metadata come on top; they are not measured yet.
const SAMPLE_BYTES: f64 = 1.0;
const REDUCED_BYTES: f64 = 3.0;

const DAY: Duration = Duration::from_secs(86_400);

/// Rules for closed archives: when they are replaced by reduced ones, and deleted.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RetentionKeys")]
pub(crate) struct Retention {
    /// The age of the newest data from which an archive is reduced to the first tier, or deleted
    /// if there are no tiers; `None` for never.
    pub age: Option<Duration>,
    /// Delete archives while all together are larger than this.
    pub size: Option<u64>,
    /// Delete archives while the file system has less free space than this.
    pub free: Option<u64>,
    /// The steps in which archives are reduced, with increasing intervals and ages.
    pub tiers: Vec<Tier>,
}

/// Archives with one value an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Tier {
    #[serde(deserialize_with = "values::interval")]
    pub interval: Duration,
    /// The age of the newest data from which an archive goes to the next tier; of the last tier,
    /// from which it is deleted.
    #[serde(deserialize_with = "values::interval")]
    pub age: Duration,
}

/// The keys of the table.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RetentionKeys {
    /// `None` if the key is missing.
    age: Option<AgeKey>,
    #[serde(deserialize_with = "values::size_or_none")]
    size: Option<u64>,
    #[serde(deserialize_with = "values::size_or_none")]
    free: Option<u64>,
    tier: Option<Vec<Tier>>,
}

/// An age, or "none".
#[derive(Debug, Clone, Copy, Deserialize)]
struct AgeKey(#[serde(deserialize_with = "values::interval_or_none")] Option<Duration>);

impl Default for RetentionKeys {
    fn default() -> Self {
        Self { age: None, size: Some(10_000_000_000), free: Some(256_000_000), tier: None }
    }
}

/// Tiers that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum TierError {
    #[error(
        "tier {number}: nothing is reduced while retention.age = \"none\" keeps all samples: set \
         retention.age, or remove the tier"
    )]
    NoAge { number: usize },
    #[error(
        "tier {number}: age {} is not longer than {} of {before}",
        format_interval(*age),
        format_interval(*least)
    )]
    Age { number: usize, age: Duration, least: Duration, before: String },
    #[error(
        "tier {number}: interval {} is not a multiple of {}, that of the tier before",
        format_interval(*interval),
        format_interval(*before)
    )]
    Interval { number: usize, interval: Duration, before: Duration },
    #[error("tier {number}: interval {} is longer than a day", format_interval(*interval))]
    Long { number: usize, interval: Duration },
}

impl TryFrom<RetentionKeys> for Retention {
    type Error = TierError;

    fn try_from(keys: RetentionKeys) -> Result<Self, TierError> {
        let RetentionKeys { age, size, free, tier } = keys;
        let tiers = match (tier, age) {
            (Some(tiers), _) => tiers,
            (None, None) => Tier::DEFAULT.to_vec(),
            // A configured age alone is the limit for all archives: there are no reduced ones beyond it.
            (None, Some(_)) => Vec::new(),
        };
        let AgeKey(age) = age.unwrap_or(AgeKey(Some(Self::DEFAULT_AGE)));
        let retention = Self { age, size, free, tiers };
        retention.check_tiers()?;
        Ok(retention)
    }
}

impl Default for Retention {
    fn default() -> Self {
        let RetentionKeys { size, free, .. } = RetentionKeys::default();
        Self { age: Some(Self::DEFAULT_AGE), size, free, tiers: Tier::DEFAULT.to_vec() }
    }
}

impl Tier {
    const DEFAULT: [Self; 2] = [
        Self { interval: Duration::from_secs(60), age: Duration::from_secs(90 * 86_400) },
        Self { interval: Duration::from_secs(3600), age: Duration::from_secs(730 * 86_400) },
    ];
}

impl Retention {
    const DEFAULT_AGE: Duration = Duration::from_secs(14 * 86_400);

    /// Deletes nothing.
    pub(crate) const NONE: Self = Self { age: None, size: None, free: None, tiers: Vec::new() };

    /// Returns the age of the newest data from which an archive is deleted.
    pub(crate) fn last_age(&self) -> Option<Duration> {
        self.tiers.last().map(|tier| tier.age).or(self.age)
    }

    /// Returns each tier with the age from which archives belong to it.
    pub(crate) fn tiers_from(&self) -> impl DoubleEndedIterator<Item = (Duration, Tier)> {
        let ages = self.age.into_iter().chain(self.tiers.iter().map(|tier| tier.age));
        let begun: Vec<_> = ages.zip(self.tiers.iter().copied()).collect();
        begun.into_iter()
    }

    /// Returns how long data is kept, and the disk space that 1000 values with this interval need.
    pub(super) fn summary(&self, sampling: Duration) -> String {
        let Some(age) = self.age else { return "archives are not deleted by age".to_owned() };
        let mut kept = format!("samples kept for {}", format_interval(age));
        let raw = ESTIMATED_VALUES * age.div_duration_f64(sampling) * SAMPLE_BYTES;
        let mut bytes = vec![("samples".to_owned(), raw)];
        for (from, Tier { interval, age }) in self.tiers_from() {
            let name = format_interval(interval);
            let _ = write!(kept, ", then a value each {name} up to {}", format_interval(age));
            let count = age.saturating_sub(from).div_duration_f64(interval);
            bytes.push((name, ESTIMATED_VALUES * count * REDUCED_BYTES));
        }
        let total: f64 = bytes.iter().map(|(_, bytes)| bytes).sum();
        let parts: Vec<_> =
            bytes.iter().map(|(name, bytes)| format!("{name} {}", megabytes(*bytes))).collect();
        let limit = self.size.map(|size| format!(" of {}", megabytes(size as f64)));
        format!(
            "{kept}; for {ESTIMATED_VALUES} values about {}{}: {}",
            megabytes(total),
            limit.unwrap_or_default(),
            parts.join(", ")
        )
    }

    fn check_tiers(&self) -> Result<(), TierError> {
        let mut before: Option<Tier> = None;
        for (number, tier) in (1..).zip(&self.tiers) {
            let Tier { interval, age } = *tier;
            let Some(first) = self.age else { return Err(TierError::NoAge { number }) };
            let least = before.map_or(first, |before| before.age);
            if age <= least {
                let before = match before {
                    Some(_) => format!("tier {}", number - 1),
                    None => "retention.age".to_owned(),
                };
                return Err(TierError::Age { number, age, least, before });
            }
            if interval > DAY {
                return Err(TierError::Long { number, interval });
            }
            if let Some(before) = before.map(|before| before.interval) {
                let is_multiple = interval.as_nanos().is_multiple_of(before.as_nanos());
                if interval <= before || !is_multiple {
                    return Err(TierError::Interval { number, interval, before });
                }
            }
            before = Some(*tier);
        }
        Ok(())
    }
}

fn megabytes(bytes: f64) -> String {
    if bytes < 1e9 { format!("{:.0} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Retention, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    fn tier(interval: u64, days: u32) -> Tier {
        Tier { interval: Duration::from_secs(interval), age: days * DAY }
    }

    #[test]
    fn tiers_are_on_unless_an_age_or_tiers_are_given() {
        let default = [tier(60, 90), tier(3600, 730)];
        for (text, age, tiers) in [
            ("", Some(14), &default[..]),
            ("size = \"1GB\"", Some(14), &default),
            ("age = \"14d\"", Some(14), &[]),
            ("age = \"30d\"", Some(30), &[]),
            ("age = \"none\"", None, &[]),
            ("tier = []", Some(14), &[]),
            ("age = \"2d\"\n[[tier]]\ninterval = \"30s\"\nage = \"9d\"", Some(2), &[tier(30, 9)]),
        ] {
            let retention = read(text).unwrap();
            assert_eq!(retention.age, age.map(|age| age * DAY), "{text}");
            assert_eq!(retention.tiers, tiers, "{text}");
        }
        assert_eq!(read(""), Ok(Retention::default()));
    }

    #[test]
    fn tiers_grow_in_age_and_in_multiples_of_the_interval() {
        let tiers = |tiers: &[(&str, &str)]| {
            let tier =
                |(interval, age)| format!("[[tier]]\ninterval = \"{interval}\"\nage = \"{age}\"\n");
            read(&tiers.iter().map(|one| tier(*one)).collect::<String>())
        };
        assert!(tiers(&[("1min", "15d"), ("5min", "16d"), ("1d", "400d")]).is_ok());
        for (given, error) in [
            (&[("1min", "14d")][..], "tier 1: age 14d is not longer than 14d of retention.age"),
            (&[("1min", "90d"), ("1h", "90d")], "tier 2: age 90d is not longer than 90d of tier 1"),
            (
                &[("1min", "90d"), ("90s", "99d")],
                "tier 2: interval 90s is not a multiple of 1m, that of the tier before",
            ),
            (
                &[("1h", "90d"), ("1h", "99d")],
                "tier 2: interval 1h is not a multiple of 1h, that of the tier before",
            ),
            (&[("2d", "90d")], "tier 1: interval 2d is longer than a day"),
            (&[("0s", "90d")], "\"0s\" is not between 1ms and 1000000d"),
        ] {
            let found = tiers(given).unwrap_err();
            assert!(found.contains(error), "{found}");
        }
        let error = read("age = \"none\"\n[[tier]]\ninterval = \"1h\"\nage = \"9d\"").unwrap_err();
        assert!(
            error.contains("tier 1: nothing is reduced while retention.age = \"none\""),
            "{error}"
        );
        let error = read("[[tier]]\ninterval = \"1h\"").unwrap_err();
        assert!(error.contains("missing field `age`"), "{error}");
    }

    #[test]
    fn archives_belong_to_a_tier_from_the_age_of_the_one_before() {
        let retention = Retention::default();
        let found: Vec<_> = retention.tiers_from().collect();
        assert_eq!(found, [(14 * DAY, tier(60, 90)), (90 * DAY, tier(3600, 730))]);
        assert_eq!(retention.last_age(), Some(730 * DAY));
        assert_eq!(read("age = \"3d\"").unwrap().last_age(), Some(3 * DAY));
    }
}
