//! Certificates for tests: an authority, what it signs, and clients that trust it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keymill::server::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    SanType,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server on this machine.
    pub(crate) fn server(&self) -> Pair {
        self.sign(&CertificateParams::new(vec!["localhost".to_owned()]).unwrap())
    }

    /// The same, which ends after so many seconds; before, where they are negative.
    pub(crate) fn server_for(&self, seconds: i64) -> Pair {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        end_after(&mut params, seconds);
        self.sign(&params)
    }

    /// A certificate for a client of these names.
    pub(crate) fn client(&self, names: Vec<SanType>) -> Pair {
        self.sign(&client_params(names))
    }

    /// The same, which ends after so many seconds.
    pub(crate) fn client_for(&self, names: Vec<SanType>, seconds: i64) -> Pair {
        let mut params = client_params(names);
        end_after(&mut params, seconds);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    /// What clients connect with that trust it, and whatever else.
    pub(crate) fn careless_connector(&self) -> TlsConnector {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Careless(provider.clone()));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    /// What clients that trust it connect with, in these versions of TLS.
    pub(crate) fn connector(
        &self,
        pair: Option<&Pair>,
        versions: &[&'static SupportedProtocolVersion],
        protocol: &str,
    ) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match pair {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes());
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                config.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
            }
        };
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        TlsConnector::from(Arc::new(config))
    }
}

fn client_params(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn end_after(params: &mut CertificateParams, seconds: i64) {
    let end = jiff::Timestamp::now().as_second() + seconds;
    let since_1970 = Duration::from_secs(end.unsigned_abs());
    params.not_after = rcgen::date_time_ymd(1970, 1, 1) + since_1970;
}

/// Accepts every certificate: also one that has ended.
#[derive(Debug)]
struct Careless(Arc<CryptoProvider>);

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl Pair {
    /// Writes it into a folder, where a server reads it.
    pub(crate) fn write(&self, folder: &Path) -> TlsFiles {
        let files = TlsFiles {
            certificate: folder.join("tls.pem"),
            key: folder.join("tls.key"),
            client_ca: None,
        };
        std::fs::write(&files.certificate, &self.certificate).unwrap();
        std::fs::write(&files.key, &self.key).unwrap();
        files
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()
    }
}

/// Shakes hands over a connection.
pub(crate) async fn shake_hands(
    connector: &TlsConnector,
    stream: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    connector.connect(ServerName::try_from("localhost").unwrap(), stream).await
}
