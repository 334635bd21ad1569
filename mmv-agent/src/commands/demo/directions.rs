//! Suggested commands after the demo, which work in the directory where it was started.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The environment of the commands.
#[derive(Debug, Default)]
pub(super) struct Directions {
    exe: PathBuf,
    here: PathBuf,
    path: OsString,
}

impl Directions {
    pub(super) fn here() -> Self {
        Self {
            exe: env::current_exe().unwrap_or_default(),
            here: env::current_dir().unwrap_or_default(),
            path: env::var_os("PATH").unwrap_or_default(),
        }
    }

    /// Returns commands that examine the archive `base` and remove `directory`.
    pub(super) fn text(&self, directory: &Path, base: &Path) -> String {
        let directory = quoted(directory);
        let base = quoted(base);
        let mut text = match self.archive_command() {
            Some(command) => format!(
                "What to type next, for the latency and the visitors over time:\n\n  \
                 {command} report {base} mmv.shop.latency --quantile 0.5,0.99\n  \
                 {command} plot {base} mmv.shop.requests.by_page\n"
            ),
            None => format!(
                "The archive is {base}.\nTo look further, install the program mmv-archive.\n"
            ),
        };
        if self.find_in_path("pmrep").is_some() {
            text += &[
                "\nPerformance Co-Pilot reads the archive too:\n\n  pmrep -a ",
                &base,
                " mmv.shop.requests.total\n",
            ]
            .concat();
        }
        text + "\nTo remove the archive:\n\n  rm -r " + &directory
    }

    /// Returns a command that runs mmv-archive: the program beside this one, by its name alone if
    /// that suffices; else the one in `$PATH`, else cargo in the source tree. `None` if there is
    /// none.
    fn archive_command(&self) -> Option<String> {
        let sibling = self.exe.with_file_name("mmv-archive");
        let found = self.find_in_path("mmv-archive");
        let is_in_path = found
            .as_ref()
            .is_some_and(|found| found.canonicalize().ok() == sibling.canonicalize().ok());
        if is_program(&sibling) && !is_in_path {
            return Some(quoted(sibling.strip_prefix(&self.here).unwrap_or(&sibling)));
        }
        if found.is_some() {
            return Some("mmv-archive".to_owned());
        }
        let can_build = self.here.ancestors().any(|directory| {
            let packages = ["archive/cli", "mmv-agent"];
            packages.iter().all(|name| directory.join(name).join("Cargo.toml").is_file())
        });
        can_build.then(|| "cargo run --release -p mmv-archive --".to_owned())
    }

    /// Returns the program that a shell starts by this name.
    fn find_in_path(&self, name: &str) -> Option<PathBuf> {
        env::split_paths(&self.path).map(|folder| folder.join(name)).find(|file| is_program(file))
    }
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let mut bytes = path.as_os_str().as_encoded_bytes().iter();
    if bytes.all(|byte| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(byte)) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates an executable file.
    fn program(folder: &Path, name: &str) {
        fs::create_dir_all(folder).unwrap();
        let file = folder.join(name);
        fs::write(&file, "").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn mmv_archive_is_called_as_it_can_be() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = |name: &str| scratch.path().join(name);
        program(&folder("tree/target/release"), "mmv-archive");
        program(&folder("bin"), "mmv-archive");
        program(&folder("other"), "pmrep");

        for package in ["tree/archive/cli", "tree/mmv-agent"] {
            fs::create_dir_all(folder(package)).unwrap();
            fs::write(folder(package).join("Cargo.toml"), "").unwrap();
        }
        let built = folder("tree/target/release/mmv-archive").display().to_string();
        let named = "mmv-archive";
        let cargo = "cargo run --release -p mmv-archive --";
        for (exe, here, path, expected) in [
            ("tree/target/release", "tree", "other", Some("target/release/mmv-archive")),
            ("tree/target/release", "bin", "other", Some(built.as_str())),
            ("tree/target/release", "bin", "bin", Some(built.as_str())),
            ("bin", "other", "bin", Some(named)),
            ("other", "other", "bin", Some(named)),
            ("tree/target/debug", "tree/mmv-agent", "other", Some(cargo)),
            ("tree/target/debug", "other", "other", None),
        ] {
            let exe = folder(exe).join("mmv-agent");
            let directions = Directions { exe, here: folder(here), path: folder(path).into() };
            assert_eq!(directions.archive_command().as_deref(), expected, "{directions:?}");
        }
    }

    #[test]
    fn only_programs_that_are_there_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = Path::new("/tmp/it's one");
        let base = Path::new("/tmp/it's one/shop");
        let mut directions = Directions { path: scratch.path().into(), ..Directions::default() };
        let text = directions.text(directory, base);
        assert!(text.contains("install the program mmv-archive"), "{text}");
        assert!(!text.contains("pmrep"), "{text}");
        assert!(text.ends_with(r"rm -r '/tmp/it'\''s one'"), "{text}");
        program(&scratch.path().join("bin"), "pmrep");
        directions.path = scratch.path().join("bin").into();
        let text = directions.text(directory, base);
        assert!(text.contains(r"  pmrep -a '/tmp/it'\''s one/shop' mmv.shop"), "{text}");
    }
}
