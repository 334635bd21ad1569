//! Lists of names within a line, and texts that are longer than one.

use std::borrow::Borrow;

/// The most metrics without room that are named.
const MAX_LEFT_OUT: usize = 4;

/// Returns the first of some texts, at most `most`, and the number of the others.
pub(crate) fn first_of(texts: &[impl Borrow<str>], most: usize) -> String {
    let (first, others) = texts.split_at(texts.len().min(most));
    let first = first.join(", ");
    match others.len() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Says for which metrics there is no room.
pub(crate) fn no_room_for(names: &[String]) -> String {
    format!("no room for {}: name them to see them", first_of(names, MAX_LEFT_OUT))
}

/// Breaks a text after separators into lines of a width, which a part without one may exceed.
pub(crate) fn broken(text: &str, separator: char, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_inclusive(separator) {
        let length = part.trim_end().chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + length <= width => line.push_str(part),
            _ => lines.push(part.to_owned()),
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_texts_are_named_and_the_others_counted() {
        assert_eq!(first_of(&["a", "b"], 2), "a, b");
        assert_eq!(first_of(&["a", "b", "c", "d"], 2), "a, b and 2 more");
        assert_eq!(first_of(&[] as &[&str], 2), "");
    }

    #[test]
    fn a_long_text_has_several_lines() {
        assert_eq!(broken("a b c", ' ', 3), ["a b", "c"]);
        assert_eq!(broken("disk.dev.read", '.', 9), ["disk.dev.", "read"]);
        assert_eq!(broken("", ' ', 14), [""; 0]);
    }
}
