//! The URL and the credentials of a receiver.
//!
//! A URL appears on the command line, in logs and in process lists, so it must not contain secrets:
//! they come from files.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use ureq::http::Uri;

const MAX_SECRET: u64 = 64 << 10;
/// Limit on the size of a file of certificates, larger than the list of any system.
const MAX_CERTIFICATES: u64 = 16 << 20;

/// Paths at which systems store the certificates of authorities.
const SYSTEM_CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A URL that requests can go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target(Uri);

impl Target {
    /// Returns whether connections are encrypted.
    pub(super) fn is_tls(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    pub(crate) const fn uri(&self) -> &Uri {
        &self.0
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("not a URL: {error}"))?;
        let authority =
            uri.authority().ok_or("the URL has no host, as in http://127.0.0.1:9090/")?;
        if authority.as_str().contains('@') {
            return Err("the URL must not contain credentials, which others can see; use \
                        --password-file or --bearer-token-file"
                .to_owned());
        }
        match uri.scheme_str() {
            Some("http" | "https") => Ok(Self(uri)),
            _ => Err("the URL must begin with http:// or https://".to_owned()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    /// The file is longer than any secret or certificate.
    #[error("{}: longer than {limit} bytes", path.display())]
    TooLong { path: PathBuf, limit: u64 },
    /// The file has no secret that is valid in a header.
    #[error("{}: not a secret: expected one line of printable ASCII characters", path.display())]
    NotPrintable { path: PathBuf },
    /// The file contains no certificate.
    #[error("{}: no certificate in the file (expected PEM)", path.display())]
    NoCertificate { path: PathBuf },
    /// The system has none of the usual files of certificates.
    #[error("this system has no CA certificates; use --ca-file")]
    NoSystemCertificates,
}

/// Credentials for the header `Authorization`.
pub(crate) enum Authorization {
    /// A file with a token.
    Bearer(PathBuf),
    /// A user name, and a file with the password.
    Basic(String, PathBuf),
}

impl Authorization {
    pub(super) fn header(&self) -> Result<String, SecretError> {
        match self {
            Self::Bearer(path) => Ok(format!("Bearer {}", secret(path)?)),
            Self::Basic(user, path) => {
                let pair = format!("{user}:{}", secret(path)?);
                let encoded = base64::engine::general_purpose::STANDARD.encode(pair);
                Ok(format!("Basic {encoded}"))
            }
        }
    }
}

fn secret(path: &Path) -> Result<String, SecretError> {
    let bytes = read(path, MAX_SECRET)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() || text.chars().any(char::is_control) || !text.is_ascii() {
        return Err(SecretError::NotPrintable { path: path.to_owned() });
    }
    Ok(text.to_owned())
}

/// Reads the certificates of authorities to trust, from a file or those of the system.
pub(super) fn certificates(
    file: Option<&Path>,
) -> Result<Vec<ureq::tls::Certificate<'static>>, SecretError> {
    let mut system_files = SYSTEM_CERTIFICATES.iter().map(Path::new);
    let path = file
        .or_else(|| system_files.find(|path| path.exists()))
        .ok_or(SecretError::NoSystemCertificates)?;
    let bytes = read(path, MAX_CERTIFICATES)?;
    let certificates: Vec<_> = ureq::tls::parse_pem(&bytes)
        .filter_map(|item| match item {
            Ok(ureq::tls::PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        return Err(SecretError::NoCertificate { path: path.to_owned() });
    }
    Ok(certificates)
}

fn read(path: &Path, limit: u64) -> Result<Vec<u8>, SecretError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(limit + 1).read_to_end(&mut bytes))
        .map_err(|source| SecretError::Io { path: path.to_owned(), source })?;
    if bytes.len() as u64 > limit {
        return Err(SecretError::TooLong { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_no_credentials() {
        for (url, is_fine) in [
            ("http://127.0.0.1:9090/api/v1/write", true),
            ("https://example.org", true),
            ("http://[::1]:80/", true),
            ("http://user:secret@127.0.0.1/", false),
            ("http://token@127.0.0.1/", false),
            ("ftp://127.0.0.1/", false),
            ("/api/v1/write", false),
            ("127.0.0.1:9090", false),
            ("", false),
        ] {
            assert_eq!(url.parse::<Target>().is_ok(), is_fine, "{url}");
        }
        let error = "http://user:secret@127.0.0.1/".parse::<Target>().unwrap_err();
        assert!(!error.contains("secret@"), "{error}");
    }

    #[test]
    fn secrets_are_one_line_of_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        let header = |content: &[u8]| {
            std::fs::write(&path, content).unwrap();
            Authorization::Bearer(path.clone()).header()
        };
        assert_eq!(header(b"abc\n").unwrap(), "Bearer abc");
        assert!(matches!(header(b"a\r\nX: b\n"), Err(SecretError::NotPrintable { .. })));
        assert!(matches!(header(b"\n"), Err(SecretError::NotPrintable { .. })));
        assert!(matches!(header(&vec![b'a'; 70_000]), Err(SecretError::TooLong { .. })));
        std::fs::write(&path, "open sesame").unwrap();
        let basic = Authorization::Basic("Aladdin".to_owned(), path.clone());
        assert_eq!(basic.header().unwrap(), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        let missing = Authorization::Bearer(directory.path().join("none")).header();
        assert!(matches!(missing, Err(SecretError::Io { .. })));
    }
}
