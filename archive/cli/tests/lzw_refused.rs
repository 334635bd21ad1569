//! Every command rejects files of compress(1) and names the remedy.

use std::fs;

use tempfile::TempDir;
use test_archives::Builder;

use crate::program::{run, text};

/// Output of compress(1) for "ab\n".
const LZW: [u8; 7] = [0x1f, 0x9d, 0x90, 0x61, 0xc4, 0x28, 0];

fn archive() -> TempDir {
    let builder = Builder::named("old").metric("a.b", "u32 instant");
    builder.row(0, [("a.b", 1)]).volume().row(1, [("a.b", 1)]).finish().into_parts().0
}

#[test]
fn every_command_names_the_file_and_the_remedy() {
    for member in ["old.0", "old.1", "old.meta", "old.index"] {
        let directory = archive();
        fs::remove_file(directory.path().join(member)).unwrap();
        let file = directory.path().join(format!("{member}.Z"));
        fs::write(&file, LZW).unwrap();
        for (command, options) in [
            ("info", &[][..]),
            ("dump", &["-v"]),
            ("check", &[]),
            ("report", &["a.b"]),
            ("report", &["a.b", "--raw"]),
            ("summary", &[]),
        ] {
            let path = directory.path().to_str().unwrap();
            let output = run(directory.path(), &[&[command, path], options].concat());
            let errors = text(&output.stderr);
            assert_eq!(output.status.code(), Some(65), "{command}: {errors}");
            let named = errors.starts_with(&format!("mmv-archive: {}: ", file.display()));
            let advice = "the LZW of compress(1) is not supported; \
                          decompress the file with uncompress or gzip -d first";
            assert!(named && errors.contains(advice), "{command}: {errors}");
        }
    }
}
