//! Which instances a text selects.
//!
//! | text | in a domain with the names | selects |
//! |---|---|---|
//! | `0001 init` | `0001 init` | that one: the whole of a name |
//! | `sda` | `sda`, `sda disk`, `sdab` | the first two: the part before the first blank counts as well, as in PCP |
//! | `7` | any but `7` and `7 ...` | the instance with number 7 |
//! | `7` | `7`, or `7 ...` | that one, whatever its number is |
//! | `sd*` | `sda`, `sdb disk`, `nvme0` | the first two: `*` is any characters, `?` one |
//!
//! All names that the domain ever had count.

use std::collections::BTreeSet;

use hashbrown::HashSet;
use pcp_types::names::{is_pattern, matches_pattern};

use crate::{IndomHistory, InstanceId};

/// The instances of a domain that any of the texts selects.
///
/// A text selects the instances that ever had it as their name or as the part of
/// their name before the first blank; if there is none, and the text is a number,
/// the instance with that number. A domain without a history has no names.
pub fn select_instances(
    texts: &[impl AsRef<str>],
    history: Option<&IndomHistory>,
) -> BTreeSet<InstanceId> {
    let mut named: HashSet<&str> = HashSet::new();
    let mut selected = BTreeSet::new();
    for instance in history.into_iter().flat_map(IndomHistory::ever_named) {
        for text in texts.iter().map(AsRef::as_ref).filter(|text| is_name(text, &instance.name)) {
            named.insert(text);
            selected.insert(instance.id);
        }
    }
    let numbers = texts.iter().map(AsRef::as_ref).filter(|text| !named.contains(text));
    selected.extend(numbers.filter_map(|text| InstanceId::new(text.parse().ok()?).ok()));
    selected
}

/// Whether a text is the whole name or the part before its first blank.
fn is_name(text: &str, name: &str) -> bool {
    let first_word = name.split(' ').next().unwrap_or(name);
    text == name
        || text == first_word
        || is_pattern(text) && (matches_pattern(text, name) || matches_pattern(text, first_word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::indom::Kind;
    use crate::reader::indom_test_support::history;

    /// The numbers of the selected instances.
    fn numbers(text: &str, history: Option<&IndomHistory>) -> Vec<i32> {
        select_instances(&[text], history).iter().map(|id| id.get()).collect()
    }

    #[test]
    fn instances_are_selected_by_the_whole_name_or_its_first_word() {
        assert!(is_name("0001 init", "0001 init"));
        assert!(is_name("0002", "0002 /sbin/getty"));
        assert!(!is_name("000", "0001"));
        assert!(!is_name("0003 sh", "0003"));
        assert!(is_name("sd?", "sda disk") && is_name("*disk", "sda disk"));
        assert!(!is_name("sd?", "nvme0") && is_name("a*", "a*"));
    }

    #[test]
    fn a_number_selects_an_instance_unless_it_is_a_name() {
        let first = vec![(1, Some("sda disk")), (2, Some("7 up"))];
        let second = vec![(3, Some("sda")), (4, Some("sdab"))];
        let history = history(&[(10, Kind::Full, first), (20, Kind::Full, second)]);
        assert_eq!(numbers("sda", Some(&history)), [1, 3], "names of all times");
        assert_eq!(numbers("sda disk", Some(&history)), [1]);
        assert_eq!(numbers("7", Some(&history)), [2]);
        assert_eq!(numbers("4", Some(&history)), [4]);
        assert_eq!(numbers("99", Some(&history)), [99], "which may have values without a name");
        assert_eq!(numbers("-1", Some(&history)), [0; 0]);
        assert_eq!(numbers("4", None), [4]);
        assert_eq!(select_instances(&["sdab", "1"], Some(&history)).len(), 2);
    }
}
