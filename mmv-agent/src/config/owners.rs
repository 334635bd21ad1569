//! Limits on what the files of one user use: the tables `[owner.NAME]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::groups::user_named;
use super::values;

/// Limits on what the files of one user use together; `None` means the default share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct OwnerLimits {
    pub files: Option<u64>,
    pub values: Option<u64>,
    #[serde(deserialize_with = "values::some_size")]
    pub metadata: Option<u64>,
    #[serde(deserialize_with = "values::some_size")]
    pub mapped: Option<u64>,
    /// Bytes of records that are logged in a day.
    #[serde(deserialize_with = "values::some_size")]
    pub disk_a_day: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OwnersLimits {
    /// Limits by uid.
    pub by_user: BTreeMap<u32, OwnerLimits>,
    /// Users that the system does not know.
    unknown: Vec<String>,
}

impl OwnersLimits {
    /// Returns a line for each user that the system does not know.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.unknown
            .iter()
            .map(|name| format!("owner.{name}: there is no such user on this system"))
    }
}

impl<'de> Deserialize<'de> for OwnersLimits {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut all = Self::default();
        for (name, limits) in BTreeMap::<String, OwnerLimits>::deserialize(from)? {
            match user_named(&name) {
                Some(user) => drop(all.by_user.insert(user, limits)),
                None => all.unknown.push(name),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_a_name_or_number() {
        let text = "[root]\nfiles = 3\n[4711]\nmapped = \"1MB\"\n[no_such_user]\nvalues = 1\n";
        let owners: OwnersLimits = toml::from_str(text).unwrap();
        assert_eq!(owners.by_user[&0], OwnerLimits { files: Some(3), ..OwnerLimits::default() });
        assert_eq!(owners.by_user[&4711].mapped, Some(1_000_000));
        let warnings: Vec<String> = owners.warnings().collect();
        assert_eq!(warnings, ["owner.no_such_user: there is no such user on this system"]);
        assert!(toml::from_str::<OwnersLimits>("[root]\nfile = 3\n").is_err());
    }
}
