//! Certificates for servers on this host.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

/// An authority of our own, and a certificate of it for `localhost` and 127.0.0.1.
#[derive(Debug)]
pub struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    /// New ones, in files that every user may read.
    ///
    /// # Panics
    /// If they cannot be made.
    #[must_use]
    pub fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        let ca_key = KeyPair::generate().expect("a key");
        let mut authority = CertificateParams::new(Vec::new()).expect("no names");
        // Its name must differ from the server's, or the server's certificate would pass for one that signed itself.
        authority.distinguished_name.push(DnType::CommonName, "Simba's tests");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = authority.self_signed(&ca_key).expect("a certificate");
        let issuer = Issuer::new(authority, ca_key);
        let key = KeyPair::generate().expect("a key");
        let mut server = CertificateParams::new(vec!["localhost".to_owned()]).expect("a host's name");
        server.subject_alt_names.push(SanType::IpAddress([127, 0, 0, 1].into()));
        let cert = server.signed_by(&key, &issuer).expect("a certificate");
        let made = Self { folder };
        fs::write(made.ca(), ca.pem()).expect("a file of ours");
        fs::write(made.cert(), cert.pem()).expect("a file of ours");
        fs::write(made.key(), key.serialize_pem()).expect("a file of ours");
        made
    }

    /// The authority, which clients are to trust.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// The server's certificate.
    #[must_use]
    pub fn cert(&self) -> PathBuf {
        self.folder.path().join("server.pem")
    }

    /// The server's key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.folder.path().join("server.key")
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
