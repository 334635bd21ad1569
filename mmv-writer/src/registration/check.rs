//! Checks of names and texts, for all kinds of registrations.

use mmv_format::content::Help;
use mmv_format::layout::{LABEL_BYTES, STRING_BYTES};
use pcp_types::json::is_value;
use pcp_types::names::{is_label_name, is_metric_name};

use crate::{Error, Label};

/// Limit on file names, in bytes. It leaves room for the longer temporary name in the 255 bytes of
/// a file name.
const MAX_FILE_NAME: usize = 200;

/// Checks a file's name: pmdammv must read it, and metric names under it must be legal.
pub(crate) fn file_name(name: &str, prefixed: bool) -> Result<(), Error> {
    length("file name", name, name, 1, MAX_FILE_NAME)?;
    let safe = !name.starts_with('.') && !name.contains(['/', '\0']);
    let mut parts = name.split('.');
    let is_legal = !prefixed
        || parts.all(|part| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        });
    if safe && is_legal { Ok(()) } else { Err(Error::FileName { name: name.to_owned() }) }
}

/// Checks a metric's own part of its name.
pub(super) fn metric_name(name: &str) -> Result<(), Error> {
    name_length(name)?;
    if is_metric_name(name) { Ok(()) } else { Err(Error::MetricName { name: name.to_owned() }) }
}

/// Checks the length of a metric's name, with its prefix or without.
pub(super) fn name_length(name: &str) -> Result<(), Error> {
    length("name", name, name, 1, STRING_BYTES - 1)
}

/// Checks an instance's name, which may have any bytes except NUL.
pub(super) fn instance_name(indom: &str, name: &str) -> Result<(), Error> {
    length("instance name", indom, name, 1, STRING_BYTES - 1)?;
    no_nul("instance name", indom, name)
}

/// Checks the help texts of `name`.
pub(super) fn help(help: &Help<String>, name: &str) -> Result<(), Error> {
    for (what, text) in [("help", &help.short), ("long help", &help.long)] {
        let text = text.as_deref().unwrap_or_default();
        length(what, name, text, 0, STRING_BYTES - 1)?;
        no_nul(what, name, text)?;
    }
    Ok(())
}

pub(super) fn label(label: &Label) -> Result<(), Error> {
    if !is_label_name(&label.name) {
        return Err(Error::LabelName { name: label.name.clone() });
    }
    if !is_value(&label.json_value) {
        return Err(Error::LabelValue { name: label.name.clone(), json: label.json_value.clone() });
    }
    no_nul("label", &label.name, &label.json_value)?;
    length("label", &label.name, &label.text(), 0, LABEL_BYTES - 1)
}

fn length(what: &'static str, name: &str, text: &str, min: usize, max: usize) -> Result<(), Error> {
    let found = text.len();
    if (min..=max).contains(&found) {
        return Ok(());
    }
    Err(Error::Length { what, name: name.to_owned(), found, min, max })
}

fn no_nul(what: &'static str, name: &str, text: &str) -> Result<(), Error> {
    if text.contains('\0') { Err(Error::Nul { what, name: name.to_owned() }) } else { Ok(()) }
}
