//! `portcullis admin` over TLS.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::{ServerConfig, ServerConnection, Stream};

use crate::rules::Folder;

/// A server for `localhost` that answers every request with an empty list. Returns its URL and its certificate.
fn start() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into());
    let config = Arc::new(config.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut tls) =
                (stream.unwrap(), ServerConnection::new(Arc::clone(&config)).unwrap());
            let mut stream = Stream::new(&mut tls, &mut stream);
            let mut head = Vec::new();
            let mut part = [0; 1_024];
            // A client that does not trust the certificate closes the connection.
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut part) {
                    Ok(length) if length > 0 => head.extend(&part[..length]),
                    _ => break,
                }
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]");
            let _ = stream.flush();
        }
    });
    (url, made.cert.pem())
}

fn layers(url: &str, certificates: &str) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command
        .env("PORTCULLIS_ADMIN_TOKEN", "s3cret")
        .env("SSL_CERT_FILE", certificates)
        .env_remove("SSL_CERT_DIR");
    let output = command.args(["admin", url, "layers"]).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_certificate_has_to_be_trusted() {
    let folder = Folder::new("admin-tls");
    let (url, trusted) = start();
    let trusted = folder.write("trusted.pem", &trusted);
    assert_eq!(layers(&url, &trusted), (0, "none\n".to_owned(), String::new()));

    let (_, other) = start();
    let (code, out, error) = layers(&url, &folder.write("other.pem", &other));
    assert!(code == 2 && out.is_empty() && error.contains("SSL_CERT_FILE names the certificates"), "{error}");
    // The name of the server counts as well.
    let (code, _, error) = layers(&url.replace("localhost", "127.0.0.1"), &trusted);
    assert!(code == 2 && error.contains("SSL_CERT_FILE"), "{error}");
    let (code, _, error) = layers(&url, &folder.write("empty.pem", ""));
    assert!(code == 2 && error.contains("set SSL_CERT_FILE"), "{error}");
}
