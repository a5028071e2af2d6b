//! TLS to nodes: their certificates are checked against given authorities, and against a name.

use super::socket::{Timed, why};
use results::files::{self, Links};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a file of certificates, at most; those of a whole system have 200 kB.
const PEM_BYTES_MAX: u64 = 16 << 20;

/// TLS settings.
pub struct Tls {
    config: Arc<ClientConfig>,
    /// The name in the certificates, where one was given for all.
    name: Option<String>,
}

impl Tls {
    /// Trusts the `authorities` of a PEM file; shows the certificate and the key of `client`, if there are any. `name` is
    /// the name in all certificates of nodes.
    ///
    /// Errors: a file that cannot be used, a sentence.
    pub fn new(authorities: &Path, client: Option<(&Path, &Path)>, name: Option<String>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        let (taken, _) = roots.add_parsable_certificates(certificates(authorities)?);
        if taken == 0 {
            return Err(refused(authorities, "none of its certificates can be used"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?.with_root_certificates(roots);
        let config = match client {
            Some((certificate, key)) => {
                let parsed = PrivateKeyDer::from_pem_slice(&pem(key)?);
                let parsed =
                    parsed.map_err(|error| refused(key, &format!("no key without a password in it: {error}")))?;
                let config = builder.with_client_auth_cert(certificates(certificate)?, parsed);
                config.map_err(|error| refused(certificate, &format!("it does not go with its key: {error}")))?
            }
            None => builder.with_no_client_auth(),
        };
        Ok(Self { config: Arc::new(config), name })
    }

    /// Shakes hands with a node whose certificate is to be for `name`.
    pub(super) fn begin(&self, name: &str, socket: &mut Timed, timeout: Duration) -> Result<ClientConnection, String> {
        let wanted = self.name.as_deref().unwrap_or(name);
        let server = ServerName::try_from(wanted.to_owned());
        let server = server.map_err(|_| format!("no certificate can be for the name {wanted} - give --tls-name"))?;
        let connection = ClientConnection::new(self.config.clone(), server);
        let mut connection = connection.map_err(|error| format!("cannot begin TLS - {error}"))?;
        while connection.is_handshaking() {
            connection.complete_io(socket).map_err(|error| {
                let why = why(&error, timeout);
                format!("cannot begin TLS with {wanted} - {why} - check --tls-cafile, --tls-name and the port")
            })?;
        }
        Ok(connection)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = pem(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(refused(path, "it has no certificate (-----BEGIN CERTIFICATE-----)")),
        Err(error) => Err(refused(path, &error.to_string())),
    }
}

fn pem(path: &Path) -> Result<Vec<u8>, String> {
    files::read(path, Links::Followed, PEM_BYTES_MAX).map_err(|error| refused(path, &error.to_string()))
}

fn refused(path: &Path, why: &str) -> String {
    format!("cannot use {} for TLS - {why} - give a PEM file", path.display())
}
