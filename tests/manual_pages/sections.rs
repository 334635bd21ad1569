//! The sections of manual pages that the definition of a command line does not have: variables of
//! the environment, files, other pages.

pub(super) type Entry<'a> = (&'a str, &'a str);

/// Pages, and what each of them has.
type Of<T> = (&'static [&'static str], T);

/// The commands that read archives of which one may be `@`.
const READERS: &[&str] = &[
    "mmv-archive",
    "mmv-archive-check",
    "mmv-archive-convert",
    "mmv-archive-dump",
    "mmv-archive-events",
    "mmv-archive-extract",
    "mmv-archive-follow",
    "mmv-archive-info",
    "mmv-archive-metrics",
    "mmv-archive-plot",
    "mmv-archive-report",
    "mmv-archive-snapshot",
    "mmv-archive-summary",
    "mmv-archive-view",
    "mmv-export-mapping",
    "mmv-export-parquet",
    "mmv-export-push",
    "mmv-export-serve",
];

/// The commands that read or print times of the local zone.
const CLOCKS: &[&str] = &[
    "mmv-archive-convert",
    "mmv-archive-dump",
    "mmv-archive-events",
    "mmv-archive-extract",
    "mmv-archive-follow",
    "mmv-archive-info",
    "mmv-archive-plot",
    "mmv-archive-report",
    "mmv-archive-snapshot",
    "mmv-archive-summary",
    "mmv-archive-view",
    "mmv-export-parquet",
];

/// The commands that choose the directory of MMV files.
const MMV: &[&str] = &["mmv-agent-run", "mmv-agent-check-config", "mmv-agent-inspect"];

const CLIENTS: &[&str] = &["mmv-agent-status", "mmv-agent-capture"];

/// The commands with tables as wide as the terminal.
const TABLES: &[&str] =
    &["mmv-archive-follow", "mmv-archive-plot", "mmv-archive-report", "mmv-archive-summary"];

/// Variables that commands read.
const ENVIRONMENT: &[Of<Entry<'static>>] = &[
    (MMV, ("PCP_TMP_DIR", "MMV files are in its subdirectory mmv.")),
    (MMV, ("PCP_CONF", "The file that has PCP_TMP_DIR where the environment has none.")),
    (MMV, ("PCP_DIR", "Where neither is set, the directory with etc/pcp.conf.")),
    (&["mmv-agent-record"], ("PCP_TMP_DIR", "Set for the command, to a directory of this run.")),
    (
        &["mmv-export-push"],
        ("PCP_TMP_DIR", "With --metrics, its subdirectory mmv has the file of these metrics."),
    ),
    (
        MMV,
        (
            "XDG_RUNTIME_DIR",
            "MMV files and sockets of users who may not write to the system's directories; if it \
             is not set, /run/user/UID.",
        ),
    ),
    (CLIENTS, ("XDG_RUNTIME_DIR", "Where the sockets of a user's agent are.")),
    (
        MMV,
        ("XDG_STATE_HOME", "Archives of users other than root; if it is not set, ~/.local/state."),
    ),
    (CLIENTS, ("XDG_STATE_HOME", "Archives of a user's agent; if it is not set, ~/.local/state.")),
    (
        READERS,
        (
            "XDG_STATE_HOME",
            "Where @ finds the archives of a user's agent; if it is not set, ~/.local/state.",
        ),
    ),
    (
        &["mmv-agent-run"],
        (
            "LOGS_DIRECTORY, STATE_DIRECTORY, RUNTIME_DIRECTORY",
            "Directories for archives, state file and sockets, as systemd sets them for a unit.",
        ),
    ),
    (
        &["mmv-agent-run"],
        (
            "NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID",
            "How the service manager is told that the agent runs; see sd_notify(3).",
        ),
    ),
    (
        &["mmv-agent-run"],
        ("JOURNAL_STREAM", "If it is standard error, log lines begin with their priority."),
    ),
    (
        &["mmv-agent-record", "mmv-agent-demo"],
        ("TMPDIR", "The directory for temporary files; if it is not set, /tmp."),
    ),
    (
        &["mmv-agent-demo"],
        ("PATH", "Where mmv-archive and pmrep are looked for, to print commands that work."),
    ),
    (TABLES, ("COLUMNS", "The width of tables and plots, in place of that of the terminal.")),
    (
        &["mmv-archive-plot"],
        ("LINES", "The height of plots without a file, in place of that of the terminal."),
    ),
    (&["mmv-archive-plot"], ("NO_COLOR", "If it is set and not empty, plots have no colors.")),
    (CLOCKS, ("TZ", "The local time zone, in place of that of /etc/localtime.")),
];

const FILES: &[Of<Entry<'static>>] = &[
    (
        &["mmv-agent", "mmv-agent-run", "mmv-agent-check-config"],
        ("/etc/mmv-agent/agent.toml", "The configuration of the service; it has every key."),
    ),
    (
        &["mmv-agent", "mmv-agent-run", "mmv-agent-inspect"],
        ("/var/lib/pcp/tmp/mmv", "MMV files of the system's programs."),
    ),
    (
        &["mmv-agent-run", "mmv-agent-check-config", "mmv-agent-inspect"],
        ("/etc/pcp.conf", "PCP_TMP_DIR, where no variable of the environment names it."),
    ),
    (
        &["mmv-agent", "mmv-agent-run"],
        ("/var/log/mmv-agent/HOST", "Archives of the system's agent."),
    ),
    (
        &["mmv-agent", "mmv-agent-run"],
        ("~/.local/state/mmv-agent/archives/HOST", "Archives of a user's agent."),
    ),
    (
        &["mmv-agent-run"],
        (
            "/var/lib/mmv-agent/HOST.json",
            "What the service remembers between runs; other agents have it in .state of the \
             directory for archives.",
        ),
    ),
    (
        &["mmv-agent-run", "mmv-agent-status", "mmv-agent-capture"],
        ("/run/mmv-agent", "Status socket and flight recorder of the service."),
    ),
    (READERS, ("BASE.0, BASE.1, ...", "Data volumes of an archive, which may be compressed.")),
    (READERS, ("BASE.meta, BASE.index", "Its metadata and its temporal index.")),
    (
        READERS,
        (
            "/var/log/mmv-agent, ~/.local/state/mmv-agent/archives",
            "Archives of the system's agent and of a user's: @ stands for the directory with the \
             newest file.",
        ),
    ),
    (
        &["mmv-archive-repair"],
        ("BASE.0, BASE.1, ...", "Data volumes of an archive, which may be compressed."),
    ),
    (&["mmv-archive-repair"], ("BASE.meta, BASE.index", "Its metadata and its temporal index.")),
    (
        &["mmv-export", "mmv-export-mapping", "mmv-export-parquet", "mmv-export-push"],
        ("/var/log/mmv-agent/HOST", "Archives of an agent, a directory for each host."),
    ),
    (&["mmv-export-serve"], ("/var/log/mmv-agent/HOST", "The archives that the service reads.")),
    (
        &["mmv-export-parquet"],
        (
            "DIR/TABLE/host=HOST/date=DATE/part-ARCHIVE-N.parquet",
            "Rows of a table; see docs/engines/parquet.md.",
        ),
    ),
    (
        &["mmv-export-push"],
        ("DIR/HOST.json", "In the directory of --state, the position up to which HOST was sent."),
    ),
    (
        &["mmv-export-push"],
        ("/etc/mmv-export/push.conf", "Options of the service mmv-export-push."),
    ),
    (
        &["mmv-export-push"],
        (
            "/etc/ssl/certs/ca-certificates.crt, /etc/pki/tls/certs/ca-bundle.crt, \
             /etc/ssl/ca-bundle.pem, /etc/ssl/cert.pem",
            "Authorities to trust without --ca-file: the first of these that exists.",
        ),
    ),
];

/// Pages of programs that do the same, and of formats.
const RELATED: &[Of<&[&str]>] = &[
    (&["mmv-agent", "mmv-agent-run"], &["mmv-archive(1)", "pmlogger(1)", "pmdammv(1)", "mmv(5)"]),
    (&["mmv-agent-record", "mmv-agent-demo", "mmv-agent-capture"], &["mmv-archive(1)"]),
    (&["mmv-agent-inspect"], &["mmv(5)"]),
    (&["mmv-archive"], &["mmv-agent(1)", "mmv-export(1)", "PCPIntro(1)", "LOGARCHIVE(5)"]),
    (&["mmv-archive-check"], &["pmlogcheck(1)"]),
    (&["mmv-archive-convert"], &["pmlogrewrite(1)"]),
    (&["mmv-archive-dump"], &["pmdumplog(1)", "LOGARCHIVE(5)"]),
    (&["mmv-archive-events"], &["pmevent(1)"]),
    (&["mmv-archive-extract"], &["pmlogextract(1)"]),
    (&["mmv-archive-info"], &["pmdumplog(1)"]),
    (&["mmv-archive-metrics"], &["pminfo(1)"]),
    (&["mmv-archive-plot"], &["pmchart(1)"]),
    (&["mmv-archive-report"], &["pmrep(1)", "pmval(1)", "pmRegisterDerived(3)"]),
    (&["mmv-archive-summary"], &["pmlogsummary(1)"]),
    (&["mmv-export"], &["mmv-agent(1)", "mmv-archive(1)"]),
];

const DOCUMENTS: &[Of<&[&str]>] = &[
    (&["mmv-agent"], &["docs/tutorial.md", "docs/operators.md", "docs/glossary.md"]),
    (&["mmv-archive"], &["docs/tutorial.md", "docs/view.md", "docs/glossary.md"]),
    (&["mmv-export"], &["docs/export-mapping.md", "docs/engines", "docs/fleet.md"]),
];

pub(super) fn environment(page: &str) -> Vec<Entry<'static>> {
    of(ENVIRONMENT, page).collect()
}

pub(super) fn files(page: &str) -> Vec<Entry<'static>> {
    of(FILES, page).collect()
}

pub(super) fn related(page: &str) -> &'static [&'static str] {
    of(RELATED, page).next().unwrap_or_default()
}

pub(super) fn documents(program: &str) -> &'static [&'static str] {
    of(DOCUMENTS, program).next().unwrap_or_default()
}

pub(super) fn pages() -> impl Iterator<Item = &'static str> {
    let lists = ENVIRONMENT.iter().chain(FILES).map(|(pages, _)| *pages);
    lists.chain(RELATED.iter().map(|(pages, _)| *pages)).flatten().copied()
}

pub(super) fn variables() -> impl Iterator<Item = &'static str> {
    ENVIRONMENT.iter().flat_map(|(_, (names, _))| names.split(", "))
}

fn of<T: Copy>(table: &'static [Of<T>], page: &str) -> impl Iterator<Item = T> {
    let entries = table.iter().filter(move |(pages, _)| pages.contains(&page));
    entries.map(|(_, entry)| *entry).collect::<Vec<_>>().into_iter()
}
