//! Comparison of a command's output with the one that a page shows.
//!
//! Numbers differ from run to run, as do names of days and months and the widths of
//! columns; a line `...` stands for any lines, and `...` at the end of a
//! line for anything. All else must be equal.

/// Stands for any number of lines, also none.
pub(crate) const ANYTHING: &str = "...";

const NAMES_OF_TIME: [&str; 19] = [
    "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun",
    "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

pub(crate) fn is_like(shown: &[String], output: &str) -> bool {
    let shown: Vec<_> = shown.iter().map(|line| essence(line)).collect();
    let lines: Vec<_> = output.lines().map(essence).collect();
    matches(trimmed(&shown), trimmed(&lines))
}

pub(crate) fn begins_like(shown: &[String], output: &str) -> bool {
    let mut open = shown.to_vec();
    open.push(ANYTHING.to_owned());
    is_like(&open, output)
}

fn trimmed(lines: &[String]) -> &[String] {
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    &lines[..end]
}

fn matches(shown: &[String], lines: &[String]) -> bool {
    match (shown.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == ANYTHING => {
            (0..=lines.len()).any(|skipped| matches(rest, &lines[skipped..]))
        }
        (Some((first, rest)), Some((line, lines))) => {
            let alike = match first.strip_suffix(ANYTHING) {
                Some(beginning) => line.starts_with(beginning),
                None => first == line,
            };
            alike && matches(rest, lines)
        }
        _ => false,
    }
}

/// Returns a line without the parts that differ from run to run.
fn essence(line: &str) -> String {
    if line.trim() == ANYTHING {
        return ANYTHING.to_owned();
    }
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

fn word(word: &str) -> String {
    // The rule below a heading is as wide as the column.
    if word.len() > 1 && word.bytes().all(|byte| byte == b'-') {
        return "--".to_owned();
    }
    if NAMES_OF_TIME.contains(&word.trim_end_matches(',')) {
        return "@".to_owned();
    }
    let mut result = String::new();
    let mut characters = word.chars().peekable();
    while let Some(character) = characters.next() {
        if !character.is_ascii_digit() {
            result.push(character);
            continue;
        }
        let mut last = character;
        while let Some(next) =
            characters.next_if(|next| next.is_ascii_digit() || matches!(next, '.' | ':' | ','))
        {
            last = next;
        }
        result.push('#');
        // Punctuation after the number, not in it.
        if !last.is_ascii_digit() {
            result.push(last);
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alike(shown: &str, output: &str) -> bool {
        is_like(&shown.lines().map(str::to_owned).collect::<Vec<_>>(), output)
    }

    #[test]
    fn numbers_blanks_and_days_may_differ() {
        assert!(alike("Mon 18:05:23  1.5 ms", "Tue 9:00:00.125   120 ms\n\n"));
        assert!(alike("---  -----", "----- -----"));
        assert!(alike("pid 12, since 4:", "pid 5123, since 17:"));
        assert!(!alike("1.5 ms", "1.5 s"));
        assert!(!alike("p99 1", "p99 -"));
        assert!(!alike("a 1", "a 1\nb"));
    }

    #[test]
    fn dots_stand_for_any_lines() {
        assert!(alike("a\n...\nc", "a\nb\nb\nc"));
        assert!(alike("...\nc", "c"));
        assert!(!alike("a\n...\nc", "a\nb"));
        assert!(alike("a: ...\nc", "a: b d\nc"));
        assert!(!alike("a: ...", "b: a"));
        assert!(begins_like(&["a 1".to_owned()], "a 2\nmore"));
        assert!(!begins_like(&["a 1".to_owned()], "b"));
    }
}
