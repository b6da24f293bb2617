//! Configurations from files: what fits together, and what every refusal says. The files of `testdata`
//! are OpenSSL's; the password is `secret`.

use super::testing::{Authority, Client, Identity};
use super::*;
use rustls::version::{TLS12, TLS13};
use std::path::{Path, PathBuf};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn files(&self, identity: &Identity) -> Files<'static> {
        Files {
            key: self.file("key.pem", &identity.key),
            key_password: None,
            cert: self.file("cert.pem", &identity.cert),
            client_auth: ClientAuth::None,
            verify_clients: false,
            trust: None,
        }
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn examples<'p>(key: &str, cert: &str, key_password: Option<&'p str>) -> Files<'p> {
    Files {
        key: example(key),
        key_password,
        cert: example(cert),
        client_auth: ClientAuth::None,
        verify_clients: false,
        trust: None,
    }
}

fn refused(files: &Files<'_>) -> String {
    let text = server_config(files).unwrap_err().to_string();
    assert!(
        !text.contains("secret") && !text.contains("wrong word"),
        "{text}"
    );
    text
}

/// Whether a handshake ends well.
fn shakes(files: &Files<'_>, mut client: Client) -> Result<(), Refusal> {
    let mut stream = Stream::new(server_config(files).unwrap()).unwrap();
    for _ in 0..4 {
        let (mut records, mut out) = (client.sends(), Vec::new());
        stream.open(&mut records, &mut Vec::new())?;
        stream.seal(&[], &mut out)?;
        client.takes(&out).map_err(|e| e.to_string())?;
    }
    assert!(stream.is_established());
    Ok(())
}

#[test]
fn keys_of_all_forms_are_read() {
    for (key, cert, password) in [
        ("rsa_pkcs1.pem", "rsa_cert.pem", None),
        ("rsa_pkcs8.pem", "rsa_cert.pem", Some("not needed")),
        ("ec_sec1.pem", "ec_cert.pem", None),
        ("rsa_encrypted.pem", "rsa_cert.pem", Some("secret")),
        ("ec_scrypt.pem", "ec_cert.pem", Some("secret")),
    ] {
        for version in [&TLS12, &TLS13] {
            let client = Client::with(&[version], None);
            shakes(&examples(key, cert, password), client).unwrap();
        }
    }
}

#[test]
fn a_key_that_cannot_be_decrypted_says_what_to_do() {
    let text = refused(&examples("rsa_encrypted.pem", "rsa_cert.pem", None));
    assert!(text.contains("set tls.server.keyPassword") && text.contains("openssl pkey"));
    let text = refused(&examples(
        "rsa_encrypted.pem",
        "rsa_cert.pem",
        Some("wrong word"),
    ));
    assert!(text.contains("keyPassword is wrong"), "{text}");
    let text = refused(&examples("rsa_3des.pem", "rsa_cert.pem", Some("secret")));
    assert!(text.contains("its cipher is not supported"), "{text}");
    let text = refused(&examples("rsa_old.pem", "rsa_cert.pem", Some("secret")));
    assert!(text.contains("OpenSSL's old form"), "{text}");
}

#[test]
fn key_and_certificate_have_to_fit() {
    for (key, cert) in [
        ("rsa_pkcs1.pem", "ec_cert.pem"),
        ("ec_sec1.pem", "rsa_cert.pem"),
    ] {
        let text = refused(&examples(key, cert, None));
        assert!(text.contains("does not belong to the key in"), "{text}");
    }
    let folder = Folder::new();
    let authority = Authority::new();
    let (one, other) = (authority.sign("localhost"), authority.sign("localhost"));
    let mut files = folder.files(&one);
    shakes(&files, Client::new()).unwrap();
    files.key = folder.file("other.pem", &other.key);
    assert!(refused(&files).contains("does not belong to the key in"));
}

#[test]
fn files_that_are_none_are_named() {
    let folder = Folder::new();
    let identity = Authority::new().sign("localhost");
    let mut files = folder.files(&identity);
    files.key = folder.0.path().join("none.pem");
    let text = refused(&files);
    assert!(
        text.starts_with("tls.server.keyPath: cannot read") && text.contains("none.pem"),
        "{text}"
    );
    files.key = folder.file("empty.pem", "");
    assert!(refused(&files).contains("has no private key in PEM"));
    files = folder.files(&identity);
    files.cert = folder.file("key_only.pem", &identity.key);
    assert!(refused(&files).contains("has no certificate in PEM"));
    files.cert = folder.file("long.pem", &"x".repeat((4 << 20) + 1));
    assert!(refused(&files).contains("has more than"));
    files.cert = folder.file(
        "odd.pem",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    );
    refused(&files);
}

#[test]
fn clients_are_verified_as_the_keys_say() {
    let folder = Folder::new();
    let (authority, stranger) = (Authority::new(), Authority::new());
    let mut files = folder.files(&authority.sign("localhost"));
    let (known, unknown) = (authority.sign("client"), stranger.sign("client"));
    let trust = folder.file("ca.pem", &authority.pem());
    let without = || Client::new();
    let with = |identity| Client::with(rustls::ALL_VERSIONS, Some(identity));
    for auth in [ClientAuth::Optional, ClientAuth::Require] {
        files.client_auth = auth;
        files.verify_clients = false;
        files.trust = None;
        shakes(&files, with(&unknown)).unwrap();
        assert_eq!(
            shakes(&files, without()).is_ok(),
            auth == ClientAuth::Optional
        );
        files.verify_clients = true;
        assert!(refused(&files).contains("needs tls.server.trustCertPath"));
        files.trust = Some(trust.clone());
        shakes(&files, with(&known)).unwrap();
        shakes(&files, with(&unknown)).unwrap_err();
        assert_eq!(
            shakes(&files, without()).is_ok(),
            auth == ClientAuth::Optional
        );
    }
    files.trust = Some(folder.file("no_ca.pem", "nothing"));
    assert!(refused(&files).starts_with("tls.server.trustCertPath: "));
    assert_eq!(ClientAuth::named("require"), Some(ClientAuth::Require));
    assert_eq!(ClientAuth::named(""), None);
}
