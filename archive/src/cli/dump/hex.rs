//! The bytes of files in hexadecimal, record by record.

use std::path::Path;

use crate::cli::failure::Failure;
use crate::cli::output::Output;
use crate::cli::value::push_hex;
use crate::reader::{Piece, RawFile};

/// Bytes in a line.
const LINE: usize = 32;
/// Bytes in a word of a line.
const WORD: usize = 4;
/// So much of a record is printed that is not whole.
const DAMAGED: u64 = 256;

/// Prints a file. The length words around a record are in its title.
///
/// # Errors
///
/// Those of reading; of a record that is not whole they come when what there
/// is of it is printed.
pub(super) fn print(path: &Path, out: &mut Output) -> Result<(), Failure> {
    let title = format!("Raw dump of physical archive file \"{}\" ...\n", path.display());
    out.text.extend_from_slice(title.as_bytes());
    let mut file = RawFile::open(path)?;
    loop {
        let (title, bytes) = match file.next() {
            Ok(None) => return Ok(()),
            Ok(Some((offset, Piece::Record(record)))) => {
                let title = format!("record len: {} @ offset: {offset}", record.len());
                let body = record.get(WORD..record.len() - WORD);
                (title, body.unwrap_or_default())
            }
            Ok(Some((offset, Piece::Entry(entry)))) => {
                (format!("index entry @ offset: {offset}"), entry)
            }
            Err(error) => {
                let (offset, bytes) = file.rest(DAMAGED)?;
                push(out, &format!("damaged @ offset: {offset}"), &bytes)?;
                return Err(error.into());
            }
        };
        push(out, &title, bytes)?;
    }
}

/// A title, and lines of bytes in words.
fn push(out: &mut Output, title: &str, bytes: &[u8]) -> Result<(), Failure> {
    out.text.extend_from_slice(format!("Dump ... {title}\n").as_bytes());
    for line in bytes.chunks(LINE) {
        for word in line.chunks(WORD) {
            out.text.push(b' ');
            for byte in word {
                push_hex(&mut out.text, *byte);
            }
        }
        out.text.push(b'\n');
        out.spill()?;
    }
    Ok(())
}
