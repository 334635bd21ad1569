//! Warnings about valid settings that are probably unintended.

use std::path::Path;

use super::groups::group_named;
use super::settings::{ANY_USER, Group, Settings};
use super::{Destination, directories, shared_file_system};

/// Keys before the first table that are also valid names of labels. The table of labels is the
/// last one of the installed file, so a key appended to the file becomes a label.
const KEYS: [&str; 3] = ["events", "interval", "sync"];

impl Settings {
    /// Returns a line for each directory that is missing, or that users can fill, and for each
    /// group that can never log anything.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let fixed = &self.fixed;
        let mut warnings = Vec::new();
        if !directories::is_made_by_run(&fixed.mmv_dir) {
            let effect = "nothing is logged until it exists";
            warnings.extend(missing("mmv-dir", &fixed.mmv_dir, effect));
        }
        if let Destination::Directory(directory) = &fixed.destination
            && !directories::are_of_the_user(directory)
        {
            warnings.extend(missing("archive-dir", directory, "\"mmv-agent run\" creates it"));
        }
        if let Some(group) = fixed.capture_group.as_deref().filter(|group| *group != ANY_USER)
            && group_named(group).is_none()
        {
            let effect = "only the agent's user can capture";
            warnings
                .push(format!("capture-group: there is no group {group} on this system; {effect}"));
        }
        warnings.extend(self.shared_file_system());
        warnings.extend(self.group_warnings());
        warnings
    }

    /// Returns a line if users can fill the file system of the MMV directory.
    pub(crate) fn shared_file_system(&self) -> Option<String> {
        shared_file_system::warning(&self.fixed.mmv_dir)
    }

    /// Returns the warnings about groups, users and labels, which can change while an agent runs.
    pub(crate) fn group_warnings(&self) -> Vec<String> {
        let groups = &self.reloadable.groups;
        let shadowed = groups.iter().enumerate().filter_map(|(at, group)| {
            let before = shadows(group, &groups[..at])?;
            let named: Vec<_> = before.iter().map(|one| format!("\"{}\"", one.name)).collect();
            Some(format!(
                "group \"{}\" never logs anything: {} above it, which take{} all of its metrics; \
                 move it above",
                group.name,
                named.join(", "),
                if named.len() == 1 { "s" } else { "" },
            ))
        });
        let reloadable = &self.reloadable;
        let keys = KEYS.iter().filter(|key| reloadable.labels.contains_key(**key)).map(|key| {
            format!(
                "labels.{key}: this makes a label; to set the key \"{key}\" move the line above \
                 the first [table]"
            )
        });
        let users = reloadable.pins.warnings().chain(reloadable.owners.warnings());
        shadowed.chain(users).chain(keys).collect()
    }
}

fn missing(key: &str, directory: &Path, effect: &str) -> Option<String> {
    let directory_is = directory.display();
    match directory.metadata() {
        Err(error) => Some(format!("{key}: {directory_is}: {error}; {effect}")),
        Ok(found) if !found.is_dir() => Some(format!("{key}: {directory_is} is not a directory")),
        Ok(_) => None,
    }
}

/// Returns earlier groups that together take all metrics of a group, if they certainly do.
fn shadows<'a>(group: &Group, before: &'a [Group]) -> Option<Vec<&'a Group>> {
    let takes_instances =
        |other: &&Group| other.instances.is_empty() || other.instances == group.instances;
    let mut found: Vec<&Group> = Vec::new();
    for pattern in &group.metrics {
        let other = before
            .iter()
            .filter(takes_instances)
            .find(|other| other.metrics.iter().any(|wide| covers(wide, pattern)))?;
        if !found.iter().any(|known| known.name == other.name) {
            found.push(other);
        }
    }
    Some(found)
}

/// Returns true if the first pattern takes each name that the second one takes; false where that
/// is not obvious.
fn covers(wide: &str, narrow: &str) -> bool {
    let is_pattern = |text: &str| text.contains(['*', '?']);
    if wide == narrow {
        return true;
    }
    // All names that the narrow pattern takes begin with this.
    let start = narrow.split(['*', '?']).next().unwrap_or_default();
    match wide.strip_suffix('*') {
        Some(prefix) if !is_pattern(prefix) => start.starts_with(prefix),
        _ if is_pattern(wide) => false,
        // A subtree.
        _ => start.strip_prefix(wide).is_some_and(|rest| rest.starts_with('.')),
    }
}

#[cfg(test)]
mod tests {
    use pcp_types::names;

    use super::*;
    use crate::config::{InstancePattern, LogMode};

    fn group(name: &str, metrics: &[&str], instances: &[&str]) -> Group {
        let instances = instances.iter().map(|&one| InstancePattern::Matching(one.to_owned()));
        Group {
            name: name.to_owned(),
            metrics: metrics.iter().map(|&one| one.to_owned()).collect(),
            instances: instances.collect(),
            interval: None,
            log: LogMode::Every,
        }
    }

    #[test]
    fn a_pattern_covers_another_one_if_that_is_certain() {
        for (wide, narrow, expected) in [
            ("mmv.a", "mmv.a", true),
            ("mmv.a", "mmv.a.b", true),
            ("mmv.a", "mmv.ab", false),
            ("mmv.a.b", "mmv.a", false),
            ("mmv.a", "mmv.a.*", true),
            ("mmv.a", "mmv.a*", false),
            ("mmv.a*", "mmv.ab", true),
            ("mmv.a*", "mmv.a?c*", true),
            ("*", "mmv", true),
            ("*.b", "mmv.a.b", false),
            ("mmv.?", "mmv.a", false),
            ("m?v*", "mmv.a", false),
        ] {
            assert_eq!(covers(wide, narrow), expected, "{wide} {narrow}");
            // What is claimed holds for names.
            let name = narrow.replace('*', "x.y").replace('?', "z");
            assert!(!expected || names::selects(wide, &name), "{wide} {name}");
        }
    }

    #[test]
    fn a_label_with_the_name_of_a_key_is_probably_meant_as_the_key() {
        let text = "interval = \"1s\"\n[labels]\nsync = \"2s\"\nsite = \"north\"\n";
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("agent.toml");
        std::fs::write(&file, text).unwrap();
        let settings = crate::config::file::read(&file).unwrap();
        let expected = "labels.sync: this makes a label; to set the key \"sync\" move the line \
                        above the first [table]";
        assert_eq!(settings.group_warnings(), [expected]);
    }

    #[test]
    fn a_group_that_earlier_groups_leave_nothing_is_named_with_them() {
        let warnings = |groups: &[Group]| {
            let mut settings = Settings::default();
            settings.reloadable.groups = groups.to_vec();
            settings.group_warnings()
        };
        let [a, b] = [group("a", &["mmv.a"], &[]), group("b", &["mmv.b.*"], &[])];
        let both = group("both", &["mmv.a.x", "mmv.b.y"], &["sda"]);
        assert_eq!(warnings(&[both.clone(), a.clone(), b.clone()]), [""; 0]);
        assert_eq!(warnings(&[a.clone(), both.clone()]), [""; 0]);
        let expected = "group \"both\" never logs anything: \"a\", \"b\" above it, which take all of \
                        its metrics; move it above";
        assert_eq!(warnings(&[a.clone(), b, both]), [expected]);
        // Only some instances are taken.
        let some = group("some", &["mmv"], &["sd*"]);
        assert_eq!(warnings(&[some.clone(), a.clone()]), [""; 0]);
        assert_eq!(warnings(&[some.clone(), group("same", &["mmv.a"], &["sd*"])]).len(), 1);
        let again = group("again", &["mmv.a"], &[]);
        let text = warnings(&[a, again]).remove(0);
        assert!(text.contains("\"a\" above it, which takes all"), "{text}");
    }
}
