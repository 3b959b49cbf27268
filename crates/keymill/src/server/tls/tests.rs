//! What becomes of certificates, good and bad, without a server.

use rcgen::{CertificateParams, KeyPair, SanType};

use super::*;

#[test]
fn names_are_those_of_hosts_uris_and_emails() {
    let text = |text: &str| text.try_into().unwrap();
    check(
        vec![
            SanType::DnsName(text("Shop.Example")),
            SanType::URI(text("spiffe://example/Shop")),
            SanType::Rfc822Name(text("shop@example.com")),
            SanType::IpAddress([192, 0, 2, 1].into()),
        ],
        &["shop.example", "spiffe://example/Shop", "shop@example.com"],
    );
    // Of each kind alone, in capitals: only names of hosts are the same in both.
    check(vec![SanType::DnsName(text("SHOP.EXAMPLE"))], &["shop.example"]);
    check(vec![SanType::URI(text("SPIFFE://EXAMPLE/SHOP"))], &["SPIFFE://EXAMPLE/SHOP"]);
    check(vec![SanType::Rfc822Name(text("SHOP@EXAMPLE.COM"))], &["SHOP@EXAMPLE.COM"]);
    // What looks like a name of another kind does not stand for it.
    check(vec![SanType::DnsName(text("shop@example.com"))], &[]);
    check(vec![SanType::DnsName(text("spiffe://example/shop"))], &[]);
    check(vec![SanType::URI(text("shop.example"))], &[]);
    check(vec![SanType::Rfc822Name(text("shop.example"))], &[]);
    check(vec![SanType::Rfc822Name(text("spiffe://shop@example.com"))], &[]);
    check(Vec::new(), &[]);
    assert!(names_in(&CertificateDer::from(b"nonsense".to_vec())).is_empty());
}

#[track_caller]
fn check(names: Vec<SanType>, expected: &[&str]) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names = names;
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    assert_eq!(*names_in(certificate.der()), *expected);
}

#[test]
fn a_key_is_not_shown_by_debug() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let files = TlsFiles {
        certificate: folder.path().join("tls.pem"),
        key: folder.path().join("tls.key"),
        client_ca: None,
    };
    fs::write(&files.certificate, certificate.pem()).unwrap();
    fs::write(&files.key, key.serialize_pem()).unwrap();
    let tls = Tls::load(files).unwrap();
    // The files, and nothing of what they hold.
    assert_eq!(format!("{tls:?}"), format!("Tls {{ files: {:?}, .. }}", tls.files));
}
