//! The upstream of the proxy.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use clap::Args;
use portcullis_proxy::{ReverseProxy, Upstream};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

/// Where requests go.
#[derive(Debug, Args)]
#[command(next_help_heading = "Upstream")]
pub(super) struct TargetArguments {
    /// The server behind the proxy: `http://` or `https://`, a host and a port, without a path.
    #[arg(long, value_name = "URL")]
    pub(super) upstream: String,

    /// Speaks HTTP/2 with the upstream, as gRPC needs. Without it, `http://` is HTTP/1.1, and `https://` what the upstream selects.
    #[arg(long)]
    upstream_http2: bool,

    /// Trusts only upstreams with a certificate of this authority, in PEM, and not those of the system.
    #[arg(long, value_name = "FILE")]
    upstream_ca: Option<PathBuf>,

    /// The host that the upstream sees: `client` for that of the request, `upstream` for that of the URL, or a host.
    #[arg(long, value_name = "HOST", default_value = "client")]
    host: String,
}

impl TargetArguments {
    pub(super) fn upstream(&self) -> anyhow::Result<Upstream> {
        let upstream = Upstream::new(&self.upstream)?;
        let upstream = if self.upstream_http2 { upstream.http2() } else { upstream };
        if !self.upstream.starts_with("https:") {
            ensure!(self.upstream_ca.is_none(), "--upstream-ca needs an https:// upstream");
            return Ok(upstream);
        }
        let mut roots = RootCertStore::empty();
        match &self.upstream_ca {
            Some(file) => {
                let read = CertificateDer::pem_file_iter(file).with_context(|| file.display().to_string())?;
                for certificate in read {
                    roots.add(certificate.with_context(|| file.display().to_string())?)?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        ensure!(
            !roots.is_empty(),
            "no certificates are trusted here: give --upstream-ca, or set SSL_CERT_FILE"
        );
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok(upstream.tls(&config.with_root_certificates(roots).with_no_client_auth()))
    }

    pub(super) fn apply(&self, proxy: ReverseProxy) -> anyhow::Result<ReverseProxy> {
        Ok(match self.host.as_str() {
            "client" => proxy,
            "upstream" => proxy.upstream_host(),
            host => proxy.host(host)?,
        })
    }
}
