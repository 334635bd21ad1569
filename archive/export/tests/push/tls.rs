//! Receivers behind TLS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::sender::{Sent, messages};

/// Makes a certificate for a host and its key; `None`, with a message, without openssl.
fn certificate(place: &Path, name: &str, host: &str) -> Option<(PathBuf, PathBuf)> {
    let [config, certificate, key] =
        ["conf", "pem", "key"].map(|end| place.join(name).with_extension(end));
    let text = format!(
        "[req]\ndistinguished_name=name\nx509_extensions=more\nprompt=no\n[name]\nCN={name}\n\
         [more]\nbasicConstraints=CA:FALSE\nsubjectAltName={host}\n"
    );
    std::fs::write(&config, text).unwrap();
    let output = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-nodes", "-days", "2", "-config"])
        .args([config.as_os_str(), "-keyout".as_ref(), key.as_os_str()])
        .args(["-out".as_ref(), certificate.as_os_str()])
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no openssl, which makes certificates");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some((certificate, key))
}

/// Starts a server that answers 204 to all that it can decrypt.
fn serve(certificate: &Path, key: &Path) -> SocketAddr {
    let certificates = vec![CertificateDer::from_pem_file(certificate).unwrap()];
    let key = PrivateKeyDer::from_pem_file(key).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            let mut seen = [0; 4_096];
            // The requests of these tests fit into it.
            while stream.read(&mut seen).is_ok_and(|length| length > 0) {
                if seen.windows(4).any(|four| four == b"\r\n\r\n") {
                    let _ = stream.write_all(b"HTTP/1.1 204 X\r\nConnection: close\r\n\r\n");
                    break;
                }
            }
            stream.conn.send_close_notify();
            let _ = stream.flush();
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    address
}

#[test]
fn certificates_are_checked_by_own_authority_on_request() {
    let place = tempfile::tempdir().unwrap();
    let Some((own, key)) = certificate(place.path(), "own", "IP:127.0.0.1") else { return };
    let Some((other, other_key)) = certificate(place.path(), "other", "DNS:example.org") else {
        return;
    };
    let sent = Sent::new(1, 1);
    let push = |address: SocketAddr, authority: &Path| {
        let _ = std::fs::remove_dir_all(sent.state());
        let url = format!("https://{address}/api/v1/write");
        let options = ["--retry-for", "0", "--ca-file", authority.to_str().unwrap()];
        sent.push_to(&url, &options)
    };
    let output = push(serve(&own, &key), &own);
    assert!(output.status.success(), "{}", messages(&output));
    // Another authority, another host's certificate, and no certificate.
    for (output, expected) in [
        (push(serve(&own, &key), &other), "certificate"),
        (push(serve(&other, &other_key), &other), "certificate"),
        (push(serve(&own, &key), &key), "no certificate"),
    ] {
        assert!(!output.status.success(), "{}", messages(&output));
        assert!(messages(&output).contains(expected), "{}", messages(&output));
    }
}
