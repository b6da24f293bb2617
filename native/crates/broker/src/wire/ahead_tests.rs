use super::*;
use crate::Keyring;
use crate::keyring::Subject;
use pyrmq_sign::Key;

/// A frame with a body, signed with `key` in the name of `access_key`.
fn frame(access_key: &str, key: &Key) -> Vec<u8> {
    let body = b"body";
    let mac = key.mac(format!("{access_key}T").as_bytes(), body);
    let signature = String::from_utf8(pyrmq_sign::encode(&mac).to_vec()).unwrap();
    let header = format!(
        r#"{{"code":310,"extFields":{{"AccessKey":"{access_key}","Signature":"{signature}","b":"T"}}}}"#
    );
    let mut out = Vec::new();
    out.extend_from_slice(&(4 + header.len() as u32 + body.len() as u32).to_be_bytes());
    out.extend_from_slice(&(header.len() as u32).to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

#[test]
fn a_signature_of_nobody_is_computed_and_never_counts() {
    let ring = Arc::new(Keyring::default());
    ring.replace([("alice", "secret")]).unwrap();
    let mut guard = Guard::new(ring);
    let nobody = Subject::nobody();
    for (access_key, key, right) in [
        ("alice", &Key::new(b"secret"), true),
        ("alice", &Key::new(b"wrong"), false),
        ("alice", nobody.key(), false),
        ("stranger", &Key::new(b"secret"), false),
        // As the key that stands for strangers would sign.
        ("stranger", nobody.key(), false),
        ("", nobody.key(), false),
    ] {
        let (mut ahead, mut shapes) = (Ahead::default(), Shapes::default());
        let data = frame(access_key, key);
        for _ in 0..2 {
            ahead.read(&mut shapes, &mut guard, &data).unwrap();
            assert_eq!(ahead.len(), 1);
            // Somebody's key was used, so it took as long.
            assert_eq!(ahead.signers.len(), 1, "{access_key}");
            let signer = ahead.take(0, &mut Header::default());
            assert_eq!(signer.is_some(), right, "{access_key}");
        }
    }
    // A frame that follows in the same place is not taken for a stranger's.
    let mut data = frame("stranger", nobody.key());
    let mut ahead = Ahead::default();
    ahead
        .read(&mut Shapes::default(), &mut guard, &data)
        .unwrap();
    data = frame("alice", &Key::new(b"secret"));
    ahead
        .read(&mut Shapes::default(), &mut guard, &data)
        .unwrap();
    assert!(ahead.take(0, &mut Header::default()).is_some());
}
