//! Patterns of metric names.

use crate::{Metadata, Metric};

/// The metrics that a name on a command line [means](means), and their names,
/// in the order of the names.
pub(crate) fn find<'m>(
    metadata: &'m Metadata,
    wanted: &'m str,
) -> impl Iterator<Item = (&'m str, &'m Metric)> {
    let below = metadata.subtree(if is_pattern(wanted) { "" } else { wanted });
    below.filter(move |(name, _)| means(wanted, name))
}

/// Whether a name on a command line means a metric: it is the metric's name,
/// or that of a subtree it is in, or a pattern that its name matches.
///
/// ```
/// use mmv_archive::scan::glob::means;
///
/// assert!(means("disk.dev", "disk.dev.read") && means("disk.*.read", "disk.dev.read"));
/// assert!(!means("disk.d", "disk.dev.read"));
/// ```
pub fn means(wanted: &str, name: &str) -> bool {
    if is_pattern(wanted) {
        return matches(wanted, name);
    }
    let rest = name.strip_prefix(wanted);
    rest.is_some_and(|rest| wanted.is_empty() || rest.is_empty() || rest.starts_with('.'))
}

/// Whether a name is a pattern: it has a `*` or a `?`, which no name has.
fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?'])
}

/// Whether a pattern matches all of a name: `*` any characters, dots too, and
/// `?` a single one.
///
/// `disk.*.read*` matches `disk.dev.read` and `disk.all.read_bytes`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // The last star, and how much of the name it has taken: on a mismatch it
    // takes one more. Earlier stars never need to take more than they have.
    let mut star: Option<(usize, usize)> = None;
    while seen < name.len() {
        match (pattern.get(at), name.get(seen)) {
            (Some(b'*'), _) => {
                star = Some((at, seen));
                at += 1;
            }
            (Some(b'?'), _) => (at, seen) = (at + 1, seen + 1),
            (Some(wanted), Some(found)) if wanted == found => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((behind, taken)) = star else { return false };
                star = Some((behind, taken + 1));
                (at, seen) = (behind + 1, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_itself_and_all_below_it() {
        for wanted in ["", "disk", "disk.dev", "disk.dev.read", "d*.read", "*.dev.????"] {
            assert!(means(wanted, "disk.dev.read"), "{wanted}");
        }
        for wanted in ["dis", "disk.", "disk.dev.rea", "disk.dev.read.x", "d*.rea"] {
            assert!(!means(wanted, "disk.dev.read"), "{wanted}");
        }
    }

    #[test]
    fn stars_match_any_characters_and_question_marks_one() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a.b"),
            ("disk.*.read*", "disk.dev.read"),
            ("disk.*.read*", "disk.all.read_bytes"),
            ("*.cpu?.*", "hinv.map.cpu0.x"),
            ("a*b*c", "a.b.b.c"),
            ("**", "x"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("disk.*", "disk"), ("a?", "a"), ("a*b", "a.c"), ("*.b", "a.b.c")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_more_than_a_product_of_the_lengths() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }
}
