//! Texts that select metrics: names, branches of the name space, patterns.

/// Returns whether a selector selects the metric of this name: it is the name, or a branch above
/// it, or a pattern that matches it. The empty selector selects all metrics.
///
/// ```
/// use pcp_types::names::selects;
///
/// assert!(selects("disk.dev", "disk.dev.read") && selects("disk.*.read", "disk.dev.read"));
/// assert!(!selects("disk.d", "disk.dev.read"));
/// ```
#[must_use]
pub fn selects(selector: &str, name: &str) -> bool {
    if is_pattern(selector) {
        return matches_pattern(selector, name);
    }
    let below = name.strip_prefix(selector);
    below.is_some_and(|below| selector.is_empty() || below.is_empty() || below.starts_with('.'))
}

/// Returns whether a selector is a pattern: it has a `*` or a `?`, which no name has.
#[must_use]
pub fn is_pattern(selector: &str) -> bool {
    selector.contains(['*', '?'])
}

/// Returns whether a pattern matches a whole name: `*` matches any characters, dots too, and `?`
/// a single one.
///
/// `disk.*.read*` matches `disk.dev.read` and `disk.all.read_bytes`.
#[must_use]
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let pattern = pattern.as_bytes();
    let name = name.as_bytes();
    let mut at = 0;
    let mut seen = 0;
    // The last star, and how much of the name it has matched: on a mismatch it
    // matches one byte more. Earlier stars never need to match more.
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
                let Some((after, matched)) = star else { return false };
                star = Some((after, matched + 1));
                at = after + 1;
                seen = matched + 1;
            }
        }
    }
    pattern.iter().skip(at).all(|&rest| rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_selects_itself_and_all_below_it() {
        for selector in ["", "disk", "disk.dev", "disk.dev.read", "d*.read", "*.dev.????"] {
            assert!(selects(selector, "disk.dev.read"), "{selector}");
        }
        for selector in ["dis", "disk.", "disk.dev.rea", "disk.dev.read.x", "d*.rea"] {
            assert!(!selects(selector, "disk.dev.read"), "{selector}");
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
            assert!(matches_pattern(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("", "a"), ("disk.*", "disk"), ("a?", "a"), ("a*b", "a.c"), ("*.b", "a.b.c")]
        {
            assert!(!matches_pattern(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_cost_at_most_the_product_of_the_lengths() {
        let pattern = "a*".repeat(200) + "b";
        assert!(!matches_pattern(&pattern, &"a".repeat(5000)));
    }
}
