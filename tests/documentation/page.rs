//! The steps of a page: its fenced blocks, in order.
//!
//! | first line of the block | step |
//! |---|---|
//! | `console` | commands after `$ `, with the lines that they print |
//! | `console terminal=2` | the same in another terminal |
//! | `console running` | the last command goes on while the reader does |
//! | `rust title="src/main.rs"` | the content of a file |
//!
//! Blocks of other languages are not steps. A line `^C` in a console block is the
//! interrupt key.

#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Type(Input),
    Write { name: String, text: String },
}

#[derive(Debug, PartialEq)]
pub(crate) struct Input {
    pub(crate) terminal: u32,
    pub(crate) command: String,
    pub(crate) shown: Vec<String>,
    /// The page goes on while the command runs.
    pub(crate) running: bool,
}

pub(crate) const INTERRUPT: &str = "^C";

pub(crate) fn steps(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let mut words = info.split_whitespace();
        match words.next() {
            Some("console") => steps.extend(commands(&words.collect::<Vec<_>>(), &block)),
            Some("rust" | "toml") => {
                let title = words.find_map(|word| word.strip_prefix("title="));
                let Some(title) = title else { continue };
                let text = block.join("\n") + "\n";
                steps.push(Step::Write { name: title.trim_matches('"').to_owned(), text });
            }
            _ => {}
        }
    }
    steps
}

fn commands(attributes: &[&str], block: &[&str]) -> Vec<Step> {
    let terminal = attributes.iter().find_map(|word| word.strip_prefix("terminal="));
    let terminal = terminal.map_or(1, |number| number.parse().expect("the number of a terminal"));
    let mut inputs: Vec<Input> = Vec::new();
    let mut continued = false;
    for line in block {
        let command = if *line == INTERRUPT { Some(*line) } else { line.strip_prefix("$ ") };
        match (command, inputs.last_mut()) {
            (None, Some(input)) if continued => {
                input.command.push('\n');
                input.command.push_str(line.trim_start_matches("> "));
                continued = line.ends_with('\\');
            }
            (None, Some(input)) => input.shown.push((*line).to_owned()),
            (None, None) => panic!("a console block begins with {line:?} instead of a command"),
            (Some(command), _) => {
                let command = command.split("    # ").next().unwrap_or(command).to_owned();
                continued = command.ends_with('\\');
                inputs.push(Input { terminal, command, shown: Vec::new(), running: false });
            }
        }
    }
    if let Some(last) = inputs.last_mut() {
        last.running = attributes.contains(&"running");
    }
    inputs.into_iter().map(Step::Type).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_become_steps() {
        let page = "text\n```console\n$ make it    # slow\nmade\n\n$ look\n```\n\
                    ```sh\nnot this\n```\n\
                    ```rust title=\"src/main.rs\"\nfn main() {}\n```\n\
                    ```console terminal=2 running\n$ serve\n```\n```console\n^C\n```\n";
        let input = |terminal, command: &str, shown: &[&str], running| {
            let shown = shown.iter().map(|line| (*line).to_owned()).collect();
            Step::Type(Input { terminal, command: command.to_owned(), shown, running })
        };
        let expected = [
            input(1, "make it", &["made", ""], false),
            input(1, "look", &[], false),
            Step::Write { name: "src/main.rs".to_owned(), text: "fn main() {}\n".to_owned() },
            input(2, "serve", &[], true),
            input(1, INTERRUPT, &[], false),
        ];
        assert_eq!(steps(page), expected);
    }
}
