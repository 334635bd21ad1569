//! Lists the directory of MMV files and detects changes.
//!
//! inotify reports events by name; the file of each is inspected. Events can be lost (the
//! directory did not exist yet, was replaced, is on a network file system, or there were too
//! many), so the directory is also listed every [`SAFETY_SCAN`], after a loss, and continuously
//! while there is no watch. A listing is made in slices, so that a directory of any size delays no
//! event. After a loss, names that were harvested before are inspected at once: a program that
//! returns does not wait for the listing.
//!
//! Nothing here waits for a server: files on which another file system is mounted are neither
//! opened nor queried for attributes.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, makedev, open,
    openat, openat2, statx,
};

use super::file_table::{FileId, ListedFile};
use super::listing::{Collector, DirectoryLimits, Listing};
use crate::limits::{NOBODY, ROOT};

/// Maximum time between two listings.
pub(crate) const SAFETY_SCAN: Duration = Duration::from_secs(10);

/// Minimum time from the end of a listing to the next one after lost events.
const SCAN_PAUSE: Duration = Duration::from_millis(200);

/// Limit on root's files that are remembered as moved here.
const MAX_STRANGERS: usize = 10_000;

/// Number of entries in a slice of a listing: some milliseconds.
const SLICE: usize = 4_000;

#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    pub(super) limits: DirectoryLimits,
    watch: Option<Inotify>,
    next_scan: Duration,
    scan: Option<Scan>,
    /// Set if events were lost since the last listing began.
    is_stale: bool,
    /// Cookies of the names that files lost at this scan and the one before.
    moved_away: [HashSet<u32>; 2],
    /// Root's files that were moved here from another directory.
    strangers: HashSet<FileId>,
}

/// A listing in progress.
#[derive(Debug)]
struct Scan {
    directory: OpenDirectory,
    entries: Dir,
    collector: Collector,
    /// Names with events since the listing began.
    touched: HashSet<OsString>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DirectoryEntry {
    File(ListedFile),
    /// Description of an entry that is not a regular file.
    Other(&'static str),
}

/// An open directory with the properties its entries are compared with.
#[derive(Debug)]
struct OpenDirectory {
    file: OwnedFd,
    mount: Option<u64>,
    /// User charged for root's files.
    owner_for_root: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DirectoryScan {
    /// All entries, if a listing is complete.
    pub(crate) listing: Option<Listing>,
    /// Entries that may have changed since the listing; `None` for a name without an entry.
    pub(crate) touched: Vec<(OsString, Option<DirectoryEntry>)>,
}

/// Delay before a directory that cannot be listed is tried again.
const RETRY: Duration = Duration::from_secs(1);

impl Directory {
    /// Creates the watch of the directory at `path`, which need not exist.
    pub(crate) fn new(path: PathBuf, limits: DirectoryLimits) -> Self {
        Self {
            path,
            limits,
            watch: None,
            next_scan: Duration::ZERO,
            scan: None,
            is_stale: true,
            moved_away: Default::default(),
            strangers: HashSet::new(),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a descriptor that is readable when the directory has changed; `None` while only
    /// listings show changes.
    pub(crate) fn watch(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().map(AsFd::as_fd)
    }

    /// Returns what may have changed in the directory since the last scan; `now` counts from the
    /// start, and `known` are names of files that were harvested. A directory that does not exist
    /// is empty.
    ///
    /// # Errors
    ///
    /// From the system, when the directory exists and cannot be read.
    pub(crate) fn scan<'a>(
        &mut self,
        now: Duration,
        known: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirectoryScan> {
        let look = self.read(now, known);
        if look.is_err() {
            self.scan = None;
            self.next_scan = now + RETRY;
        }
        look
    }

    fn read<'a>(
        &mut self,
        now: Duration,
        known: impl Iterator<Item = &'a OsStr>,
    ) -> io::Result<DirectoryScan> {
        let mut moved_here = HashSet::new();
        let was_stale = std::mem::take(&mut self.is_stale);
        let mut touched = self.drain(&mut moved_here);
        if self.is_stale {
            touched.extend(known.map(OsStr::to_owned));
        }
        self.is_stale |= was_stale;
        if self.scan.is_none() && (now >= self.next_scan || self.watch.is_none()) {
            if self.watch.is_none() {
                // Before the listing, so that nothing is missed between the two.
                self.watch = open_watch(&self.path).ok();
            }
            self.next_scan = now + SAFETY_SCAN;
            self.is_stale = false;
            let Some(directory) = self.open()? else {
                return Ok(DirectoryScan {
                    listing: Some(Listing::default()),
                    ..DirectoryScan::default()
                });
            };
            let entries = Dir::read_from(&directory.file)?;
            let collector = Collector::new(self.limits);
            let touched = HashSet::new();
            self.scan = Some(Scan { directory, entries, collector, touched });
        }
        let mut listing = None;
        if let Some(mut scan) = self.scan.take() {
            scan.touched.extend(touched.iter().cloned());
            if scan.read_slice(&self.strangers)? {
                // The listing may have seen these before they changed.
                touched = std::mem::take(&mut scan.touched);
                listing = Some(scan.collector.finish());
                self.next_scan = now + if self.is_stale { SCAN_PAUSE } else { SAFETY_SCAN };
            } else {
                self.scan = Some(scan);
            }
        } else if self.is_stale {
            self.next_scan = self.next_scan.min(now + SCAN_PAUSE);
        }
        let mut look = DirectoryScan { listing, touched: Vec::new() };
        if !touched.is_empty()
            && let Some(directory) = self.open()?
        {
            for name in touched {
                let mut found = directory.find(&name);
                if let Some(DirectoryEntry::File(file)) = &mut found {
                    if moved_here.contains(&name) && self.strangers.len() < MAX_STRANGERS {
                        self.strangers.extend((file.owner == ROOT).then_some(file.id));
                    }
                    file.disown(&self.strangers);
                }
                look.touched.push((name, found));
            }
        }
        Ok(look)
    }

    /// Returns true while a listing is in progress.
    pub(crate) fn is_listing(&self) -> bool {
        self.scan.is_some()
    }

    /// Returns when the next listing is due, if events were lost.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.is_stale.then_some(self.next_scan)
    }

    /// Opens the directory; `None` if there is none.
    fn open(&self) -> io::Result<Option<OpenDirectory>> {
        match open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        {
            Ok(directory) => OpenDirectory::new(directory).map(Some),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes all events, and returns their names and those of files that were moved here from
    /// another directory. A watch whose directory is gone is dropped.
    fn drain(&mut self, moved_here: &mut HashSet<OsString>) -> HashSet<OsString> {
        let mut names = HashSet::new();
        self.moved_away.swap(0, 1);
        self.moved_away[0].clear();
        let Some(watch) = &self.watch else { return names };
        loop {
            match watch.read_events() {
                Ok(events) => {
                    for event in events {
                        if event.mask.intersects(watch_end_flags()) {
                            self.watch = None;
                            self.is_stale = true;
                            return names;
                        }
                        self.is_stale |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                        if event.mask.contains(AddWatchFlags::IN_MOVED_FROM) {
                            self.moved_away[0].insert(event.cookie);
                        }
                        let is_from_here =
                            || self.moved_away.iter().any(|away| away.contains(&event.cookie));
                        if event.mask.contains(AddWatchFlags::IN_MOVED_TO) && !is_from_here() {
                            moved_here.extend(event.name.clone());
                        }
                        names.extend(event.name.filter(|name| !is_hidden(name.as_bytes())));
                    }
                }
                Err(Errno::EAGAIN) => return names,
                Err(Errno::EINTR) => {}
                Err(_) => {
                    self.watch = None;
                    self.is_stale = true;
                    return names;
                }
            }
        }
    }
}

impl Scan {
    /// Reads up to [`SLICE`] entries, and returns whether these were the last.
    fn read_slice(&mut self, strangers: &HashSet<FileId>) -> io::Result<bool> {
        for _ in 0..SLICE {
            let Some(entry) = self.entries.read() else { return Ok(true) };
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if is_hidden(name) {
                continue;
            }
            let name = OsString::from_vec(name.to_owned());
            match self.directory.find(&name) {
                Some(DirectoryEntry::File(mut file)) => {
                    file.disown(strangers);
                    self.collector.add(file);
                }
                Some(DirectoryEntry::Other(kind)) => self.collector.add_other(name, kind),
                // The entry is gone by now.
                None => {}
            }
        }
        Ok(false)
    }
}

fn is_hidden(name: &[u8]) -> bool {
    name.first() == Some(&b'.')
}

fn watch_end_flags() -> AddWatchFlags {
    AddWatchFlags::IN_IGNORED
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_UNMOUNT
}

fn open_watch(path: &Path) -> nix::Result<Inotify> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    let flags = AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MOVED_FROM
        | AddWatchFlags::IN_MOVED_TO
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
        | AddWatchFlags::IN_ONLYDIR;
    inotify.add_watch(path, flags)?;
    Ok(inotify)
}

/// Returns the attributes of an entry as far as they are known without asking the server of its
/// file system.
fn attributes(directory: impl AsFd, name: &OsStr) -> rustix::io::Result<Statx> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    let flags = if name.is_empty() { flags | AtFlags::EMPTY_PATH } else { flags };
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(directory, name, flags, wanted)
}

/// Returns the number of the mount that a file is reached by; `None` before Linux 5.8. Its device
/// would not do: the files of an overlay have those of its layers.
fn mount_id(found: &Statx) -> Option<u64> {
    let known = StatxFlags::from_bits_retain(found.stx_mask);
    known.contains(StatxFlags::MNT_ID).then_some(found.stx_mnt_id)
}

fn mount_of(directory: impl AsFd) -> io::Result<Option<u64>> {
    Ok(mount_id(&attributes(directory, OsStr::new(""))?))
}

impl OpenDirectory {
    fn new(file: OwnedFd) -> io::Result<Self> {
        let found = attributes(&file, OsStr::new(""))?;
        let mount = mount_id(&found);
        Ok(Self { file, mount, owner_for_root: owner_for_root(found.stx_uid, found.stx_mode) })
    }

    /// Looks up a name without following symbolic links: otherwise any process that may write here
    /// could make the agent read any file that the agent may read.
    fn find(&self, name: &OsStr) -> Option<DirectoryEntry> {
        let found = attributes(&self.file, name).ok()?;
        let file_type = FileType::from_raw_mode(found.stx_mode.into());
        Some(match file_type {
            _ if mount_id(&found) != self.mount => {
                DirectoryEntry::Other("on another file system, which is mounted there")
            }
            FileType::RegularFile => DirectoryEntry::File(ListedFile {
                name: name.to_owned(),
                id: id(&found),
                owner: if found.stx_uid == ROOT { self.owner_for_root } else { found.stx_uid },
                bytes: found.stx_blocks.saturating_mul(512),
            }),
            FileType::Symlink => DirectoryEntry::Other("a symbolic link, which is not followed"),
            FileType::Directory => DirectoryEntry::Other("a directory"),
            _ => DirectoryEntry::Other("not a regular file"),
        })
    }
}

impl ListedFile {
    /// Makes [`NOBODY`] the owner of root's file if others may have moved it here.
    fn disown(&mut self, strangers: &HashSet<FileId>) {
        if strangers.contains(&self.id) {
            self.owner = NOBODY;
        }
    }
}

/// Returns the user charged for root's files in a directory with this owner and mode. That is who
/// may rename files in it; nobody, if everybody may.
fn owner_for_root(owner: u32, mode: u16) -> u32 {
    const WRITABLE_FOR_OTHERS: u16 = 0o022;
    const STICKY: u16 = 0o1000;
    if owner != ROOT {
        owner
    } else if mode & WRITABLE_FOR_OTHERS != 0 && mode & STICKY == 0 {
        NOBODY
    } else {
        ROOT
    }
}

/// Returns the identity of a file, as [`FileId::new`] does.
fn id(found: &Statx) -> FileId {
    let is_known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let born = found.stx_btime;
    let seconds = u64::try_from(born.tv_sec).ok().filter(|_| is_known);
    FileId {
        device: makedev(found.stx_dev_major, found.stx_dev_minor),
        inode: found.stx_ino,
        born: seconds.map(|seconds| (seconds, born.tv_nsec)),
    }
}

/// Opens a file of the directory for reading. Never blocks (on a FIFO without a
/// writer, or on the server of a file system that is mounted on it), never follows a link, and
/// never gets a controlling terminal; the caller checks with `fstat` what was opened.
///
/// # Errors
///
/// From the system; [`io::ErrorKind::CrossesDevices`] for a file that something is mounted on.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, directory.unwrap_or(Path::new(".")), flags, Mode::empty())?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    open_in(&directory, name)
}

/// Opens a file in an open directory, as [`open_file`] does.
///
/// # Errors
///
/// As for [`open_file`].
pub(crate) fn open_in(directory: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS;
    match openat2(&directory, name, flags, Mode::empty(), resolve) {
        Ok(file) => Ok(file.into()),
        // Before Linux 5.6, or forbidden by a filter. A mount between the two calls is not
        // noticed.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            if mount_id(&attributes(&directory, name)?) != mount_of(&directory)? {
                return Err(io::ErrorKind::CrossesDevices.into());
            }
            Ok(openat(&directory, name, flags, Mode::empty())?.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Looks up the identity of a file in an open directory.
///
/// # Errors
///
/// From the system.
pub(crate) fn identity_in(directory: impl AsFd, name: &OsStr) -> io::Result<FileId> {
    Ok(id(&attributes(directory, name)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::{fs, iter};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LIMITS: DirectoryLimits = DirectoryLimits::new(100_000, 0);

    fn names(listing: &Listing) -> Vec<&str> {
        listing.files.iter().map(|listed| listed.name.to_str().unwrap()).collect()
    }

    /// Looks until a listing is complete.
    fn list(path: &Path) -> Listing {
        let mut directory = Directory::new(path.to_owned(), LIMITS);
        loop {
            let look = scan(&mut directory, Duration::ZERO);
            assert!(look.listing.is_some() || directory.is_listing());
            if let Some(listing) = look.listing {
                return listing;
            }
        }
    }

    fn scan(directory: &mut Directory, now: Duration) -> DirectoryScan {
        directory.scan(now, iter::empty()).unwrap()
    }

    fn touched(look: &DirectoryScan) -> Vec<(&str, bool)> {
        assert_eq!(look.listing, None);
        let names = look.touched.iter();
        let mut names: Vec<_> =
            names.map(|(name, found)| (name.to_str().unwrap(), found.is_some())).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn only_regular_files_without_a_dot_are_listed_in_byte_order() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "B", ".hidden", "\u{e4}"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("directory")).unwrap();
        symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(names(&list(dir.path())), ["B", "a", "b", "\u{e4}"]);
        let mut others = list(dir.path()).others;
        others.sort();
        assert_eq!(
            others.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            ["directory", "fifo", "link"]
        );
        assert!(!open_file(&fifo).unwrap().metadata().unwrap().is_file());
        assert!(open_file(&dir.path().join("link")).is_err());
    }

    #[test]
    fn root_has_no_precedence_where_others_rename_its_files() {
        assert_eq!(owner_for_root(ROOT, 0o41755), ROOT);
        assert_eq!(owner_for_root(ROOT, 0o41777), ROOT);
        assert_eq!(owner_for_root(ROOT, 0o40777), NOBODY);
        assert_eq!(owner_for_root(ROOT, 0o40775), NOBODY);
        assert_eq!(owner_for_root(1000, 0o41777), 1000);
    }

    #[test]
    fn a_file_of_root_that_was_moved_here_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let own = fs::metadata(dir.path()).unwrap().uid();
        let mut directory = Directory::new(dir.path().to_owned(), LIMITS);
        scan(&mut directory, SECOND);
        for (name, from) in [("made", &dir), ("moved", &other)] {
            fs::write(from.path().join(".new"), name).unwrap();
            fs::rename(from.path().join(".new"), dir.path().join(name)).unwrap();
        }
        let touched = scan(&mut directory, SECOND).touched;
        let mut owners = Vec::new();
        for (name, found) in &touched {
            let Some(DirectoryEntry::File(file)) = found else { panic!("{found:?}") };
            owners.push((name.to_str().unwrap(), file.owner));
        }
        owners.sort_unstable();
        let disowned = if own == ROOT { NOBODY } else { own };
        assert_eq!(owners, [("made", own), ("moved", disowned)]);
        let listing = scan(&mut directory, SECOND + SAFETY_SCAN).listing.unwrap();
        let owners: Vec<_> = listing.files.iter().map(|file| file.owner).collect();
        assert_eq!(owners, [own, disowned]);
    }

    #[test]
    fn files_are_the_same_listed_and_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "text").unwrap();
        let listing = list(dir.path());
        let [listed] = &*listing.files else { panic!("{listing:?}") };
        let opened = open_file(&path).unwrap().metadata().unwrap();
        assert_eq!(listed.id, FileId::new(&opened));
        assert_eq!((listed.owner, listed.bytes), (opened.uid(), opened.blocks() * 512));
        let directory = File::open(dir.path()).unwrap();
        assert_eq!(identity_in(&directory, "a".as_ref()).unwrap(), listed.id);
    }

    #[test]
    fn scan_reports_changes_and_lists_only_when_due() {
        let dir = tempfile::tempdir().unwrap();
        let mut directory = Directory::new(dir.path().to_owned(), LIMITS);
        assert!(scan(&mut directory, Duration::ZERO).listing.is_some());
        assert_eq!(touched(&scan(&mut directory, SECOND)), []);
        for name in ["a", ".hidden"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(touched(&scan(&mut directory, SECOND)), [("a", true)]);
        assert_eq!(touched(&scan(&mut directory, SECOND)), []);
        fs::rename(dir.path().join("a"), dir.path().join("b")).unwrap();
        assert_eq!(touched(&scan(&mut directory, SECOND)), [("a", false), ("b", true)]);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert_eq!(touched(&scan(&mut directory, SECOND)), [("b", false)]);
        assert_eq!(directory.due(), None);
        let listing = scan(&mut directory, SECOND + SAFETY_SCAN).listing;
        assert_eq!(listing, Some(Listing::default()));
    }

    #[test]
    fn a_large_directory_is_listed_in_slices_and_delays_no_event() {
        const FILES: usize = 3 * SLICE;
        let dir = tempfile::tempdir().unwrap();
        for number in 0..FILES {
            fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let mut directory = Directory::new(dir.path().to_owned(), LIMITS);
        scan(&mut directory, Duration::ZERO);
        assert!(directory.is_listing());
        fs::remove_file(dir.path().join("0")).unwrap();
        fs::write(dir.path().join("new"), "").unwrap();
        let look = scan(&mut directory, SECOND);
        assert!(directory.is_listing() && look.listing.is_none());
        let mut seen: Vec<_> = look.touched.iter().map(|(name, _)| name).collect();
        seen.sort_unstable();
        assert_eq!(seen, ["0", "new"]);
        let last = loop {
            let look = scan(&mut directory, SECOND);
            if !directory.is_listing() {
                break look;
            }
        };
        // The listing may have either state of a file that has changed meanwhile.
        let count = last.listing.unwrap().files.len();
        assert!((FILES - 1..=FILES + 1).contains(&count), "{count}");
        assert_eq!(last.touched.len(), 2);
    }

    #[test]
    fn lost_events_lead_to_a_listing_soon() {
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        if limit > 100_000 {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let mut directory = Directory::new(dir.path().to_owned(), LIMITS);
        assert!(scan(&mut directory, Duration::ZERO).listing.is_some());
        let one = dir.path().join("one");
        let other = dir.path().join("other");
        fs::write(&one, "").unwrap();
        for _ in 0..=limit / 4 {
            fs::rename(&one, &other).unwrap();
            fs::rename(&other, &one).unwrap();
        }
        for name in ["lost", "returning"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        let known = ["gone", "returning"].map(OsStr::new);
        let look = directory.scan(SECOND, known.into_iter()).unwrap();
        let states = [("gone", false), ("one", true), ("other", false), ("returning", true)];
        assert_eq!(touched(&look), states, "known names wait for no listing");
        let due = directory.due().unwrap();
        assert_eq!(due, SECOND + SCAN_PAUSE);
        let listing = scan(&mut directory, due).listing.unwrap();
        assert_eq!(names(&listing), ["lost", "one", "returning"]);
        assert_eq!(directory.due(), None);
    }

    #[test]
    fn a_directory_may_come_go_and_come_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mmv");
        let mut directory = Directory::new(path.clone(), LIMITS);
        let empty = Some(Listing::default());
        assert_eq!(scan(&mut directory, SECOND).listing, empty);
        for _ in 0..2 {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("a"), "").unwrap();
            assert_eq!(names(&scan(&mut directory, SECOND).listing.unwrap()), ["a"]);
            fs::remove_dir_all(&path).unwrap();
            assert_eq!(scan(&mut directory, SECOND).listing, empty);
        }
    }
}
