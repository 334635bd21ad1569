//! Every command has examples that are valid and fit on a terminal of 80 columns.

use clap::Command;

use super::ending::Ending;
use super::page::name;
use super::programs;
use crate::harness::shell;

const WIDTH: usize = 80;
/// Indentation of an example's command on a page; the help prints it further left.
const INDENT: usize = 9;
/// Other programs that examples use.
const OTHERS: [&str; 8] = ["curl", "duckdb", "grep", "jq", "sort", "source", "systemctl", "uniq"];

fn commands() -> Vec<Command> {
    let programs = programs().into_iter();
    programs.flat_map(|program| [vec![program.clone()], subcommands(&program)].concat()).collect()
}

fn subcommands(program: &Command) -> Vec<Command> {
    program.get_subcommands().cloned().collect()
}

#[test]
fn each_command_has_two_to_five_examples_with_itself_first() {
    for command in commands() {
        let Ending { examples, .. } = Ending::of(&command);
        let name = name(&command);
        assert!((2..=5).contains(&examples.len()), "{name}: {} examples", examples.len());
        for example in &examples {
            let end = example.purpose.chars().next_back();
            assert!(matches!(end, Some(':' | '?')), "{name}: {}", example.purpose);
            assert!(!example.command.is_empty(), "{name}: {}", example.purpose);
        }
        let own = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
        let first = examples[0].command.join("\n");
        assert!(first.starts_with(&own), "{name}: {first}");
    }
}

#[test]
fn examples_are_valid_command_lines() {
    let programs = programs();
    let mut valid = 0;
    for command in commands() {
        for example in Ending::of(&command).examples {
            let line = example.command.join("\n");
            for words in shell::commands(&line) {
                let program = programs.iter().find(|program| program.get_name() == words[0]);
                let Some(program) = program else {
                    assert!(OTHERS.contains(&words[0].as_str()), "{line}");
                    continue;
                };
                let parsed = program.clone().try_get_matches_from(words);
                parsed.unwrap_or_else(|error| panic!("{}: {line}\n{error}", name(&command)));
                valid += 1;
            }
        }
    }
    assert!(valid > 60, "{valid} commands");
}

#[test]
fn the_ends_of_help_texts_fit_on_a_terminal() {
    for command in commands() {
        let ending = Ending::of(&command);
        let name = name(&command);
        for (status, meaning) in &ending.statuses {
            assert!(meaning.len() + 9 <= WIDTH, "{name}: {status} {meaning}");
        }
        for example in &ending.examples {
            assert!(example.purpose.len() + 2 <= WIDTH, "{name}: {}", example.purpose);
            for line in &example.command {
                assert!(line.len() + INDENT <= WIDTH, "{name}: {line}");
            }
        }
    }
}

#[test]
fn only_the_long_help_ends_with_examples() {
    for program in programs() {
        for mut command in subcommands(&program) {
            let short = command.render_help().to_string();
            assert!(!short.contains("Examples:"), "{short}");
            let long = command.render_long_help().to_string();
            let last = Ending::of(&command).examples.pop().expect("an example");
            let last = last.command.last().expect("a line").clone();
            assert!(long.trim_end().ends_with(&last), "{long}");
        }
    }
}

#[test]
fn the_exit_statuses_of_a_subcommand_are_those_of_its_program() {
    for program in programs() {
        let all = Ending::of(&program).statuses;
        assert!(all.len() > 5, "{}: {all:?}", program.get_name());
        for command in program.get_subcommands() {
            for (status, meaning) in Ending::of(command).statuses {
                let is_known = status == "N" || all.iter().any(|(known, _)| *known == status);
                assert!(is_known, "{}: {status} {meaning}", name(command));
            }
        }
    }
}
