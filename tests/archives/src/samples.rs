//! Archives that several crates test with.

use crate::{Builder, Cell, TestArchive};

/// Writes two volumes with metadata of every kind, values in place and in blocks, a mark, and an
/// index entry for every record.
#[must_use]
pub fn of_every_kind() -> TestArchive {
    let mut builder = Builder::indexed(1)
        .metric("a.word", "u32 instant none")
        .metric("a.text", "string instant none")
        .help("a.word", "help")
        .context_labels(&[("a", "1")]);
    let names: Vec<String> = (0..4).map(|number| format!("x{number}")).collect();
    for second in 0..4 {
        if second == 2 {
            builder = builder.mark(1.001).volume();
        }
        let there = &names[..=second];
        let texts = there.iter().map(|name| (format!("a.text[{name}]"), Cell::from("text")));
        let word = ("a.word".to_owned(), Cell::from(7));
        builder = builder
            .instances("a.text", there.iter().map(String::as_str))
            .row(second as f64, std::iter::once(word).chain(texts));
    }
    builder.finish()
}
