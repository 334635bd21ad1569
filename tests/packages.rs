//! The packages that `ci/dist` makes: their files, and what dpkg does with them in a root
//! directory of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::binaries;
use crate::harness::scratch::Scratch;
use crate::harness::skip::skip;

const CONFIGURATION: &str = "etc/mmv-agent/agent.toml";
const EDITED: &str = "interval = \"5s\"\n";

#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{stdout}{stderr}", output.status);
    stdout
}

/// Returns the path to programs, with rpm where `ci/rpm` has fetched it.
fn path() -> String {
    let rpm = binaries::workspace().join("target/rpm/bin");
    let usual = std::env::var("PATH").unwrap_or_default();
    if rpm.is_dir() { format!("{}:{usual}", rpm.display()) } else { usual }
}

fn dist(programs: &Path, into: &Path, umask: &str) {
    run(Command::new("sh")
        .env("PATH", path())
        .args(["-c", "umask $1; exec \"$2\" \"$3\"", "sh", umask])
        .arg(binaries::workspace().join("ci/dist"))
        .arg(into)
        .env("MMV_PROGRAMS_IN", programs)
        // Compression is most of the time.
        .env("DPKG_DEB_COMPRESSOR_LEVEL", "1")
        .env("SOURCE_DATE_EPOCH", "1700000000"));
}

fn file(directory: &Path, end: &str) -> PathBuf {
    let entries = fs::read_dir(directory).expect("list the packages");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    assert_eq!(files.len(), 1, "{end}: {files:?}");
    files.remove(0)
}

/// A root directory with dpkg's data base, in which the dependencies of the package are
/// installed.
struct Root {
    directory: PathBuf,
}

impl Root {
    fn new(directory: PathBuf) -> Self {
        let admin = directory.join("var/lib/dpkg");
        for name in ["info", "updates", "triggers"] {
            fs::create_dir_all(admin.join(name)).expect("dpkg's directories");
        }
        fs::create_dir_all(directory.join("etc")).expect("etc");
        let architecture = run(Command::new("dpkg").arg("--print-architecture"));
        let status = ["libc6", "libgcc-s1"].map(|package| {
            format!(
                "Package: {package}\nStatus: install ok installed\nMaintainer: nobody\n\
                 Architecture: {architecture}Version: 99\nDescription: {package}\n\n"
            )
        });
        let status = status.concat();
        fs::write(admin.join("status"), status).expect("dpkg's data base");
        Self { directory }
    }

    /// Runs dpkg as root, or as what looks like root to it.
    #[track_caller]
    fn dpkg(&self, arguments: &[&str]) {
        let mut command = if run(Command::new("id").arg("-u")).trim() == "0" {
            Command::new("dpkg")
        } else if exists("fakeroot") {
            let mut command = Command::new("fakeroot");
            command.arg("dpkg");
            command
        } else {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "dpkg"]);
            command
        };
        // What the machine leaves out of packages, such as manual pages, is there.
        command
            .arg(format!("--root={}", self.directory.display()))
            .args(["--force-not-root", "--force-script-chrootless", "--log=/dev/null"])
            .arg("--path-include=*")
            .args(arguments);
        let path = std::env::var("PATH").unwrap_or_default();
        run(command.env("PATH", format!("{path}:/usr/sbin:/sbin")).env("LC_ALL", "C"));
    }

    fn read(&self, path: &str) -> String {
        let path = self.directory.join(path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.directory.join(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("make it");
        fs::write(path, text).expect("write a file");
    }

    fn has(&self, path: &str) -> bool {
        self.directory.join(path).symlink_metadata().is_ok()
    }

    fn state(&self) -> String {
        let status = self.read("var/lib/dpkg/status");
        let package = status.split("\n\n").find(|entry| entry.contains("Package: mmv-agent\n"));
        let state = package.and_then(|entry| entry.lines().find(|line| line.starts_with("Status")));
        state.unwrap_or("unknown").to_owned()
    }
}

/// Repacks the package as an older version of it, with another configuration by default.
fn older(package: &Path, scratch: &Path) -> PathBuf {
    let (tree, older) = (scratch.join("older"), scratch.join("older.deb"));
    run(Command::new("dpkg-deb").arg("-R").arg(package).arg(&tree));
    let control = fs::read_to_string(tree.join("DEBIAN/control")).expect("control");
    let version = control.lines().find(|line| line.starts_with("Version: ")).expect("a version");
    let control = control.replace(version, "Version: 0.0.1");
    fs::write(tree.join("DEBIAN/control"), control).expect("write control");
    fs::write(tree.join(CONFIGURATION), "interval = \"2s\"\n").expect("write a configuration");
    run(Command::new("dpkg-deb")
        .args(["--root-owner-group", "-Znone", "-b"])
        .arg(tree)
        .arg(&older));
    older
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn a_package_is_installed_upgraded_and_purged_by_dpkg() {
    if !exists("dpkg") || !exists("dpkg-deb") {
        return skip("dpkg is not here");
    }
    let scratch = Scratch::new();
    let packages = scratch.path().join("packages");
    let programs = binaries::mmv_agent();
    dist(programs.parent().expect("a directory"), &packages, "022");
    let package = file(&packages, ".deb");
    let older = older(&package, scratch.path());
    let root = Root::new(scratch.path().join("root"));

    root.dpkg(&["--install", &older.display().to_string()]);
    assert_eq!(root.state(), "Status: install ok installed");
    assert_eq!(root.read(CONFIGURATION), "interval = \"2s\"\n");
    for (file, mode) in [
        ("usr/bin/mmv-agent", 0o755),
        ("usr/bin/mmv-archive", 0o755),
        ("usr/bin/mmv-export", 0o755),
        (CONFIGURATION, 0o644),
        ("usr/lib/systemd/system/mmv-agent.service", 0o644),
        ("usr/lib/systemd/system/mmv-export-push.service", 0o644),
        ("usr/lib/systemd/system/mmv-export-serve.service", 0o644),
        ("usr/lib/sysusers.d/mmv-agent.conf", 0o644),
        ("usr/lib/tmpfiles.d/mmv-agent.conf", 0o644),
        ("usr/share/man/man1/mmv-agent-run.1", 0o644),
        ("usr/share/bash-completion/completions/mmv-archive", 0o644),
        ("usr/share/doc/mmv-agent/copyright", 0o644),
        ("usr/share/doc/mmv-agent/third-party.txt", 0o644),
    ] {
        let found = fs::metadata(root.directory.join(file));
        let found = found.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{file}");
        assert!(found.len() > 0, "{file} is empty");
    }
    let notices = root.read("usr/share/doc/mmv-agent/third-party.txt");
    assert!(notices.contains("\nclap-"), "a crate");
    assert!(notices.contains("/xz/COPYING.0BSD\n"), "a C library");
    if exists("systemd-sysusers") {
        assert!(root.read("etc/passwd").contains("mmv-agent:"), "there is no account");
    }
    if exists("systemd-tmpfiles") {
        let directory = fs::metadata(root.directory.join("var/lib/pcp/tmp/mmv"));
        let mode = directory.expect("the directory of MMV files").permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }
    run(Command::new(root.directory.join("usr/bin/mmv-archive")).arg("--version"));

    // The default changes with the upgrade; what the administrator wrote stays.
    root.write(CONFIGURATION, EDITED);
    root.write("var/lib/mmv-agent/state", "pmids");
    root.write("var/log/mmv-agent/host/20260101.00.00.0", "an archive");
    root.dpkg(&["--force-confdef", "--force-confold", "--install", &package.display().to_string()]);
    assert_eq!(root.state(), "Status: install ok installed");
    assert_eq!(root.read(CONFIGURATION), EDITED);
    assert!(root.has("var/lib/mmv-agent/state"));

    root.dpkg(&["--remove", "mmv-agent"]);
    assert_eq!(root.state(), "Status: deinstall ok config-files");
    assert!(!root.has("usr/bin/mmv-agent") && root.has("var/lib/mmv-agent/state"));
    assert_eq!(root.read(CONFIGURATION), EDITED);

    root.dpkg(&["--purge", "mmv-agent"]);
    assert_eq!(root.state(), "unknown");
    assert!(!root.has("etc/mmv-agent") && !root.has("var/lib/mmv-agent"));
    assert_eq!(root.read("var/log/mmv-agent/host/20260101.00.00.0"), "an archive");
}

#[test]
#[ignore = "packs everything twice: ci/slow runs it"]
fn packages_are_the_same_bytes_each_time_and_belong_to_root() {
    if !exists("dpkg-deb") {
        return skip("dpkg-deb is not here");
    }
    let scratch = Scratch::new();
    // Any small program stands in for ours.
    let programs = scratch.path().join("programs");
    fs::create_dir(&programs).expect("a directory");
    for name in ["mmv-agent", "mmv-archive", "mmv-export"] {
        fs::copy("/bin/true", programs.join(name)).expect("copy a program");
    }
    let (first, second) = (scratch.path().join("first"), scratch.path().join("second"));
    dist(&programs, &first, "022");
    dist(&programs, &second, "077");
    let sums = fs::read_to_string(first.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums, fs::read_to_string(second.join("SHA256SUMS")).expect("sums"));
    let count = if exists("rpmbuild") { 3 } else { 2 };
    assert_eq!(sums.lines().count(), count, "{sums}");
    run(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(&second));

    let (package, tarball) = (file(&first, ".deb"), file(&first, ".tar.gz"));
    let in_package = run(Command::new("dpkg-deb").arg("-c").arg(&package));
    let in_tarball = run(Command::new("tar").arg("-tvzf").arg(&tarball));
    for line in in_package.lines().chain(in_tarball.lines()) {
        assert_eq!(line.split_whitespace().nth(1), Some("root/root"), "{line}");
        let modes = ["drwxr-xr-x ", "-rwxr-xr-x ", "-rw-r--r-- "];
        assert!(modes.iter().any(|mode| line.starts_with(mode)), "{line}");
    }
    // Both have what `ci/install` installs, and little else.
    let top = tarball.file_name().expect("a name").to_string_lossy().replace(".tar.gz", "/");
    let names = |listing: &str, top: &str| -> Vec<String> {
        let names = listing.lines().filter_map(|line| line.split_whitespace().last());
        names.filter_map(|name| Some(name.strip_prefix(top)?.to_owned())).collect()
    };
    let (in_package, in_tarball) = (names(&in_package, "./"), names(&in_tarball, &top));
    let without = |all: &[String], others: &[String]| -> Vec<String> {
        all.iter().filter(|name| !others.contains(name)).cloned().collect()
    };
    assert_eq!(without(&in_package, &in_tarball), ["usr/share/doc/mmv-agent/copyright"]);
    let only = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
    assert_eq!(without(&in_tarball, &in_package), only);

    let field = |name: &str| run(Command::new("dpkg-deb").arg("-f").arg(&package).arg(name));
    // What precedes a release sorts before it.
    let version = env!("CARGO_PKG_VERSION").replacen('-', "~", 1);
    assert_eq!(field("Version").trim(), version);
    assert!(field("Depends").starts_with("libc6 (>= 2."), "{}", field("Depends"));
}

/// Returns an rpm that installs into a root directory, without the programs of its scripts.
fn rpm(root: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("rpm");
    command.args(["--root", root.to_str().expect("a path")]).args(["--noscripts", "--nodeps"]);
    run(command.args(arguments).env("PATH", path()).env("LC_ALL", "C"))
}

#[test]
#[ignore = "takes half a minute: ci/slow runs it"]
fn an_rpm_is_installed_upgraded_and_removed() {
    if !exists("rpmbuild") {
        return skip("rpmbuild is not here");
    }
    let scratch = Scratch::new();
    let packages = scratch.path().join("packages");
    let programs = binaries::mmv_agent();
    dist(programs.parent().expect("a directory"), &packages, "077");
    let package = file(&packages, ".rpm").display().to_string();
    let query = |format: &str| {
        let mut rpm = Command::new("rpm");
        run(rpm.args(["-qp", "--qf", format, &package]).env("PATH", path()).env("LC_ALL", "C"))
    };
    let owners = query("[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]");
    assert!(owners.lines().all(|owner| owner == "root:root"), "{owners}");
    assert_eq!(query("%{VERSION}"), env!("CARGO_PKG_VERSION").replacen('-', "~", 1));
    assert!(query("[%{REQUIRES}\n]").contains("libc.so.6(GLIBC_2."), "needs no glibc");
    for script in ["POSTIN", "PREUN", "POSTUN"] {
        let text = query(&format!("%{{{script}}}"));
        assert!(text.contains("systemctl"), "{script}: {text}");
        run(Command::new("sh").args(["-n", "-c", &text]));
    }
    if run(Command::new("id").arg("-u")).trim() != "0" {
        return skip("rpm needs root to install into another root directory");
    }

    let directory = scratch.path().join("root");
    fs::create_dir_all(&directory).expect("a root directory");
    rpm(&directory, &["--install", &package]);
    for (file, mode) in [
        ("usr/bin/mmv-agent", 0o755),
        (CONFIGURATION, 0o644),
        ("usr/lib/systemd/system/mmv-agent.service", 0o644),
        ("usr/lib/sysusers.d/mmv-agent.conf", 0o644),
        ("usr/share/man/man1/mmv-agent-run.1", 0o644),
        ("usr/share/licenses/mmv-agent/LICENSE-MIT", 0o644),
        ("usr/share/doc/mmv-agent/third-party.txt", 0o644),
    ] {
        let found = fs::metadata(directory.join(file));
        let found = found.unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(found.permissions().mode() & 0o7777, mode, "{file}");
        assert!(found.len() > 0, "{file} is empty");
    }
    run(Command::new(directory.join("usr/bin/mmv-archive")).arg("--version"));

    let configuration = directory.join(CONFIGURATION);
    fs::write(&configuration, EDITED).expect("edit the configuration");
    rpm(&directory, &["--upgrade", "--force", &package]);
    assert_eq!(fs::read_to_string(&configuration).expect("the configuration"), EDITED);
    rpm(&directory, &["--erase", "mmv-agent"]);
    assert!(!directory.join("usr/bin/mmv-agent").exists());
    let saved = directory.join(format!("{CONFIGURATION}.rpmsave"));
    assert_eq!(fs::read_to_string(saved).expect("the edited configuration"), EDITED);
}

fn exists(program: &str) -> bool {
    std::env::split_paths(&path()).any(|directory| directory.join(program).is_file())
}
