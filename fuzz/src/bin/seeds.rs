//! Writes the seeds below `fuzz/corpus/`, one directory for each target.

use std::path::Path;
use std::{fs, io};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, _) in fuzz::TARGETS {
        fs::create_dir_all(root.join(target))?;
    }
    for (number, (target, bytes)) in fuzz::seeds::all().iter().enumerate() {
        fs::write(root.join(target).join(format!("seed-{number}")), bytes)?;
    }
    Ok(())
}
