//! Tools: what can be asked, and the command line that answers it.
//!
//! In: the name of a tool and its arguments, by a client that is not trusted. Out: a [`Call`]. An
//! argument is a time, a name, a number or a choice: nothing in it names a file or is an option.
//! Values follow their option after `=`, names and archives follow `--`.

use std::ffi::OsString;

use pcp_archive::ArchiveSet;
use serde_json::{Map, Value, json};

use super::Archives;
use crate::Failure;
use crate::options::ArchiveArgument;
use crate::selection::is_definition_file;
use crate::text::shown;

/// Rows of a report without an interval.
const ROWS: &str = "--rows=60";
/// Columns of tables: no terminal wraps them, and the fewer panels, the fewer columns of times.
const WIDTH: &str = "--width=160";
/// The format of pictures; no such file is written.
const PICTURE: &str = "--output=picture.png";

/// A question that can be asked.
#[derive(Debug)]
pub(super) struct Tool {
    name: &'static str,
    about: &'static str,
    parameters: &'static [Parameter],
    /// The last part of the archive that is meant without times.
    last: Option<&'static str>,
    /// Options that each call has.
    options: &'static [&'static str],
}

/// An argument. Its name is that of the command's option, with underscores.
#[derive(Debug, Clone, Copy)]
struct Parameter {
    name: &'static str,
    kind: Kind,
    about: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The value of an option.
    Text,
    /// The values of an option that can be repeated.
    Texts,
    Count,
    Flag,
    /// Names of metrics.
    Metrics,
    /// The name of one of several archives.
    Archive,
}

/// The call that answers a question.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The programs of an archive, or of all.
    Programs { archive: Option<String> },
    /// A subcommand and its arguments.
    Command(Vec<OsString>),
}

const fn parameter(name: &'static str, kind: Kind, about: &'static str) -> Parameter {
    Parameter { name, kind, about }
}

const ARCHIVE: Parameter =
    parameter("archive", Kind::Archive, "Archive, by its name [default: the first]");
const METRICS: Parameter = parameter(
    "metrics",
    Kind::Metrics,
    "Metrics: names, branches of the name space, or patterns such as mmv.shop.*, also with labels: \
     mmv.shop.requests{code=~'5..'}",
);
const SINCE: Parameter = parameter(
    "since",
    Kind::Text,
    "Start: 14:05, a date, -10min before the end of the archive, or 2 hours ago",
);
const UNTIL: Parameter =
    parameter("until", Kind::Text, "End: as for since, or 5min after the start");
const LAST: Parameter =
    parameter("last", Kind::Text, "The last part of the archive, of this length: 5m, 2h, 1d");
const JSON: Parameter =
    parameter("json", Kind::Flag, "Print JSON with all digits: ten times as long");
const INSTANCE: Parameter =
    parameter("instance", Kind::Texts, "Only these instances, by name or a pattern such as sd*");
const INTERVAL: Parameter = parameter("interval", Kind::Text, "Time between samples: 1s, 5min");
const QUANTILE: Parameter =
    parameter("quantile", Kind::Texts, "Only these quantiles of histograms: p50, p99.9; 1 is max");
const TOP: Parameter =
    parameter("top", Kind::Count, "Only this many instances of each metric, the largest");
const DERIVED: Parameter = parameter(
    "derived",
    Kind::Texts,
    "Expressions: rate(a.b), sum(rate(x{code=~'5..'})) / sum(rate(x)), p99(histogram), \
     below(100ms, histogram), topk(3, x); operators + - * / and comparisons",
);

static TOOLS: [Tool; 8] = [
    Tool {
        name: "programs",
        about: "Which programs were measured, how many metrics each has, what happened to it last; \
                host, time span and time zone of the archive",
        parameters: &[ARCHIVE],
        last: None,
        options: &[],
    },
    Tool {
        name: "metrics",
        about: "The metrics of all programs as a short tree, or all about those that are named: \
                types, units, labels, instances, help texts",
        parameters: &[
            ARCHIVE,
            METRICS,
            parameter("names", Kind::Flag, "Print names alone"),
            parameter("json", Kind::Flag, "Print JSON"),
        ],
        last: None,
        options: &[],
    },
    Tool {
        name: "report",
        about: "Values over time, a row for each: counters as rates, histograms as rate, p50, p99 \
                and maximum of the interval. At most 60 rows, unless an interval is given",
        parameters: &[
            ARCHIVE,
            METRICS,
            DERIVED,
            SINCE,
            UNTIL,
            LAST,
            parameter("at", Kind::Texts, "Values at these times instead of a window"),
            INTERVAL,
            QUANTILE,
            INSTANCE,
            TOP,
            parameter("sum", Kind::Flag, "The sum over all instances of each metric"),
            parameter("events", Kind::Flag, "Also restarts and ends of the programs, as rows"),
            JSON,
        ],
        last: Some("1h"),
        options: &[WIDTH],
    },
    Tool {
        name: "summary",
        about: "Mean, minimum, maximum and quantiles of each metric and instance over a window",
        parameters: &[
            ARCHIVE,
            METRICS,
            SINCE,
            UNTIL,
            LAST,
            QUANTILE,
            INSTANCE,
            parameter("sort", Kind::Text, "name, average, rate, minimum, maximum, total, p99"),
            TOP,
            parameter("total", Kind::Flag, "Also the increase of counters"),
            JSON,
        ],
        last: Some("1h"),
        options: &[],
    },
    Tool {
        name: "events",
        about: "Programs that started, ended, were restarted or rejected, and missing samples",
        parameters: &[
            ARCHIVE,
            Parameter { about: "Programs, such as mmv.shop [default: all]", ..METRICS },
            SINCE,
            UNTIL,
            LAST,
            JSON,
        ],
        last: Some("1d"),
        options: &[],
    },
    Tool {
        name: "compare",
        about: "Which metrics differ between two parts of an archive, or between two archives: both \
                numbers, their ratio with 95 % bounds, and a verdict. Of each kind json lists at most \
                24, and in left_out the number of others",
        parameters: &[
            ARCHIVE,
            METRICS,
            INSTANCE,
            parameter("before", Kind::Text, "The base part of the archive: 10:00..10:15"),
            parameter("after", Kind::Text, "The new part of the archive: 10:20..10:35"),
            parameter("base", Kind::Archive, "Without before and after: the base archive"),
            parameter("new", Kind::Archive, "Without before and after: the new archive"),
            Parameter { about: "Of base and new: the start, as 14:05 or a date", ..SINCE },
            Parameter { about: "Of base and new: the end, as for since", ..UNTIL },
            Parameter { about: "Of base and new: the last part, of this length: 5m, 2h", ..LAST },
            parameter("warm_up", Kind::Text, "Leave out this time after each start: 30s"),
            parameter("all", Kind::Flag, "Also numbers that do not differ"),
            JSON,
        ],
        last: None,
        options: &[],
    },
    Tool {
        name: "explain",
        about: "What changed in a window of time: which series, when, by how much, which moved \
                together, which programs were restarted, what was not measured. Of each kind json \
                lists at most 24, and in left_out the number of others: name metrics or take a \
                shorter window for them",
        parameters: &[
            ARCHIVE,
            METRICS,
            parameter("at", Kind::Text, "A quarter of an hour before and after this time"),
            SINCE,
            UNTIL,
            LAST,
            JSON,
        ],
        last: None,
        options: &[],
    },
    Tool {
        name: "plot",
        about: "A picture of metrics over time, with restarts marked",
        parameters: &[
            ARCHIVE,
            METRICS,
            DERIVED,
            SINCE,
            UNTIL,
            LAST,
            QUANTILE,
            INSTANCE,
            TOP,
            parameter("heatmap", Kind::Flag, "What histograms counted, as colors"),
        ],
        last: Some("1h"),
        options: &[PICTURE],
    },
];

/// Describes all tools, in an order that never changes.
pub(super) fn list(archives: &Archives) -> Vec<Value> {
    TOOLS.iter().map(|tool| tool.describe(archives)).collect()
}

impl Tool {
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// Returns whether a JSON document of the tool is one list of changes, whose length can be limited.
    pub(super) fn lists(&self) -> bool {
        matches!(self.name, "compare" | "explain")
    }

    fn parameters(&self, archives: &Archives) -> impl Iterator<Item = &Parameter> {
        let has_several = archives.0.len() > 1;
        self.parameters
            .iter()
            .filter(move |parameter| parameter.kind != Kind::Archive || has_several)
    }

    fn describe(&self, archives: &Archives) -> Value {
        let mut properties = Map::new();
        for parameter in self.parameters(archives) {
            properties.insert(parameter.name.to_owned(), parameter.schema(archives));
        }
        json!({
            "name": self.name,
            "description": self.about,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "additionalProperties": false,
            },
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        })
    }

    /// Returns what answers a call with these arguments.
    ///
    /// # Errors
    ///
    /// [`Failure::Usage`] for arguments that the tool does not have, and for values of another type
    /// or that could mean a file.
    pub(super) fn call(
        &self,
        arguments: &Map<String, Value>,
        archives: &Archives,
    ) -> Result<Call, Failure> {
        let mut options = vec![OsString::from(self.name)];
        let mut metrics = Vec::new();
        for (name, value) in arguments {
            let Some(parameter) = self.parameters(archives).find(|known| known.name == name) else {
                return Err(self.unknown(name, archives));
            };
            match parameter.kind {
                Kind::Metrics => metrics.extend(parameter.names(value)?),
                Kind::Archive => parameter.archive(value, archives)?,
                Kind::Text | Kind::Texts | Kind::Count | Kind::Flag => {
                    options.extend(parameter.options(value)?);
                }
            }
        }
        if self.name == "programs" {
            let archive = text_of(arguments, "archive").map(str::to_owned);
            return Ok(Call::Programs { archive });
        }
        options.extend(self.options.iter().map(OsString::from));
        let has_times = has_any(arguments, &["since", "until", "last", "at"]);
        if let Some(last) = self.last.filter(|_| !has_times) {
            options.push(format!("--last={last}").into());
        }
        if self.name == "report" && !has_any(arguments, &["interval", "at"]) {
            options.push(ROWS.into());
        }
        options.push("--".into());
        let archive = archives.find(text_of(arguments, "archive"));
        if self.name == "compare" && has_any(arguments, &["base", "new"]) {
            for side in ["base", "new"] {
                let Some(name) = text_of(arguments, side) else { continue };
                options.extend(archives.find(Some(name)).map(|archive| run(side, archive)));
            }
        } else if let Some(archive) = archive {
            let is_detailed = !metrics.is_empty() && !has_any(arguments, &["names"]);
            let is_of_newest = self.name == "metrics" && is_detailed;
            options.push(if is_of_newest { newest(archive)? } else { archive.text().into() });
        }
        options.extend(metrics);
        Ok(Call::Command(options))
    }

    fn unknown(&self, name: &str, archives: &Archives) -> Failure {
        let known: Vec<&str> = self.parameters(archives).map(|known| known.name).collect();
        let known = known.join(", ");
        Failure::Usage(format!("{} has no argument {name}; it has {known}", self.name))
    }
}

/// Returns the text of an argument, if it is given.
fn text_of<'a>(arguments: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    arguments.get(name).and_then(Value::as_str)
}

/// Returns whether one of some arguments is given.
fn has_any(arguments: &Map<String, Value>, names: &[&str]) -> bool {
    names.iter().any(|name| arguments.get(*name).is_some_and(|value| !value.is_null()))
}

/// Returns an archive as one of the runs of `compare`.
fn run(side: &str, archive: &ArchiveArgument) -> OsString {
    let mut run = OsString::from(format!("{side}="));
    run.push(archive.text());
    run
}

/// Returns the newest of an archive's parts, whose metadata is the present one: each of several
/// would be printed.
fn newest(archive: &ArchiveArgument) -> Result<OsString, Failure> {
    let bases = ArchiveSet::bases(&archive.paths()?)?;
    let newest = bases.into_iter().next_back();
    Ok(newest.unwrap_or_else(|| archive.text().to_owned()).into())
}

impl Parameter {
    fn schema(&self, archives: &Archives) -> Value {
        let mut schema = match self.kind {
            Kind::Text => json!({ "type": "string" }),
            Kind::Texts | Kind::Metrics => {
                json!({ "type": "array", "items": { "type": "string" } })
            }
            Kind::Count => json!({ "type": "integer", "minimum": 1 }),
            Kind::Flag => json!({ "type": "boolean" }),
            Kind::Archive => json!({ "type": "string", "enum": archives.names() }),
        };
        schema["description"] = self.about.into();
        schema
    }

    /// Returns the options on the command line.
    fn options(&self, value: &Value) -> Result<Vec<OsString>, Failure> {
        let option = format!("--{}", self.name.replace('_', "-"));
        Ok(match (self.kind, value) {
            (_, Value::Null) | (Kind::Flag, Value::Bool(false)) => Vec::new(),
            (Kind::Flag, Value::Bool(true)) => vec![option.into()],
            (Kind::Count, Value::Number(number)) if number.is_u64() => {
                vec![format!("{option}={number}").into()]
            }
            (Kind::Text, Value::String(text)) => vec![format!("{option}={text}").into()],
            (Kind::Texts, _) => {
                let texts = self.texts(value)?;
                if let Some(file) = texts.iter().find(|text| is_definition_file(text)) {
                    return Err(self.refused(file));
                }
                texts.iter().map(|text| format!("{option}={text}").into()).collect()
            }
            _ => return Err(self.mistyped()),
        })
    }

    /// Returns names of metrics, none of which a command takes for an archive.
    fn names(&self, value: &Value) -> Result<Vec<OsString>, Failure> {
        let names = self.texts(value)?;
        let is_path = |name: &&String| {
            let name = name.split('{').next().unwrap_or_default();
            name.contains(['=', '/'])
        };
        match names.iter().find(is_path) {
            Some(path) => Err(self.refused(path)),
            None => Ok(names.into_iter().map(OsString::from).collect()),
        }
    }

    /// Checks the name of an archive.
    fn archive(&self, value: &Value, archives: &Archives) -> Result<(), Failure> {
        let names = archives.names();
        if value.is_null() || value.as_str().is_some_and(|name| names.contains(&name)) {
            return Ok(());
        }
        Err(Failure::Usage(format!("{} must be one of {}", self.name, names.join(", "))))
    }

    /// Returns the texts of a list; one text is a list of one.
    fn texts(&self, value: &Value) -> Result<Vec<String>, Failure> {
        let values = match value {
            Value::Null => &[],
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<String>>>().ok_or_else(|| self.mistyped())
    }

    fn refused(&self, text: &str) -> Failure {
        Failure::Usage(format!("{} does not accept file names: {}", self.name, shown(text)))
    }

    fn mistyped(&self) -> Failure {
        let kind = match self.kind {
            Kind::Text | Kind::Archive => "a string",
            Kind::Texts | Kind::Metrics => "a list of strings",
            Kind::Count => "a number of 1 or more",
            Kind::Flag => "true or false",
        };
        Failure::Usage(format!("{} must be {kind}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn arguments_have_the_names_of_options() {
        let command = crate::command();
        for tool in TOOLS.iter().filter(|tool| tool.name != "programs") {
            let subcommand = command.find_subcommand(tool.name).unwrap();
            let mut options = BTreeSet::new();
            for argument in subcommand.get_arguments() {
                options.extend(argument.get_long().map(str::to_owned));
                let aliases = argument.get_visible_aliases().unwrap_or_default();
                options.extend(aliases.into_iter().map(str::to_owned));
            }
            for parameter in tool.parameters {
                let is_positional = matches!(parameter.kind, Kind::Metrics | Kind::Archive);
                let option = parameter.name.replace('_', "-");
                assert!(is_positional || options.contains(&option), "{} {option}", tool.name);
            }
        }
    }

    #[test]
    fn instructions_name_tools_and_arguments_that_exist() {
        let words = super::super::INSTRUCTIONS.split('`').skip(1).step_by(2);
        let mut known = 0;
        for word in words.filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())) {
            let is_argument = |tool: &Tool| tool.parameters.iter().any(|known| known.name == word);
            assert!(Tool::find(word).is_some() || TOOLS.iter().any(is_argument), "{word}");
            known += 1;
        }
        assert!(known > 20, "{known}");
    }

    #[test]
    fn values_never_become_options() {
        let archives = Archives(vec![(String::new(), ArchiveArgument::new("-a"))]);
        let hostile = "--output=x";
        for tool in &TOOLS {
            for parameter in tool.parameters.iter().filter(|known| known.kind != Kind::Archive) {
                let value = match parameter.kind {
                    Kind::Texts | Kind::Metrics => json!([hostile]),
                    _ => json!(hostile),
                };
                let arguments = Map::from_iter([(parameter.name.to_owned(), value)]);
                // Refused, or behind an option or `--`.
                let Ok(Call::Command(line)) = tool.call(&arguments, &archives) else { continue };
                let end = line.iter().position(|word| word == "--").unwrap();
                let before = line.get(..end).unwrap();
                assert!(before.iter().all(|word| word != hostile), "{line:?}");
                assert_eq!(line.get(end + 1), Some(&OsString::from("-a")), "{line:?}");
            }
        }
    }
}
