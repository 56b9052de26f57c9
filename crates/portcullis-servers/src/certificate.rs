//! The certificate of all servers of a test, and the authority that signed it.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::HOST;

/// A certificate with its key and its authority, in PEM.
#[derive(Debug)]
pub(super) struct Identity {
    /// The certificate of the authority.
    pub(super) root: String,
    certificate: String,
    key: String,
}

impl Identity {
    /// The identity of this process, created at the first call.
    pub(super) fn shared() -> &'static Self {
        static SHARED: OnceLock<Identity> = OnceLock::new();
        SHARED.get_or_init(|| Self::new().expect("the parameters are constant"))
    }

    fn new() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        // If both had the same name, the certificate would be treated as self-signed.
        authority.distinguished_name.push(DnType::CommonName, "an authority for tests");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([HOST.to_owned()])?.signed_by(&key, &authority)?;
        Ok(Self { root: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Writes the files into a server's directory, and returns the options that name them.
    pub(super) fn write(&self, directory: &Path) -> io::Result<Vec<(&'static str, String)>> {
        let mut options = Vec::new();
        for (option, name, pem) in [
            ("tls-ca-cert-file", ROOT, &self.root),
            ("tls-cert-file", "server.crt", &self.certificate),
            ("tls-key-file", "server.key", &self.key),
        ] {
            let path = directory.join(name);
            std::fs::write(&path, pem)?;
            options.push((option, path.display().to_string()));
        }
        Ok(options)
    }
}

/// The file of the authority that clients trust.
pub(super) const ROOT: &str = "root.crt";
