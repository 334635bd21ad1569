//! Completion scripts of shells.
//!
//! In: a shell. Out: the script that `clap_complete` generates of the command line, and
//! functions that complete the names of the metrics of the archive that is on the line
//! already. They run `mmv-archive --complete-metrics WORD...` with the words of the line.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use mmv_arguments::program::completion_script;
use pcp_archive::replay::SelectedMetric;
use pcp_archive::{Archive, ArchiveSet};
use pcp_types::printable::is_printable;

/// The end of the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  Install the script of bash for this user:
    mmv-archive completions bash \\
        >~/.local/share/bash-completion/completions/mmv-archive
  Complete in this fish only:
    mmv-archive completions fish | source";

use crate::options::{ArchiveArgument, sides};
use crate::order::histogram_name;

/// The first argument of the call that prints the names of metrics.
pub(crate) const COMPLETE_METRICS: &str = "--complete-metrics";

/// The identifiers of the arguments of all commands.
const ARCHIVE: &str = "archive";
const METRICS: &str = "metrics";

/// After the functions of bash: names of metrics if there are any for the current word, else
/// options after a dash and files in other places.
const BASH: &str = r#"
_mmv_archive() {
    local names word
    mapfile -t names < <("$1" --complete-metrics "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if (( ${#names[@]} )); then
        COMPREPLY=("${names[@]}")
        return
    fi
    _mmv__archive "$@"
    if (( COMP_CWORD > 1 )) && [[ $2 != -* && $3 != -* && ${COMP_WORDS[1]} != completions ]]; then
        COMPREPLY=()
    fi
}

complete -F _mmv_archive -o bashdefault -o default mmv-archive
"#;

/// Before the last lines of zsh's script.
const ZSH: &str = r#"
(( $+functions[_mmv-archive_metric_names] )) ||
_mmv-archive_metric_names() {
    local -a line names
    line=("${(@Q)${(z)LBUFFER}}")
    [[ $LBUFFER == *[[:space:]] ]] || line[-1]=()
    names=("${(@f)$($line[1] --complete-metrics "${(@)line[2,-1]}" "" 2>/dev/null)}")
    compadd -a names
}
"#;

pub(crate) fn script(shell: Shell, command: Command) -> String {
    let takers = takers_of_metrics(&command);
    let mut script = completion_script(shell, command);
    match shell {
        Shell::Bash => {
            // Two spellings of the program's name, of which one is never looked up.
            script = script.replace("mmv__subcmd__archive", "mmv__archive");
            script.push_str(BASH);
        }
        Shell::Zsh => script = with_metrics_in_zsh(&script),
        Shell::Fish => {
            for name in takers {
                let condition = format!("__fish_mmv_archive_using_subcommand {name}");
                let names = "set -l line (commandline -opc); \
                             $line[1] --complete-metrics $line[2..] '' 2>/dev/null";
                script += &format!("complete -c mmv-archive -n \"{condition}\" -a \"({names})\"\n")
                    .replace("$line", "\\$line");
            }
        }
        _ => {}
    }
    script
}

fn takers_of_metrics(command: &Command) -> Vec<String> {
    let mut names = Vec::new();
    for command in command.get_subcommands() {
        if command.get_positionals().any(|argument| argument.get_id() == METRICS) {
            names.push(command.get_name().to_owned());
        }
    }
    names
}

/// Returns the script with another action for the arguments that are metrics.
fn with_metrics_in_zsh(script: &str) -> String {
    let mut text = String::with_capacity(script.len() + ZSH.len());
    for line in script.lines() {
        let is_metrics = line.starts_with("'*::metrics -- ") && line.ends_with(":_default' \\");
        if is_metrics {
            let start = line.trim_end_matches(":_default' \\").replacen("'*::", "'*:", 1);
            text.push_str(&start);
            text.push_str(":_mmv-archive_metric_names' \\");
        } else {
            if line.starts_with("if [ \"$funcstack[1]\" =") {
                text.push_str(ZSH);
                text.push('\n');
            }
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// Returns the names of metrics that the last word can become; none if it is not a metric. `words` are
/// those of the command line, without the program.
pub(crate) fn metric_names(command: &Command, words: &[OsString]) -> Vec<String> {
    let Some((last, before)) = words.split_last() else { return Vec::new() };
    let Some(archive) = archive_before_metric(command, before, last) else { return Vec::new() };
    let paths = ArchiveArgument::new(archive).paths().unwrap_or_default();
    let start = last.to_string_lossy();
    let mut names = Vec::new();
    for base in ArchiveSet::bases(&paths).unwrap_or_default() {
        let Ok(archive) = Archive::open_tolerant(base) else { continue };
        for (name, metric) in archive.metadata().subtree("") {
            let metric = SelectedMetric { name: name.to_owned(), desc: metric.desc };
            // The parts of a histogram follow its name.
            let histogram = histogram_name(archive.metadata(), &metric);
            let histogram = histogram.filter(|histogram| histogram.starts_with(&*start));
            let name = histogram.unwrap_or(name);
            if name.starts_with(&*start) && name.chars().all(is_printable) {
                names.push(name.to_owned());
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the archive among the words, if the next word can be a metric.
fn archive_before_metric(command: &Command, words: &[OsString], next: &OsStr) -> Option<OsString> {
    let (name, words) = words.split_first()?;
    let command = command.find_subcommand(name)?;
    let mut positionals = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.to_str().filter(|text| text.len() > 1 && text.starts_with('-')) {
            None => positionals.push(word),
            Some("--") => positionals.extend(words.by_ref()),
            Some(option) => {
                if takes_next_word(command, option) && words.next().is_none() {
                    // The next word is the value of an option.
                    return None;
                }
            }
        }
    }
    let ids: Vec<&str> = command.get_positionals().map(|one| one.get_id().as_str()).collect();
    let is_metric = ids.first() == Some(&ARCHIVE) && ids.get(1) == Some(&METRICS);
    let is_option = next.to_string_lossy().starts_with('-');
    let archive = positionals.first().filter(|_| is_metric && !is_option)?;
    // A page's archives have names.
    let path = sides::named(Path::new(archive)).map(|(_, path)| path.into_os_string());
    Some(path.unwrap_or_else(|| (*archive).clone()))
}

/// Returns whether the value of an option is the next word: `--start`, `-S`, not `--start=1` nor
/// `-S1`.
fn takes_next_word(command: &Command, option: &str) -> bool {
    let takes = |found: Option<&Arg>| {
        found.is_some_and(|one| matches!(one.get_action(), ArgAction::Set | ArgAction::Append))
    };
    if let Some(long) = option.strip_prefix("--") {
        return takes(command.get_arguments().find(|one| one.get_long() == Some(long)));
    }
    // In a group of letters, as -tS, the text after the first option with a value is its value.
    let mut letters = option.chars().skip(1).peekable();
    while let Some(letter) = letters.next() {
        let found = command.get_arguments().find(|one| one.get_short() == Some(letter));
        if takes(found) {
            return letters.peek().is_none();
        }
    }
    false
}
