//! The certificate of all servers of a test, and who has signed it.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::HOST;

/// In PEM.
#[derive(Debug)]
pub(super) struct Identity {
    /// The authority that signed it.
    pub(super) root: String,
    certificate: String,
    key: String,
}

impl Identity {
    /// The one of this process, made at the first call.
    pub(super) fn shared() -> &'static Self {
        static SHARED: OnceLock<Identity> = OnceLock::new();
        SHARED.get_or_init(|| Self::new().expect("nothing in it depends on what is given"))
    }

    fn new() -> Result<Self, rcgen::Error> {
        let mut authority = CertificateParams::new(Vec::new())?;
        // Were both of one name, the certificate would be taken for its own authority.
        authority.distinguished_name.push(DnType::CommonName, "an authority for tests");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([HOST.to_owned()])?.signed_by(&key, &authority)?;
        Ok(Self { root: authority.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Puts it into a server's directory, and returns the options by which the server finds it.
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

/// The file that clients trust.
pub(super) const ROOT: &str = "root.crt";
