use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// A process in a file system of its own, as this user unless it is another one.
struct Machine {
    root: TempDir,
    user: u32,
    variables: Vec<(&'static str, OsString)>,
    closed: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("home")).unwrap();
        fs::create_dir_all(root.path().join("run/user")).unwrap();
        let user = geteuid().as_raw();
        Self { root, user, variables: Vec::new(), closed: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn set(&mut self, name: &'static str, value: impl Into<OsString>) -> &mut Self {
        self.variables.push((name, value.into()));
        self
    }

    fn add(&self, directory: &str) -> PathBuf {
        let path = self.path(directory);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn choice(&self) -> (String, Reason) {
        let chosen = MmvDirectory::from_process(self);
        let path = chosen.path.strip_prefix(self.root.path()).unwrap_or(&chosen.path);
        (path.to_str().unwrap().to_owned(), chosen.reason)
    }
}

impl Process for Machine {
    fn variable(&self, name: &str) -> Option<OsString> {
        let found = self.variables.iter().rfind(|(variable, _)| *variable == name);
        found.map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    fn text(&self, file: &Path) -> Option<String> {
        let system = self.path("system");
        (file == Path::new("/etc/pcp.conf")).then(|| format!("PCP_TMP_DIR={}\n", system.display()))
    }

    fn user(&self) -> u32 {
        self.user
    }

    fn home(&self) -> Option<PathBuf> {
        Some(self.path("home"))
    }

    fn runtime_directories(&self) -> &Path {
        // Leaked, a few bytes for each test.
        Box::leak(self.path("run/user").into_boxed_path())
    }

    fn may_write(&self, directory: &Path) -> bool {
        directory.is_dir() && !self.closed.iter().any(|closed| closed == directory)
    }
}

/// Makes a machine with an ordinary user, who may not write into the system's directory.
fn user() -> Machine {
    let mut machine = Machine::new();
    machine.closed = vec![machine.add("system/mmv")];
    machine
}

fn at(path: &str, reason: Reason) -> (String, Reason) {
    (path.to_owned(), reason)
}

#[test]
fn the_environment_comes_first() {
    for (name, value, expected) in [
        ("PCP_TMP_DIR", "/tmp/mine", "/tmp/mine/mmv"),
        // Neither names a file here, so that it is PCP's default.
        ("PCP_CONF", "/etc/other.conf", "/var/lib/pcp/tmp/mmv"),
        ("PCP_DIR", "/opt/pcp", "/var/lib/pcp/tmp/mmv"),
    ] {
        let mut machine = user();
        machine.set(name, value);
        assert_eq!(machine.choice(), at(expected, Reason::Variable(name)));
    }
    let mut machine = user();
    machine.set("PCP_TMP_DIR", "");
    assert_eq!(machine.choice().1, Reason::State);
}

#[test]
fn then_the_systems_directory_if_this_user_may_write_there() {
    let mut machine = Machine::new();
    machine.user = 4711;
    machine.add("system/mmv");
    assert_eq!(machine.choice(), at("system/mmv", Reason::System));
    machine.closed = vec![machine.path("system/mmv"), machine.path("home")];
    assert_eq!(machine.choice().1, Reason::Nowhere);
}

#[test]
fn root_may_create_it() {
    let mut machine = Machine::new();
    machine.user = 0;
    assert_eq!(machine.choice(), at("system/mmv", Reason::System));
    // A file system that is read only, as in a container.
    machine.closed = vec![machine.root.path().to_owned()];
    assert_ne!(machine.choice().1, Reason::System);
    machine.closed = vec![machine.path("home")];
    machine.user = 4711;
    assert_eq!(machine.choice().1, Reason::Nowhere);
}

#[test]
fn then_the_runtime_directory_with_or_without_its_variable() {
    let mut machine = user();
    let usual = format!("run/user/{}", machine.user);
    machine.add(&usual);
    assert_eq!(machine.choice(), at(&format!("{usual}/mmv"), Reason::Runtime));
    let other = machine.add("elsewhere");
    for ignored in [OsString::from("relative"), machine.path("missing").into(), "".into()] {
        machine.set("XDG_RUNTIME_DIR", ignored);
        assert_eq!(machine.choice(), at(&format!("{usual}/mmv"), Reason::Runtime));
    }
    machine.set("XDG_RUNTIME_DIR", &other);
    assert_eq!(machine.choice(), at("elsewhere/mmv", Reason::Runtime));
    // Any user could put a link there.
    fs::set_permissions(&other, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(machine.choice(), at(&format!("{usual}/mmv"), Reason::Runtime));
}

#[test]
fn then_the_state_directory() {
    let mut machine = user();
    let listed = at("home/.local/state/mmv", Reason::State);
    assert_eq!(machine.choice(), listed);
    for ignored in ["relative", ""] {
        machine.set("HOME", ignored).set("XDG_STATE_HOME", ignored);
        assert_eq!(machine.choice(), listed);
    }
    let home = machine.add("house");
    machine.set("HOME", home);
    assert_eq!(machine.choice(), at("house/.local/state/mmv", Reason::State));
    let state = machine.path("house/state");
    machine.set("XDG_STATE_HOME", state);
    assert_eq!(machine.choice(), at("house/state/mmv", Reason::State));
}

#[test]
fn directories_of_others_do_not_count() {
    let mut machine = user();
    let home = machine.add("house");
    let run = machine.add("runtime");
    machine.set("HOME", &home).set("XDG_RUNTIME_DIR", &run);
    machine.user += 1;
    machine.closed.extend([home.clone(), machine.path("home")]);
    assert_eq!(machine.choice(), at("system/mmv", Reason::Nowhere));
    // A home that belongs to another user but is open for this one, as in containers.
    machine.closed.retain(|closed| *closed != home);
    assert_eq!(machine.choice(), at("house/.local/state/mmv", Reason::State));
    fs::set_permissions(&home, Permissions::from_mode(0o777)).unwrap();
    assert_eq!(machine.choice().1, Reason::Nowhere);
}

#[test]
fn what_is_prepared_does_not_change_the_choice() {
    let machine = user();
    for _ in 0..2 {
        let first = MmvDirectory::from_process(&machine);
        first.prepare().unwrap();
        assert_eq!(first.path().metadata().unwrap().mode() & 0o7777, USER_MODE);
        assert_eq!(MmvDirectory::from_process(&machine), first);
        first.prepare().unwrap();
        machine.add(&format!("run/user/{}", machine.user));
    }
}

#[test]
fn the_systems_directory_is_open_for_all() {
    let machine = Machine::new();
    let path = machine.path("system/mmv");
    let chosen = MmvDirectory { path: path.clone(), reason: Reason::System };
    chosen.prepare().unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, SYSTEM_MODE);
    // An administrator's choice stays.
    fs::set_permissions(&path, Permissions::from_mode(0o770)).unwrap();
    chosen.prepare().unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o770);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let machine = Machine::new();
    let path = machine.add("mmv");
    let error = make_private(&path, machine.user + 1).unwrap_err().to_string();
    let expected = format!("it belongs to user {}, not to user {}", machine.user, machine.user + 1);
    assert_eq!(error, expected);
    fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let chosen = MmvDirectory { path: path.clone(), reason: Reason::Runtime };
    let error = chosen.prepare().unwrap_err().to_string();
    assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    assert!(error.ends_with("any user may write there: its mode is 777"), "{error}");
    fs::remove_dir(&path).unwrap();
    symlink("/nowhere/at/all", &path).unwrap();
    chosen.prepare().unwrap_err();
}

#[test]
fn a_link_of_another_user_is_refused() {
    // As root, links can be given away; other users have nobody else's.
    if geteuid().as_raw() != 0 {
        return;
    }
    let machine = Machine::new();
    let target = machine.add("target");
    let path = machine.path("mmv");
    symlink(&target, &path).unwrap();
    make_private(&path, 0).unwrap();
    std::os::unix::fs::lchown(&path, Some(4711), None).unwrap();
    let error = make_private(&path, 0).unwrap_err().to_string();
    assert_eq!(error, "it belongs to user 4711, not to user 0");
}

#[test]
fn without_any_directory_the_error_says_what_helps() {
    let chosen = MmvDirectory { path: "/var/lib/pcp/tmp/mmv".into(), reason: Reason::Nowhere };
    let error = chosen.prepare().unwrap_err().to_string();
    assert!(error.starts_with("/var/lib/pcp/tmp/mmv: ") && error.ends_with("set PCP_TMP_DIR"));
}
