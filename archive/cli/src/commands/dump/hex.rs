//! Prints the records of files in hexadecimal.

use std::path::Path;

use pcp_archive::internal::{RawFile, RawPiece};

use crate::Failure;
use crate::text::{Output, push_hex, shown_path};

const LINE: usize = 32;
/// Bytes in a word of a line.
const WORD: usize = 4;
/// Bytes that are printed of a damaged record.
const DAMAGED: u64 = 256;

/// Prints a file. The length words around a record are in its title.
///
/// # Errors
///
/// Those of reading; of a damaged record after its bytes are printed.
pub(super) fn print(path: &Path, out: &mut Output) -> Result<(), Failure> {
    let title = format!("Raw dump of physical archive file \"{}\" ...\n", shown_path(path));
    out.text.extend_from_slice(title.as_bytes());
    let mut file = RawFile::open(path)?;
    loop {
        let (title, bytes) = match file.next() {
            Ok(None) => return Ok(()),
            Ok(Some((offset, RawPiece::Record(record)))) => {
                let title = format!("record len: {} @ offset: {offset}", record.len());
                let body = record.get(WORD..record.len() - WORD);
                (title, body.unwrap_or_default())
            }
            Ok(Some((offset, RawPiece::Entry(entry)))) => {
                (format!("index entry @ offset: {offset}"), entry)
            }
            Err(error) => {
                let (offset, bytes) = file.remaining(DAMAGED)?;
                push(out, &format!("damaged @ offset: {offset}"), &bytes)?;
                return Err(error.into());
            }
        };
        push(out, &title, bytes)?;
    }
}

/// Prints a title, and lines of bytes in words.
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
