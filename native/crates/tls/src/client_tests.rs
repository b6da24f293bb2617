use crate::testing::{Authority, Identity};
use crate::{
    ClientAuth, ClientFiles, ClientStream, Files, ServerName, Stream, client_config, server_config,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::fs;

/// What the server received of a client that says `hello`, and the client of the answer.
fn talk(
    files: &ClientFiles<'_>,
    server: &Identity,
    trust: Option<&str>,
    name: &str,
) -> Result<(Vec<u8>, Vec<u8>), String> {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let config = server_config(&Files {
        key: put("key", &server.key),
        key_password: None,
        cert: put("cert", &server.cert),
        client_auth: match trust {
            Some(_) => ClientAuth::Require,
            None => ClientAuth::None,
        },
        verify_clients: true,
        trust: trust.map(|pem| put("trust", pem)),
    })
    .unwrap();
    let mut server = Stream::new(config).unwrap();
    let name = ServerName::try_from(name.to_string()).unwrap();
    let mut client = ClientStream::connect(client_config(files)?, name)?;
    let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let mut out = Vec::new();
        client.seal(b"", &mut out)?;
        server.open(&mut out, &mut at_server)?;
        out.clear();
        server.seal(b"", &mut out)?;
        client.open(&mut out, &mut at_client)?;
    }
    assert!(client.is_established() && server.is_established());
    let mut out = Vec::new();
    client.seal(&[7; 40_000], &mut out)?;
    server.open(&mut out, &mut at_server)?;
    out.clear();
    server.seal(b"answer", &mut out)?;
    server.close(&mut out);
    for byte in out {
        client.open(&mut [byte], &mut at_client)?;
    }
    assert!(client.is_closed());
    Ok((at_server, at_client))
}

#[test]
fn what_is_trusted_is_taken_and_nothing_else() {
    let (ours, other) = (Authority::new(), Authority::new());
    let server = ours.sign("broker.example");
    let (ca, strange) = (ours.pem(), other.pem());
    let good = ClientFiles {
        ca: ca.as_bytes(),
        ..ClientFiles::default()
    };
    let (at_server, at_client) = talk(&good, &server, None, "broker.example").unwrap();
    assert!(at_server == [7; 40_000] && at_client == b"answer");
    let refused = talk(&good, &server, None, "other.example").unwrap_err();
    assert!(refused.contains("not valid for name"), "{refused}");
    let bad = ClientFiles {
        ca: strange.as_bytes(),
        any_name: true,
        ..ClientFiles::default()
    };
    let refused = talk(&bad, &server, None, "broker.example").unwrap_err();
    // Authorities of these tests have the same name.
    assert!(refused.contains("BadSignature"), "{refused}");
    let any_name = ClientFiles {
        ca: ca.as_bytes(),
        any_name: true,
        ..ClientFiles::default()
    };
    talk(&any_name, &server, None, "other.example").unwrap();
    let insecure = ClientFiles {
        insecure: true,
        ..ClientFiles::default()
    };
    talk(&insecure, &server, None, "10.0.0.1").unwrap();
}

#[test]
fn a_client_shows_its_certificate() {
    let ours = Authority::new();
    let (server, me, ca) = (ours.sign("broker.example"), ours.sign("me"), ours.pem());
    let mut files = ClientFiles {
        ca: ca.as_bytes(),
        ..ClientFiles::default()
    };
    assert!(talk(&files, &server, Some(&ca), "broker.example").is_err());
    files.own = Some((me.cert.as_bytes(), me.key.as_bytes()));
    talk(&files, &server, Some(&ca), "broker.example").unwrap();
    files.own = Some((me.cert.as_bytes(), server.key.as_bytes()));
    let refused = client_config(&files).unwrap_err();
    assert!(refused.contains("cannot be used"), "{refused}");
    for own in [(&b""[..], me.key.as_bytes()), (me.cert.as_bytes(), b"")] {
        files.own = Some(own);
        assert!(client_config(&files).unwrap_err().contains("there is no"));
    }
    let nothing = client_config(&ClientFiles::default()).unwrap_err();
    assert!(
        nothing.contains("no certificate that is trusted"),
        "{nothing}"
    );
}

/// As `openssl req -x509` makes it: its own authority, until the end of a year.
fn own_authority(year: i32) -> Identity {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["broker.example".to_string()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(year, 12, 31);
    let made = params.self_signed(&key).unwrap();
    Identity::of(&made, &key)
}

#[test]
fn a_server_may_show_the_certificate_that_is_trusted() {
    let server = own_authority(2200);
    let files = ClientFiles {
        ca: server.cert.as_bytes(),
        ..ClientFiles::default()
    };
    talk(&files, &server, None, "broker.example").unwrap();
    let refused = talk(&files, &server, None, "other.example").unwrap_err();
    assert!(refused.contains("not valid for name"), "{refused}");
    // Another one with the same name of its owner.
    let other = own_authority(2200);
    assert!(talk(&files, &other, None, "broker.example").is_err());
    let old = own_authority(2001);
    let files = ClientFiles {
        ca: old.cert.as_bytes(),
        any_name: true,
        ..ClientFiles::default()
    };
    let refused = talk(&files, &old, None, "broker.example").unwrap_err();
    assert!(refused.contains("expired"), "{refused}");
}
