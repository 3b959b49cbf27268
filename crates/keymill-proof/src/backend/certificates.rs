//! Certificates for servers of this machine, by an authority made for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::{Missing, folder, program, run};

/// An authority, and a server's certificate by it.
#[derive(Debug)]
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// Makes them with `openssl`, for 127.0.0.1.
    pub fn make() -> Result<Certificates, Missing> {
        let openssl = program("openssl")?;
        let folder = folder();
        let path = |name: &str| folder.path().join(name);
        let new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
        run(Command::new(&openssl)
            .args(new)
            .args(["-x509", "-days", "2", "-subj", "/CN=keymill test authority"])
            .args(["-addext", "keyUsage=critical,keyCertSign,cRLSign"])
            .arg("-keyout")
            .arg(path("ca.key"))
            .arg("-out")
            .arg(path("ca.pem")));
        run(Command::new(&openssl)
            .args(new)
            .args(["-subj", "/CN=127.0.0.1", "-keyout"])
            .arg(path("server.key"))
            .arg("-out")
            .arg(path("server.csr")));
        fs::write(path("names"), "subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
            .expect("a file can be written in a temporary folder");
        run(Command::new(&openssl)
            .args(["x509", "-req", "-days", "2", "-CAcreateserial", "-in"])
            .arg(path("server.csr"))
            .arg("-CA")
            .arg(path("ca.pem"))
            .arg("-CAkey")
            .arg(path("ca.key"))
            .arg("-extfile")
            .arg(path("names"))
            .arg("-out")
            .arg(path("server.pem")));
        super::postgres::give_to_user(folder.path());
        super::postgres::give_to_user(&path("server.key"));
        Ok(Certificates { folder })
    }

    /// Who vouches for the server.
    pub fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    /// The server's certificate.
    pub fn certificate(&self) -> PathBuf {
        self.path("server.pem")
    }

    /// Its key.
    pub fn key(&self) -> PathBuf {
        self.path("server.key")
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::join(self.folder.path(), name)
    }
}
