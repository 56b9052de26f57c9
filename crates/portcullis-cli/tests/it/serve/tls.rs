//! Services over TLS, with and without client certificates.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::process::{BOUND, RULES, Service, folder, rest, run};
use crate::rules::Folder;

/// An authority, and the files of what it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: Folder,
}

/// A certificate and its key, in PEM.
struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "an authority for tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, folder: folder() }
    }

    fn identity(&self) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Identity { certificate, key: key.serialize_pem() }
    }

    /// The options of a server.
    fn arguments(&self) -> [String; 4] {
        let Identity { certificate, key } = self.identity();
        let (certificate, key) =
            (self.folder.write("server.crt", &certificate), self.folder.write("server.key", &key));
        ["--tls-cert".to_owned(), certificate, "--tls-key".to_owned(), key]
    }

    /// `/healthz` over TLS. Empty if the server closes the connection.
    fn get(&self, service: &Service, identity: Option<&Identity>) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
                config.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(Arc::new(config), name).unwrap();
        let port = service.addr("http").rsplit_once(':').unwrap().1.parse().unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        let mut stream = StreamOwned::new(client, stream);
        let head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        if stream.write_all(head).is_err() {
            return String::new();
        }
        let mut bytes = Vec::new();
        // A refused client gets an alert.
        match std::io::Read::read_to_end(&mut stream, &mut bytes) {
            Ok(_) => String::from_utf8(bytes).unwrap(),
            Err(_) => String::new(),
        }
    }
}

fn texts(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

#[test]
fn service_with_a_certificate_takes_no_plain_text() {
    let authority = Authority::new();
    let arguments = authority.arguments();
    let service = Service::start("limits.toml", RULES, &texts(&arguments));
    assert!(authority.get(&service, None).ends_with("ok\n"));
    let plain = service.get("/healthz");
    assert!(!plain.contains("200 OK"), "{plain}");
}

#[test]
fn mutual_tls_refuses_clients_without_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let ca = authority.folder.write("clients.crt", &authority.issuer.pem());
    let mut arguments = authority.arguments().to_vec();
    // Client certificates allow an address beyond loopback, and the pages for probes have one of their own.
    arguments
        .extend(["--client-ca", &ca, "--http", "0.0.0.0:0", "--status", "127.0.0.1:0"].map(str::to_owned));
    let service = Service::start("limits.toml", RULES, &texts(&arguments));
    assert!(authority.get(&service, Some(&authority.identity())).ends_with("ok\n"));
    assert_eq!(authority.get(&service, None), "");
    assert_eq!(authority.get(&service, Some(&stranger.identity())), "");
    assert!(service.page("status", "/healthz").ends_with("ok\n"));
}

#[test]
fn server_certificate_alone_does_not_allow_other_machines() {
    let authority = Authority::new();
    let rules = authority.folder.write("limits.toml", RULES);
    let mut arguments = vec!["serve".to_owned(), rules, "--http".to_owned(), "0.0.0.0:0".to_owned()];
    arguments.extend(authority.arguments());
    let (code, _, error) = run(&texts(&arguments));
    assert!(code == 2 && error.contains("client certificates"), "{error}");
}

#[test]
fn slow_handshake_is_cut_off() {
    let authority = Authority::new();
    let mut arguments = authority.arguments().to_vec();
    arguments.extend(["--handshake-timeout", "100ms"].map(str::to_owned));
    let service = Service::start("limits.toml", RULES, &texts(&arguments));
    assert_eq!(rest(&mut service.connect("http")), "");
}
