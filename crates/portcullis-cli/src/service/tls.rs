//! TLS of a service.

use std::path::PathBuf;

use clap::Args;
use portcullis_server::Tls;

/// The files of TLS.
#[derive(Debug, Args)]
pub(crate) struct TlsArguments {
    /// The certificate, in PEM, for TLS where clients connect.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// The authorities of client certificates, in PEM. Clients without a certificate are refused then.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
}

impl TlsArguments {
    /// The keys of the files. `None` without them.
    pub(crate) fn read(&self) -> anyhow::Result<Option<Tls>> {
        let (Some(certificate), Some(key)) = (&self.tls_cert, &self.tls_key) else {
            return Ok(None);
        };
        Ok(Some(Tls::from_files(certificate, key, self.client_ca.as_deref())?))
    }
}
