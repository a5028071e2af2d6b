//! TLS to nodes: their certificates are checked against given authorities, and against a name.

use super::timed::{Timed, why};
use crate::args::AccessArgs;
use results::files::{self, Links};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use session::failure::Failure;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a file of certificates, at most; those of a whole system have 200 kB.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// TLS settings.
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name in the certificates, where one was given for all.
    pub name: Option<String>,
}

impl Tls {
    /// By the options; `None` without `--tls`.
    pub fn of(args: &AccessArgs) -> Result<Option<Self>, Failure> {
        let Some(authorities) = args.tls_cafile.as_deref().filter(|_| args.tls) else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(certificates(authorities)?);
        if taken == 0 {
            return Err(refused(authorities, "none of its certificates can be used"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(Failure::environment)?.with_root_certificates(roots);
        let config = match (&args.tls_certfile, &args.tls_keyfile) {
            (Some(certificate), Some(key)) => {
                let bytes = pem(key)?;
                let parsed = PrivateKeyDer::from_pem_slice(&bytes);
                let parsed =
                    parsed.map_err(|error| refused(key, &format!("no key without a password in it: {error}")))?;
                let config = builder.with_client_auth_cert(certificates(certificate)?, parsed);
                config.map_err(|error| refused(certificate, &format!("it does not go with its key: {error}")))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(Self { config: Arc::new(config), name: args.tls_name.clone() }))
    }

    /// Shakes hands with a node whose certificate is to be for `name`.
    pub fn begin(&self, name: &str, mut socket: Timed) -> Result<StreamOwned<ClientConnection, Timed>, String> {
        let wanted = self.name.as_deref().unwrap_or(name);
        let server = ServerName::try_from(wanted.to_owned());
        let server = server.map_err(|_| format!("no certificate can be for the name {wanted} - give --tls-name"))?;
        let connection = ClientConnection::new(self.config.clone(), server);
        let mut connection = connection.map_err(|error| format!("cannot begin TLS - {error}"))?;
        let timeout = socket.deadline.saturating_duration_since(Instant::now());
        while connection.is_handshaking() {
            connection.complete_io(&mut socket).map_err(|error| {
                let why = why(&error, timeout.max(Duration::from_secs(1)));
                format!("cannot begin TLS with {wanted} - {why} - check --tls-cafile, --tls-name and the port")
            })?;
        }
        Ok(StreamOwned::new(connection, socket))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let bytes = pem(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(refused(path, "it has no certificate (-----BEGIN CERTIFICATE-----)")),
        Err(error) => Err(refused(path, &error.to_string())),
    }
}

fn pem(path: &Path) -> Result<Vec<u8>, Failure> {
    files::read(path, Links::Followed, PEM_BYTES_MAX).map_err(|error| refused(path, &error.to_string()))
}

fn refused(path: &Path, why: &str) -> Failure {
    Failure::usage(format!("cannot use {} for TLS - {why} - give a PEM file", path.display()))
}
