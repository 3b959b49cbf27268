//! What is read in certificates: the names that one is for, and its end.
//!
//! `tls` asks here, for its own certificate and for those of clients, which rustls has verified.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The names that a certificate is for: DNS names in lower case, URIs and email addresses. One that cannot be
/// read has none.
pub(super) fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let read = Certificate::from_der(certificate).ok();
    let names = read.and_then(|it| Some(it.tbs_certificate.get::<SubjectAltName>().ok()??.1));
    // One that looks like a name of another kind is left out, so that it cannot stand for it.
    let text = |name: &GeneralName| match name {
        GeneralName::DnsName(name) => {
            Some(name.as_str().to_ascii_lowercase()).filter(|name| !name.contains([':', '@']))
        }
        GeneralName::UniformResourceIdentifier(uri) => {
            Some(uri.as_str().to_owned()).filter(|uri| uri.contains(':'))
        }
        GeneralName::Rfc822Name(email) => Some(email.as_str().to_owned())
            .filter(|email| email.contains('@') && !email.contains(':')),
        _ => None,
    };
    names.iter().flat_map(|names| &names.0).filter_map(text).collect()
}

/// The last moment at which a certificate is valid, if it can be read.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    let read = Certificate::from_der(certificate).ok()?;
    let end = read.tbs_certificate.validity.not_after.to_unix_duration();
    Timestamp::from_second(i64::try_from(end.as_secs()).ok()?).ok()
}
