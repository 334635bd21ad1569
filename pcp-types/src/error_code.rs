//! Error codes as PCP stores them in archives (`PM_ERR_*`, `<pcp/pmapi.h>`).

use std::fmt;

/// The base from which PCP counts its codes down: `PM_ERR_BASE2`.
const BASE: i32 = -12345;

/// A negative number in place of a value count: why a metric has no values.
///
/// Codes from -1 to about -200 are negated system `errno` values, codes from
/// -12345 down are PCP's own. Prints the name where there is one
/// (`PM_ERR_VALUE`, `ENOENT`), else the number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(i32);

/// n (code = -12345 - n), name without its prefix, meaning.
const CODES: &[(i32, &str, &str)] = &[
    (0, "GENERIC", "generic error, the cause is already reported"),
    (1, "PMNS", "problems parsing the name space"),
    (2, "NOPMNS", "the name space is not accessible"),
    (3, "DUPPMNS", "the name space is loaded already"),
    (4, "TEXT", "one-line or help text is not available"),
    (5, "APPVERSION", "metric not supported by this version of the application"),
    (6, "VALUE", "missing metric value"),
    (8, "TIMEOUT", "timeout waiting for a response"),
    (9, "NODATA", "empty archive file"),
    (10, "RESET", "agent or configuration was reset"),
    (12, "NAME", "unknown metric name"),
    (13, "PMID", "unknown or illegal metric identifier"),
    (14, "INDOM", "unknown or illegal instance domain identifier"),
    (15, "INST", "unknown or illegal instance identifier"),
    (16, "UNIT", "illegal units specification"),
    (17, "CONV", "impossible value or scale conversion"),
    (18, "TRUNC", "truncation in value conversion"),
    (19, "SIGN", "negative value in conversion to unsigned"),
    (20, "PROFILE", "explicit instance identifiers required"),
    (21, "IPC", "protocol failure"),
    (23, "EOF", "end of connection"),
    (24, "NOTHOST", "operation requires a context of a host"),
    (25, "EOL", "end of archive"),
    (26, "MODE", "illegal mode specification"),
    (27, "LABEL", "illegal label record in an archive file"),
    (28, "LOGREC", "corrupted record in an archive"),
    (29, "NOTARCHIVE", "operation requires a context of an archive"),
    (30, "LOGFILE", "missing archive file"),
    (31, "NOCONTEXT", "use of an illegal context"),
    (32, "PROFILESPEC", "null domain with non-null instances"),
    (33, "PMID_LOG", "metric not defined in the archive"),
    (34, "INDOM_LOG", "instance domain not defined in the archive"),
    (35, "INST_LOG", "instance not defined in the archive"),
    (36, "NOPROFILE", "missing profile"),
    (41, "NOAGENT", "no agent for the domain"),
    (42, "PERMISSION", "no permission for the operation"),
    (43, "CONNLIMIT", "connection limit reached"),
    (44, "AGAIN", "information not available now, try again"),
    (45, "ISCONN", "already connected"),
    (46, "NOTCONN", "not connected"),
    (47, "NEEDPORT", "a port name is required"),
    (49, "NONLEAF", "the name is not a leaf of the name space"),
    (52, "TYPE", "unknown or illegal metric type"),
    (53, "THREAD", "operation not supported for several threads"),
    (54, "NOCONTAINER", "the container does not exist"),
    (55, "BADSTORE", "bad input to a store operation"),
    (56, "LOGOVERLAP", "archives overlap in time"),
    (57, "LOGHOST", "archives are of different hosts"),
    (59, "LOGCHANGETYPE", "the metric's type changed in the archive"),
    (60, "LOGCHANGESEM", "the metric's semantics changed in the archive"),
    (61, "LOGCHANGEINDOM", "the metric's instance domain changed in the archive"),
    (62, "LOGCHANGEUNITS", "the metric's units changed in the archive"),
    (63, "NEEDCLIENTCERT", "a client certificate is required"),
    (64, "BADDERIVE", "the definition of the derived metric failed"),
    (65, "NOLABELS", "no labels"),
    (66, "PMDAFENCED", "the agent is fenced"),
    (67, "RECTYPE", "incorrect record type in an archive"),
    (68, "FEATURE", "archive feature not supported"),
    (69, "TLS", "failure of the TLS protocol"),
    (70, "ARG", "illegal argument"),
    (97, "BOTCH", "internal inconsistency"),
    (98, "TOOSMALL", "insufficient elements"),
    (99, "TOOBIG", "result size exceeded"),
    (100, "FAULT", "injected fault"),
    (1048, "PMDAREADY", "the agent is now ready"),
    (1049, "PMDANOTREADY", "the agent is not yet ready"),
    (8999, "NYI", "not implemented"),
];

/// The names of the system's error numbers from 1 on, as on Linux; empty where there is none.
const SYSTEM: [&str; 133] = [
    "EPERM",
    "ENOENT",
    "ESRCH",
    "EINTR",
    "EIO",
    "ENXIO",
    "E2BIG",
    "ENOEXEC",
    "EBADF",
    "ECHILD",
    "EAGAIN",
    "ENOMEM",
    "EACCES",
    "EFAULT",
    "ENOTBLK",
    "EBUSY",
    "EEXIST",
    "EXDEV",
    "ENODEV",
    "ENOTDIR",
    "EISDIR",
    "EINVAL",
    "ENFILE",
    "EMFILE",
    "ENOTTY",
    "ETXTBSY",
    "EFBIG",
    "ENOSPC",
    "ESPIPE",
    "EROFS",
    "EMLINK",
    "EPIPE",
    "EDOM",
    "ERANGE",
    "EDEADLK",
    "ENAMETOOLONG",
    "ENOLCK",
    "ENOSYS",
    "ENOTEMPTY",
    "ELOOP",
    "",
    "ENOMSG",
    "EIDRM",
    "ECHRNG",
    "EL2NSYNC",
    "EL3HLT",
    "EL3RST",
    "ELNRNG",
    "EUNATCH",
    "ENOCSI",
    "EL2HLT",
    "EBADE",
    "EBADR",
    "EXFULL",
    "ENOANO",
    "EBADRQC",
    "EBADSLT",
    "",
    "EBFONT",
    "ENOSTR",
    "ENODATA",
    "ETIME",
    "ENOSR",
    "ENONET",
    "ENOPKG",
    "EREMOTE",
    "ENOLINK",
    "EADV",
    "ESRMNT",
    "ECOMM",
    "EPROTO",
    "EMULTIHOP",
    "EDOTDOT",
    "EBADMSG",
    "EOVERFLOW",
    "ENOTUNIQ",
    "EBADFD",
    "EREMCHG",
    "ELIBACC",
    "ELIBBAD",
    "ELIBSCN",
    "ELIBMAX",
    "ELIBEXEC",
    "EILSEQ",
    "ERESTART",
    "ESTRPIPE",
    "EUSERS",
    "ENOTSOCK",
    "EDESTADDRREQ",
    "EMSGSIZE",
    "EPROTOTYPE",
    "ENOPROTOOPT",
    "EPROTONOSUPPORT",
    "ESOCKTNOSUPPORT",
    "EOPNOTSUPP",
    "EPFNOSUPPORT",
    "EAFNOSUPPORT",
    "EADDRINUSE",
    "EADDRNOTAVAIL",
    "ENETDOWN",
    "ENETUNREACH",
    "ENETRESET",
    "ECONNABORTED",
    "ECONNRESET",
    "ENOBUFS",
    "EISCONN",
    "ENOTCONN",
    "ESHUTDOWN",
    "ETOOMANYREFS",
    "ETIMEDOUT",
    "ECONNREFUSED",
    "EHOSTDOWN",
    "EHOSTUNREACH",
    "EALREADY",
    "EINPROGRESS",
    "ESTALE",
    "EUCLEAN",
    "ENOTNAM",
    "ENAVAIL",
    "EISNAM",
    "EREMOTEIO",
    "EDQUOT",
    "ENOMEDIUM",
    "EMEDIUMTYPE",
    "ECANCELED",
    "ENOKEY",
    "EKEYEXPIRED",
    "EKEYREVOKED",
    "EKEYREJECTED",
    "EOWNERDEAD",
    "ENOTRECOVERABLE",
    "ERFKILL",
    "EHWPOISON",
];

impl ErrorCode {
    /// End of archive (`PM_ERR_EOL`).
    pub const EOL: Self = Self(BASE - 25);
    /// Illegal label record (`PM_ERR_LABEL`).
    pub const LABEL: Self = Self(BASE - 27);
    /// Corrupted record (`PM_ERR_LOGREC`).
    pub const LOGREC: Self = Self(BASE - 28);
    /// Metric not defined in the archive (`PM_ERR_PMID_LOG`).
    pub const PMID_LOG: Self = Self(BASE - 33);
    /// Instance domain not defined in the archive (`PM_ERR_INDOM_LOG`).
    pub const INDOM_LOG: Self = Self(BASE - 34);
    /// Missing value (`PM_ERR_VALUE`).
    pub const VALUE: Self = Self(BASE - 6);
    /// Try again (`PM_ERR_AGAIN`).
    pub const AGAIN: Self = Self(BASE - 44);
    /// Illegal type (`PM_ERR_TYPE`).
    pub const TYPE: Self = Self(BASE - 52);

    /// Returns the code of a stored number; `None` unless it is negative.
    pub const fn new(code: i32) -> Option<Self> {
        if code < 0 { Some(Self(code)) } else { None }
    }

    /// Returns the stored number.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns the code of a name such as `PM_ERR_EOL` or `ENOENT`.
    pub fn from_name(name: &str) -> Option<Self> {
        let Some(short) = name.strip_prefix("PM_ERR_") else {
            let number = 1 + SYSTEM.iter().position(|known| !name.is_empty() && *known == name)?;
            return Some(Self(-i32::try_from(number).ok()?));
        };
        CODES.iter().find(|(_, name, _)| *name == short).map(|(n, _, _)| Self(BASE - n))
    }

    /// Returns the name after `PM_ERR_`, for the codes that PCP defines.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|(_, name, _)| *name)
    }

    /// Returns the meaning of the code, for the codes that PCP defines.
    pub fn meaning(self) -> Option<&'static str> {
        self.entry().map(|(_, _, meaning)| *meaning)
    }

    /// Returns the name of a system error, `ENOENT` for -2; `None` for other codes.
    pub fn system_name(self) -> Option<&'static str> {
        let number = usize::try_from(self.0.checked_neg()?).ok()?;
        SYSTEM.get(number.checked_sub(1)?).copied().filter(|name| !name.is_empty())
    }

    /// Returns the text of a system error in the words of the C library (strerror(3)), which
    /// PCP's programs print: `No such file or directory` for -2. `None` for other codes.
    pub fn system_text(self) -> Option<String> {
        self.system_name()?;
        let text = std::io::Error::from_raw_os_error(self.0.checked_neg()?).to_string();
        Some(text.split_once(" (os error").map_or(text.as_str(), |(text, _)| text).to_owned())
    }

    fn entry(self) -> Option<&'static (i32, &'static str, &'static str)> {
        let n = BASE.checked_sub(self.0)?;
        CODES.get(CODES.binary_search_by_key(&n, |(n, _, _)| *n).ok()?)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.system_name()) {
            (Some(name), _) => write!(f, "PM_ERR_{name}"),
            (None, Some(name)) => f.write_str(name),
            (None, None) => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorCode({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_stored_in_archives() {
        for (code, name) in [
            (-12345, "PM_ERR_GENERIC"),
            (-12399, "PM_ERR_NOCONTAINER"),
            (-12414, "PM_ERR_TLS"),
            (-12350, "PM_ERR_APPVERSION"),
            (-12365, "PM_ERR_PROFILE"),
            (-12370, "PM_ERR_EOL"),
            (-12378, "PM_ERR_PMID_LOG"),
            (-12379, "PM_ERR_INDOM_LOG"),
            (-12389, "PM_ERR_AGAIN"),
            (-12413, "PM_ERR_FEATURE"),
            (-21344, "PM_ERR_NYI"),
        ] {
            let error = ErrorCode::new(code).unwrap();
            assert_eq!(error.to_string(), name);
            assert_eq!(ErrorCode::from_name(name), Some(error));
        }
    }

    #[test]
    fn system_errors_have_the_name_and_the_text_of_the_system() {
        for (code, name, text) in [
            (-1, "EPERM", "Operation not permitted"),
            (-2, "ENOENT", "No such file or directory"),
            (-11, "EAGAIN", "Resource temporarily unavailable"),
            (-110, "ETIMEDOUT", "Connection timed out"),
            (-133, "EHWPOISON", "Memory page has hardware error"),
        ] {
            let error = ErrorCode::new(code).unwrap();
            assert_eq!(error.to_string(), name);
            assert_eq!(error.system_text().as_deref(), Some(text));
            assert_eq!(ErrorCode::from_name(name), Some(error));
        }
        assert_eq!(ErrorCode::VALUE.system_text(), None);
        assert_eq!(ErrorCode::new(-200).unwrap().system_text(), None);
    }

    #[test]
    fn the_table_is_sorted_so_that_the_search_finds_every_code() {
        for (n, name, meaning) in CODES {
            let error = ErrorCode::new(BASE - n).unwrap();
            assert_eq!(error.name(), Some(*name));
            assert_eq!(error.meaning(), Some(*meaning));
        }
    }

    #[test]
    fn unknown_codes_keep_their_number() {
        assert_eq!(ErrorCode::new(-41).unwrap().to_string(), "-41");
        assert_eq!(ErrorCode::new(-200).unwrap().to_string(), "-200");
        assert_eq!(ErrorCode::from_name(""), None);
        assert_eq!(ErrorCode::new(i32::MIN).unwrap().to_string(), i32::MIN.to_string());
        assert_eq!(ErrorCode::new(0), None);
        assert_eq!(ErrorCode::new(1), None);
    }
}
