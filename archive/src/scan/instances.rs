//! Finds the instances that a text selects.
//!
//! | text | in a domain with the names | selects |
//! |---|---|---|
//! | `0001 init` | `0001 init` | that one: the whole of a name |
//! | `sda` | `sda`, `sda disk` | the first: the whole of a name is tried before its parts |
//! | `sda` | `sda disk`, `sdab` | the first: the part before the first blank, as in PCP |
//! | `7` | any but `7` and `7 ...` | the instance with number 7 |
//! | `7` | `7`, or `7 ...` | that one, whatever its number is |
//! | `sd*` | `sda`, `sdb disk`, `nvme0` | the first two: `*` is any characters, `?` one |
//! | `*` | `*`, `sda` | the first: a name is tried before a pattern |
//! | `/,503` | `path=/,code=503` | that one: the values of its labels, as tables show it |
//!
//! All names that the domain ever had count, and all that a number ever had.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use pcp_types::names::{is_pattern, label_values, matches_pattern};

use crate::{IndomHistory, InstanceId};

/// Returns the [identities](IndomHistory::by_identity) of the instances of a domain that any of
/// the texts selects.
///
/// A text selects the instances that ever had it as their name; if there are none, those whose
/// name, or the part of it before the first blank, it is or matches as a pattern, and those that
/// are called after labels with these values, separated by commas; if there are none and the text
/// is a number, those that ever had this number. A domain without a history has no names.
pub fn select_instances(
    texts: &[impl AsRef<str>],
    history: Option<&IndomHistory>,
) -> BTreeSet<InstanceId> {
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    let mut equal: HashMap<&str, Vec<InstanceId>> = HashMap::new();
    let mut alike = equal.clone();
    let named = history.map(IndomHistory::by_identity).into_iter();
    for instance in named.flat_map(IndomHistory::ever_named) {
        for text in &texts {
            if *text == &*instance.name {
                equal.entry(text).or_default().push(instance.id);
            } else if is_alike(text, &instance.name) {
                alike.entry(text).or_default().push(instance.id);
            }
        }
    }
    let mut selected = BTreeSet::new();
    for text in texts {
        if let Some(named) = equal.remove(text).or_else(|| alike.remove(text)) {
            selected.extend(named);
        } else if let Some(number) = text.parse().ok().and_then(|id| InstanceId::new(id).ok()) {
            match history {
                Some(history) => selected.extend(history.identities_of(number)),
                None => drop(selected.insert(number)),
            }
        }
    }
    selected
}

/// Returns whether a text is, or matches as a pattern, the part of a name before its first blank or
/// the values of the labels in it, or matches the whole.
fn is_alike(text: &str, name: &str) -> bool {
    let first_word = name.split(' ').next().unwrap_or(name);
    let is_or_matches =
        |part: &str| text == part || is_pattern(text) && matches_pattern(text, part);
    is_or_matches(first_word)
        || is_pattern(text) && matches_pattern(text, name)
        || label_values(name).is_some_and(|values| is_or_matches(&values))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::indom::IndomRecordKind;
    use crate::reader::indom_test_support::history;

    fn numbers(text: &str, history: Option<&IndomHistory>) -> Vec<i32> {
        select_instances(&[text], history).iter().map(|id| id.get()).collect()
    }

    #[test]
    fn a_first_word_or_a_pattern_selects_where_no_name_is_equal() {
        assert!(is_alike("0002", "0002 /sbin/getty"));
        assert!(!is_alike("000", "0001"));
        assert!(!is_alike("0003 sh", "0003"));
        assert!(is_alike("sd?", "sda disk") && is_alike("*disk", "sda disk"));
        assert!(!is_alike("sd?", "nvme0"));
        assert!(is_alike("/a,503", "path=/a,code=503") && is_alike("/a,*", "path=/a,code=503"));
        assert!(!is_alike("/a", "path=/a,code=503") && !is_alike("503", "path=/a,code=503"));
        let names = [(1, Some("eth0")), (2, Some("eth0 vlan")), (3, Some("*")), (4, Some("lo up"))];
        let history = history(&[(10, IndomRecordKind::Full, names.to_vec())]);
        assert_eq!(numbers("eth0", Some(&history)), [1]);
        assert_eq!(numbers("eth0 vlan", Some(&history)), [2]);
        assert_eq!(numbers("*", Some(&history)), [3]);
        assert_eq!(numbers("lo", Some(&history)), [4]);
        assert_eq!(numbers("e*", Some(&history)), [1, 2]);
    }

    #[test]
    fn a_name_and_a_number_select_all_that_ever_had_them() {
        let first = vec![(0, Some("a")), (1, Some("b"))];
        let second = vec![(0, Some("b")), (1, Some("a"))];
        let history =
            history(&[(10, IndomRecordKind::Full, first), (20, IndomRecordKind::Full, second)]);
        assert_eq!(numbers("a", Some(&history)).len(), 1);
        assert_ne!(numbers("a", Some(&history)), numbers("b", Some(&history)));
        assert_eq!(numbers("0", Some(&history)).len(), 2, "a and b");
    }

    #[test]
    fn a_number_selects_an_instance_unless_it_is_a_name() {
        let first = vec![(1, Some("sda disk")), (2, Some("7 up"))];
        let second = vec![(3, Some("sda")), (4, Some("sdab"))];
        let history =
            history(&[(10, IndomRecordKind::Full, first), (20, IndomRecordKind::Full, second)]);
        assert_eq!(numbers("sda", Some(&history)), [3], "names of all times");
        assert_eq!(numbers("sda disk", Some(&history)), [1]);
        assert_eq!(numbers("7", Some(&history)), [2]);
        assert_eq!(numbers("4", Some(&history)), [4]);
        assert_eq!(numbers("99", Some(&history)), [99], "which may have values without a name");
        assert_eq!(numbers("-1", Some(&history)), [0; 0]);
        assert_eq!(numbers("4", None), [4]);
        assert_eq!(select_instances(&["sdab", "1"], Some(&history)).len(), 2);
    }
}
