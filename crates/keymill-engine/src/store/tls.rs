//! Encrypted connections: who vouches for a server.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use super::StoreError;
use super::url::Tls;

/// What a client needs to verify its server.
pub(super) fn client(tls: &Tls) -> Result<ClientConfig, StoreError> {
    let mut roots = RootCertStore::empty();
    match &tls.ca {
        Some(path) => {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| unreadable(path, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let found = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(path, &error))?;
    let found: Result<Vec<_>, _> = found.collect();
    match found {
        Ok(found) if found.is_empty() => Err(unreadable(path, &"no certificate in it")),
        found => found.map_err(|error| unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, problem: &dyn std::fmt::Display) -> StoreError {
    StoreError::Broken(format!("the certificates in {} cannot be used: {problem}", path.display()))
}
