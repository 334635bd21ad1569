//! Shell lines in documentation: the words of their commands.

/// Splits a line into commands, which `|`, `&`, `;`, `&&` and `||` separate. Quotes group words;
/// a backslash at the end of a line joins it to the next one; redirections and comments are left
/// out.
pub(crate) fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.replace("\\\n", "").replace('\n', " ");
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), String::new());
    let (mut quote, mut begun, mut is_redirected) = (None, false, false);
    for character in line.chars().chain([' ']) {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(character), true),
            (None, ' ' | ';' | '&' | '|' | '>') => {
                if begun && !std::mem::take(&mut is_redirected) {
                    words.push(std::mem::take(&mut word));
                }
                (word, begun) = (String::new(), false);
                match character {
                    ' ' => {}
                    '>' => is_redirected = true,
                    _ => commands.push(std::mem::take(&mut words)),
                }
            }
            (None, '#') if !begun => break,
            _ => {
                word.push(character);
                begun = true;
            }
        }
    }
    commands.push(words);
    commands.retain(|command| !command.is_empty());
    commands
}

#[test]
fn commands_end_at_operators_and_words_at_blanks_outside_quotes() {
    assert_eq!(commands("a 'b c' \"\" d=1 # e"), [["a", "b c", "", "d=1"]]);
    assert_eq!(commands("a b & sleep 1"), [["a", "b"], ["sleep", "1"]]);
    assert_eq!(commands("a 'b|c' | d && e"), [vec!["a", "b|c"], vec!["d"], vec!["e"]]);
    assert_eq!(commands("a \\\n    b >c d\ne"), [["a", "b", "d", "e"]]);
    assert_eq!(commands("a >~/b | c"), [["a"], ["c"]]);
    assert!(commands("# a").is_empty());
}
