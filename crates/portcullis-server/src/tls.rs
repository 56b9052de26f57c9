//! TLS of a server, and the certificates that its clients need.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

/// The certificate of a server, and the authorities of its clients. TLS 1.2 and 1.3, with HTTP/2 and HTTP/1.1.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    needs_clients: bool,
}

/// Why a server has no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file cannot be read, or is not PEM.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: pem::Error,
    },
    /// The file has no certificate.
    #[error("{}: there is no certificate in this file", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// The certificate and the key cannot be used together, or are not supported.
    #[error("{}: {error}", path.display())]
    Certificate {
        /// The file of the certificate.
        path: PathBuf,
        /// The reason.
        error: rustls::Error,
    },
    /// The authorities of clients cannot be used.
    #[error("{}: {error}", path.display())]
    Authorities {
        /// The file of the authorities.
        path: PathBuf,
        /// The reason.
        error: VerifierBuilderError,
    },
}

impl Tls {
    /// Reads the certificate, with those between it and its authority after it, and its private key, in PEM. With `client_authorities`
    /// only clients are served that have a certificate of one of these.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or used.
    pub fn from_files(
        certificate: &Path,
        key: &Path,
        client_authorities: Option<&Path>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(certificate)?;
        let private = PrivateKeyDer::from_pem_file(key);
        let private = private.map_err(|error| TlsError::File { path: key.to_owned(), error })?;
        let failed = |error| TlsError::Certificate { path: certificate.to_owned(), error };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(failed)?;
        let builder = match client_authorities {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(path)? {
                    let added = roots.add(authority);
                    added.map_err(|error| TlsError::Certificate { path: path.to_owned(), error })?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(
                    verifier.map_err(|error| TlsError::Authorities { path: path.to_owned(), error })?,
                )
            }
        };
        let mut config = builder.with_single_cert(chain, private).map_err(failed)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), needs_clients: client_authorities.is_some() })
    }

    /// Whether clients need a certificate.
    pub fn needs_client_certificates(&self) -> bool {
        self.needs_clients
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error| TlsError::File { path: path.to_owned(), error };
    let read = CertificateDer::pem_file_iter(path).map_err(failed)?;
    let list: Vec<_> = read.collect::<Result<_, _>>().map_err(failed)?;
    if list.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(list) }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("needs_clients", &self.needs_clients).finish_non_exhaustive()
    }
}
