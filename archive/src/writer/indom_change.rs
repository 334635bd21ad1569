//! Decides how a change of an instance domain is written.

use crate::{ByteText, Instance, InstanceId};

/// The record to write for a change of an instance domain.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum IndomUpdate<'a> {
    Nothing,
    Full,
    /// The new instances with their names, and those that are gone, without; by number.
    Delta(Vec<(InstanceId, Option<&'a ByteText>)>),
}

/// Compares two states of an instance domain. By PCP's rule (`pmaDeltaInDom`,
/// `src/libpcp_archive/src/indom.c`) the new state is written whole if an instance changed its
/// name, or if the differences outnumber the new domain.
///
/// Unlike PCP, a domain that became empty is written as a difference however
/// many went: readers throw a whole domain without instances away. What follows
/// an empty domain is therefore whole again. Both sides are sorted by number,
/// each number once.
pub(super) fn between<'a>(old: &'a [Instance], new: &'a [Instance]) -> IndomUpdate<'a> {
    let mut entries = Vec::new();
    let mut olds = old.iter().peekable();
    let mut news = new.iter().peekable();
    loop {
        match (olds.peek(), news.peek()) {
            (Some(gone), next) if next.is_none_or(|next| gone.id < next.id) => {
                entries.push((gone.id, None));
                olds.next();
            }
            (before, Some(added)) if before.is_none_or(|before| added.id < before.id) => {
                entries.push((added.id, Some(&added.name)));
                news.next();
            }
            (Some(before), Some(after)) => {
                if before.name != after.name {
                    return IndomUpdate::Full;
                }
                olds.next();
                news.next();
            }
            _ => break,
        }
    }
    if entries.is_empty() {
        IndomUpdate::Nothing
    } else if !new.is_empty() && (old.is_empty() || entries.len() > new.len()) {
        IndomUpdate::Full
    } else {
        IndomUpdate::Delta(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(instances: &[(i32, &str)]) -> Vec<Instance> {
        let instances = instances
            .iter()
            .map(|&(id, name)| Instance { id: InstanceId::new(id).unwrap(), name: name.into() });
        instances.collect()
    }

    fn change(old: &[(i32, &str)], new: &[(i32, &str)]) -> Option<Vec<(i32, Option<String>)>> {
        match between(&domain(old), &domain(new)) {
            IndomUpdate::Nothing => Some(Vec::new()),
            IndomUpdate::Full => None,
            IndomUpdate::Delta(entries) => {
                let entries = entries.into_iter();
                Some(entries.map(|(id, name)| (id.get(), name.map(ToString::to_string))).collect())
            }
        }
    }

    const OLD: &[(i32, &str)] = &[(1, "a"), (3, "c"), (5, "e")];

    #[test]
    fn nothing_is_written_if_nothing_changed() {
        assert_eq!(change(OLD, OLD), Some(vec![]));
    }

    #[test]
    fn a_new_name_for_a_number_needs_the_whole_domain() {
        assert_eq!(change(OLD, &[(1, "a"), (3, "x"), (5, "e")]), None);
    }

    #[test]
    fn coming_and_going_are_mixed_by_number() {
        let new = [(1, "a"), (4, "d"), (5, "e")];
        assert_eq!(change(OLD, &new), Some(vec![(3, None), (4, Some("d".to_owned()))]));
    }

    #[test]
    fn difference_is_no_longer_than_the_domain() {
        let two = [(1, "a"), (7, "g")];
        assert_eq!(change(&[(1, "a"), (3, "c")], &two).unwrap().len(), 2);
        assert_eq!(change(OLD, &two), None);
    }

    #[test]
    fn empty_domain_is_a_difference_and_the_next_whole() {
        assert_eq!(change(OLD, &[]), Some(vec![(1, None), (3, None), (5, None)]));
        assert_eq!(change(&[], OLD), None);
    }
}
