//! Clients against our own server: whom they trust, what they show, and what every refusal says.

use super::testing::{Authority, Identity};
use super::*;
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

    fn identity(&self, name: &str, identity: &Identity) -> (PathBuf, PathBuf) {
        (
            self.file(&format!("{name}.pem"), &identity.cert),
            self.file(&format!("{name}.key"), &identity.key),
        )
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata")
        .join(name)
}

fn client(trust: Trust, own: Option<(PathBuf, PathBuf)>) -> Result<ClientStream, String> {
    let by_name = matches!(trust, Trust::System(_));
    let config = client_config(&ClientFiles {
        trust,
        by_name,
        own,
        key_password: None,
    });
    let name = ServerName::try_from("localhost").unwrap();
    ClientStream::connect(config.map_err(|e| e.to_string())?, name)
}

fn server((cert, key): (PathBuf, PathBuf), clients: Option<PathBuf>) -> Stream {
    let files = Files {
        key,
        key_password: None,
        cert,
        client_auth: match clients {
            Some(_) => ClientAuth::Require,
            None => ClientAuth::None,
        },
        verify_clients: clients.is_some(),
        trust: clients,
    };
    Stream::new(server_config(&files).unwrap()).unwrap()
}

/// Hands over what both say until neither says more; the first refusal ends it.
fn shake(client: &mut ClientStream, server: &mut Stream) -> Result<(), String> {
    for _ in 0..4 {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        client.seal(&[], &mut up)?;
        let refused = server.open(&mut up, &mut Vec::new());
        server.seal(&[], &mut down)?;
        client.open(&mut down, &mut Vec::new())?;
        refused?;
    }
    assert!(client.is_established() && server.is_established());
    Ok(())
}

#[test]
fn bytes_go_both_ways() {
    let mut server = server((example("ec_cert.pem"), example("ec_sec1.pem")), None);
    let mut client = client(Trust::Anybody, None).unwrap();
    assert!(client.has_pending(), "the hello");
    shake(&mut client, &mut server).unwrap();
    let long: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    let (mut records, mut plain) = (Vec::new(), Vec::new());
    server.seal(&long, &mut records).unwrap();
    for piece in records.chunks_mut(999) {
        client.open(piece, &mut plain).unwrap();
    }
    assert!(plain == long);
    let (mut records, mut plain) = (Vec::new(), Vec::new());
    client.seal(b"12345678", &mut records).unwrap();
    client.close(&mut records);
    server.open(&mut records, &mut plain).unwrap();
    assert_eq!(plain, b"12345678");
    assert!(server.is_closed());
}

#[test]
fn servers_are_verified_as_the_keys_say() {
    let folder = Folder::new();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let named = folder.identity("named", &ours.sign("localhost"));
    let other = folder.identity("other", &ours.sign("elsewhere"));
    let (ours, theirs) = (
        folder.file("ours.pem", &ours.pem()),
        folder.file("theirs.pem", &theirs.pem()),
    );
    let own = (example("rsa_cert.pem"), example("rsa_pkcs8.pem"));
    let none = folder.file("none.pem", "nothing");
    let table = [
        (Trust::Anybody, &named, ""),
        (Trust::File(ours.clone()), &named, ""),
        (Trust::File(ours.clone()), &other, ""),
        (
            Trust::File(theirs.clone()),
            &named,
            "invalid peer certificate",
        ),
        (Trust::File(own.0.clone()), &own, ""),
        (Trust::File(ours.clone()), &own, "invalid peer certificate"),
        (Trust::System(vec![none.clone(), ours.clone()]), &named, ""),
        (
            Trust::System(vec![ours.clone()]),
            &other,
            "not valid for name",
        ),
    ];
    for (i, (trust, identity, expected)) in table.into_iter().enumerate() {
        let mut client = client(trust, None).unwrap();
        let shaken = shake(&mut client, &mut server(identity.clone(), None));
        match shaken {
            Ok(()) => assert_eq!(expected, "", "row {i}"),
            Err(why) => assert!(!expected.is_empty() && why.contains(expected), "{i}: {why}"),
        }
    }
}

#[test]
fn a_server_may_ask_for_the_clients_certificate() {
    let folder = Folder::new();
    let (ours, theirs) = (Authority::new(), Authority::new());
    let at = folder.identity("server", &ours.sign("localhost"));
    let known = folder.identity("known", &ours.sign("slave"));
    let strange = folder.identity("strange", &theirs.sign("slave"));
    let trust = folder.file("ours.pem", &ours.pem());
    for (own, expected) in [
        (Some(known), ""),
        (Some(strange), "invalid peer certificate"),
        (None, "peer sent no certificates"),
    ] {
        let mut client = client(Trust::File(trust.clone()), own).unwrap();
        let mut server = server(at.clone(), Some(trust.clone()));
        match shake(&mut client, &mut server) {
            Ok(()) => assert_eq!(expected, ""),
            Err(why) => assert!(!expected.is_empty(), "{why}"),
        }
        assert_eq!(server.is_refused(), !expected.is_empty());
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let empty = folder.file("empty.pem", "");
    let one = (example("rsa_cert.pem"), example("ec_sec1.pem"));
    let absent = folder.0.path().join("absent");
    for (trust, own, expected) in [
        (
            Trust::File(empty.clone()),
            None,
            "tls.client.trustCertPath: ",
        ),
        (
            Trust::System(vec![empty]),
            None,
            "set tls.client.trustCertPath",
        ),
        (
            Trust::File(absent),
            None,
            "tls.client.trustCertPath: cannot read",
        ),
        (
            Trust::Anybody,
            Some(one),
            "tls.client.certPath: the certificate",
        ),
        (
            Trust::Anybody,
            Some((example("rsa_cert.pem"), example("rsa_encrypted.pem"))),
            "set tls.client.keyPassword",
        ),
    ] {
        let why = client(trust, own).err().unwrap();
        assert!(why.contains(expected), "{why}");
    }
}
