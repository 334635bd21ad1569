//! One manual page: the output of `clap_mangen` for a command, with the sections that it lacks.
//!
//! Exit statuses and examples are those of the long help; a subcommand whose help has no exit
//! statuses has those of its program. Variables, files and other pages are in `sections`.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::Resettable;

use super::ending::{Ending, Example};
use super::sections::{self, Entry};

pub(super) fn page(program: &Command, command: &Command) -> String {
    let mut ending = Ending::of(command);
    if ending.statuses.is_empty() {
        ending.statuses = Ending::of(program).statuses;
    }
    let name = name(command);
    let bare = command.clone().after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let mut page = Vec::new();
    clap_mangen::Man::new(bare).render(&mut page).expect("render a page");
    let page = String::from_utf8(page).expect("a page is text");
    let page = with_title(&with_synopsis(&page, command.clone()), &name, program);
    let (page, version) = match page.split_once(".SH VERSION\n") {
        Some((page, version)) => (page.to_owned(), format!(".SH VERSION\n{version}")),
        None => (page, String::new()),
    };
    let statuses: Vec<Entry<'_>> = ending.statuses.iter().map(|(a, b)| (&**a, &**b)).collect();
    [
        page,
        list("EXIT STATUS", &statuses),
        list("ENVIRONMENT", &sections::environment(&name)),
        list("FILES", &sections::files(&name)),
        paragraphs("NOTES", &ending.notes),
        examples(&ending.examples, &ending.after),
        see_also(program, &name),
        version,
    ]
    .concat()
}

pub(super) fn name(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// Replaces the title by one that has version and name of the program: the generator leaves out
/// the empty date, so that all that follows it is in a wrong place.
fn with_title(page: &str, name: &str, program: &Command) -> String {
    let (before, rest) = page.split_once(".TH ").expect("a title");
    let (_, after) = rest.split_once('\n').expect("a line after the title");
    let title = escaped(&name.to_uppercase());
    let source = format!("{} {}", program.get_name(), program.get_version().expect("a version"));
    format!("{before}.TH \"{title}\" 1 \"\" \"{}\"\n{after}", escaped(&source))
}

/// Adds the values of options to the synopsis, and shows arguments that one of several usages
/// requires as required.
fn with_synopsis(page: &str, mut command: Command) -> String {
    let (before, rest) = page.split_once(".SH SYNOPSIS\n").expect("a synopsis");
    let (_, after) = rest.split_once("\n.SH ").expect("a section after the synopsis");
    let usage = command.render_usage().to_string();
    let bold = |text: &str| format!("\\fB{}\\fR", text.replace('-', "\\-"));
    let mut words = vec![bold(command.get_bin_name().unwrap_or(command.get_name()))];
    let mut arguments: Vec<_> = command.get_arguments().collect();
    arguments.retain(|argument| !argument.is_hide_set());
    arguments.sort_by_key(|argument| argument.is_positional());
    for argument in arguments {
        let takes_value = argument.get_action().takes_values();
        let id = argument.get_id().as_str().to_uppercase();
        let names = argument.get_value_names().map(|names| names.iter().map(ToString::to_string));
        let value = names.map_or(id, |names| names.collect::<Vec<_>>().join(" "));
        let value = format!("\\fI{}\\fR", value.replace('-', "\\-"));
        let many = argument.get_num_args().is_some_and(|range| range.max_values() > 1);
        let more = if many { "..." } else { "" };
        if argument.is_positional() {
            let name = argument.get_value_names().and_then(|names| names.first());
            let is_required = argument.is_required_set()
                || name.is_some_and(|name| usage.contains(&format!("<{name}>")));
            words.push(if is_required {
                format!("{value}{more}")
            } else {
                format!("[{value}{more}]")
            });
            continue;
        }
        let short = argument.get_short().map(|short| bold(&format!("-{short}")));
        let long = argument.get_long().map(|long| bold(&format!("--{long}")));
        let mut option = short.into_iter().chain(long).collect::<Vec<_>>().join("|");
        if takes_value {
            option = format!("{option} {value}");
        }
        words.push(if argument.is_required_set() { option } else { format!("[{option}]") });
    }
    if command.has_subcommands() {
        words.push("\\fICOMMAND\\fR".to_owned());
    }
    format!("{before}.SH SYNOPSIS\n{}\n.SH {after}", words.join(" "))
}

/// Formats a section of names and their meanings; empty without any.
fn list(heading: &str, entries: &[Entry<'_>]) -> String {
    let entries = entries
        .iter()
        .map(|(name, meaning)| format!(".TP\n\\fB{}\\fR\n{}\n", unbroken(name), unbroken(meaning)));
    section(heading, &entries.collect::<String>())
}

/// Formats a section of paragraphs; empty without any.
fn paragraphs(heading: &str, texts: &[String]) -> String {
    let texts: Vec<_> = texts.iter().map(|text| escaped(text) + "\n").collect();
    section(heading, &texts.join(".PP\n"))
}

fn examples(examples: &[Example], after: &[String]) -> String {
    let mut parts = Vec::new();
    for Example { purpose, command } in examples {
        let mut part = escaped(purpose) + "\n.RS 2\n.EX\n";
        for line in command {
            let _ = writeln!(part, "{}", escaped(line));
        }
        parts.push(part + ".EE\n.RE\n");
    }
    parts.extend(after.iter().map(|text| escaped(text) + "\n"));
    section("EXAMPLES", &parts.join(".PP\n"))
}

fn section(heading: &str, text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(".SH \"{heading}\"\n{text}") }
}

/// Lists the other pages of a program, those of programs that do the same, and documents.
fn see_also(program: &Command, name: &str) -> String {
    let own = program.get_subcommands().map(self::name).chain([self::name(program)]);
    let mut own: Vec<_> = own.filter(|other| other != name).collect();
    own.sort();
    let own = own.into_iter().map(|page| page + "(1)");
    let related = sections::related(name).iter().map(|page| (*page).to_owned());
    let pages = own.chain(related).map(|page| match page.split_once('(') {
        Some((name, section)) => format!("\\%\\fB{}\\fR({section}", escaped(name)),
        None => page,
    });
    let pages = pages.collect::<Vec<_>>().join(",\n");
    let documents = unbroken(&sections::documents(program.get_name()).join(", "));
    section("SEE ALSO", &format!("{pages}\n.PP\nIn the sources: {documents}\n"))
}

/// Marks paths in a text so that they are not hyphenated.
fn unbroken(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let start = if word.contains('/') { "\\%" } else { "" };
        start.to_owned() + &escaped(word)
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Escapes a text so that roff prints it as it is, and that it can be copied from a page into a
/// shell.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '\\' => escaped.push_str("\\e"),
            '-' => escaped.push_str("\\-"),
            '\'' => escaped.push_str("\\(aq"),
            '`' => escaped.push_str("\\(ga"),
            '^' => escaped.push_str("\\(ha"),
            '~' => escaped.push_str("\\(ti"),
            '.' if escaped.is_empty() => escaped.push_str("\\&."),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[test]
fn characters_with_a_meaning_in_roff_are_escaped() {
    assert_eq!(escaped(".a-b 'c' \\ ~/d"), "\\&.a\\-b \\(aqc\\(aq \\e \\(ti/d");
}
