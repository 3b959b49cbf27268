//! TLS: whom the client trusts, and what it shows of itself.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::error::Error;

/// The files that TLS is made of, all in PEM.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    /// The authorities of the servers; without them, those that the system trusts.
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of the client with those between it and its authority, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Reads the files.
pub(crate) fn connector(files: &TlsFiles) -> Result<TlsConnector, Error> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            if roots.is_empty() {
                let why =
                    found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
                return Err(Error::bad_settings(format!(
                    "the system has no certificates of authorities{why}; name a file with `ca_file`"
                )));
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions")
        .with_root_certificates(roots);
    let config = match &files.identity {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let private =
                PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
            let chain = certificates(certificate)?;
            let config = config.with_client_auth_cert(chain, private);
            config.map_err(|error| unusable(certificate, &error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path, &"it has no certificate")),
        found => found.map_err(|error| unusable(path, &error)),
    }
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> Error {
    Error::bad_settings(format!("the file {} cannot be used for TLS: {problem}", path.display()))
}
