//! Properties of the host that archives record.

use std::collections::BTreeMap;
use std::fs;

use pcp_archive::WriterLabel;

/// Names and labels of the host, as pmcd gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// `gethostname(2)`, or "localhost".
    pub name: String,
    /// NIS domain name, or "localdomain".
    pub domain: String,
    /// Contents of /etc/machine-id, or "localmachine".
    pub machine_id: String,
    /// Labels from the configuration: name and JSON value.
    pub labels: BTreeMap<String, String>,
}

impl Host {
    /// Returns the names of this host according to the system.
    pub(crate) fn local() -> Self {
        Self {
            name: WriterLabel::local().hostname.to_string(),
            domain: first_word("/proc/sys/kernel/domainname")
                .filter(|domain| domain != "(none)")
                .unwrap_or_else(|| "localdomain".to_owned()),
            machine_id: first_word("/etc/machine-id").unwrap_or_else(|| "localmachine".to_owned()),
            labels: BTreeMap::new(),
        }
    }

    /// Returns the context labels that pmcd gives, and those of the configuration: name and JSON
    /// value.
    pub(crate) fn context_labels(&self) -> Vec<(&str, String)> {
        let json = |text: &str| serde_json::Value::from(text).to_string();
        let mut labels = vec![
            ("hostname", json(&self.name)),
            ("domainname", json(&self.domain)),
            ("machineid", json(&self.machine_id)),
        ];
        labels.extend(self.labels.iter().map(|(name, value)| (name.as_str(), value.clone())));
        labels
    }
}

/// Returns the name of a host's directory: the host's name, or a similar one if that is not a plain
/// and visible file name. The name of a system may have any bytes.
pub(crate) fn file_name(host: &str) -> String {
    if host.is_empty() {
        return "localhost".to_owned();
    }
    let characters = host.char_indices().map(|(at, c)| match c {
        '.' if at == 0 => '_',
        '/' => '_',
        c if c.is_control() => '_',
        c => c,
    });
    characters.collect()
}

fn first_word(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_that_is_no_file_name_becomes_one() {
        for (host, expected) in [
            ("web.example.org", "web.example.org"),
            ("..", "_."),
            (".", "_"),
            (".state", "_state"),
            ("../web", "_._web"),
            ("", "localhost"),
            ("a\nb", "a_b"),
        ] {
            assert_eq!(file_name(host), expected, "{host:?}");
        }
    }

    #[test]
    fn this_host_has_a_name() {
        let host = Host::local();
        assert!(!host.name.is_empty() && !host.domain.is_empty() && !host.machine_id.is_empty());
    }

    #[test]
    fn label_values_are_json_strings() {
        let host = Host { name: "a\"b".into(), ..Host::local() };
        assert_eq!(host.context_labels()[0], ("hostname", "\"a\\\"b\"".into()));
    }
}
