//! Signed and unsigned requests of a stranger, through a session with a keyring and a store.
//!
//! - What the session answers by itself was signed right, by who has the right; a second verification,
//!   by the `hmac` crate, says so.
//! - It names somebody for a command only if that verification agrees.
//! - A send that is signed right, and not changed on its way, is answered without the broker.
#![no_main]

use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use pyrmq_broker::wire::access::{END_TRANSACTION, SEND};
use pyrmq_broker::wire::frame::split;
use pyrmq_broker::wire::header::Header;
use pyrmq_broker::wire::{Budget, Command, Context, Session};
use pyrmq_broker::{Broker, Keyring};
use pyrmq_format::host::Host;
use pyrmq_fuzz::{Dice, frame};
use pyrmq_store::{Store, StoreConfig, TopicSettings};
use sha1::Sha1;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

const TOPIC: &str = "TopicTest";
/// Access key and secret key. Only the first may send.
const KEYS: [(&str, &str); 2] = [("alice", "sesame-1"), ("bob", "sesame-2")];
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LOG_FILE: u64 = 64 << 10;
/// A log of this length is thrown away.
const FULL: u64 = 64 * LOG_FILE;

struct Rig {
    context: Arc<Context>,
    keyring: Arc<Keyring>,
    _dir: tempfile::TempDir,
}

thread_local! {
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

fuzz_target!(|data: &[u8]| {
    RIG.with_borrow_mut(|slot| {
        let rig = slot.get_or_insert_with(Rig::new);
        rig.run(data);
        if rig.context.broker.store().log().max_offset() > FULL {
            *slot = None;
        }
    });
});

fn signature(secret: &str, text: &[u8], body: &[u8]) -> String {
    let mut hmac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).unwrap();
    hmac.update(text);
    hmac.update(body);
    let mut mac = hmac.finalize().into_bytes().to_vec();
    mac.push(0);
    let mut out = String::new();
    for three in mac.chunks(3) {
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for shift in [18, 12, 6, 0] {
            out.push(LETTERS[(bits >> shift & 63) as usize] as char);
        }
    }
    out.pop();
    out + "="
}

type Fields = BTreeMap<String, String>;

/// The values in the order of their names; those of this target are ASCII.
fn signed_text(fields: &Fields) -> String {
    let signed = fields.iter().filter(|(name, _)| *name != "Signature");
    signed.map(|(_, value)| value.as_str()).collect()
}

/// Who has signed a frame.
fn signer(header: &Header, frame: &[u8], body: &[u8]) -> Option<&'static str> {
    let text = |raw: &pyrmq_format::json::Raw| {
        let mut out = Vec::new();
        raw.unescape(frame, &mut out).ok()?;
        Some(out)
    };
    let mut fields = Vec::new();
    for (name, value) in &header.ext {
        fields.push((text(name)?, text(value)?));
    }
    fields.sort();
    let find = |wanted: &[u8]| {
        let mut found = fields.iter().filter(|(name, _)| name == wanted);
        let one = found.next()?;
        found.next().is_none().then_some(&one.1)
    };
    let (key, signature_given) = (find(b"AccessKey")?, find(b"Signature")?);
    let (name, secret) = KEYS.iter().find(|(name, _)| name.as_bytes() == key)?;
    let values: Vec<u8> = fields
        .iter()
        .filter(|(name, _)| name != b"Signature")
        .flat_map(|(_, value)| value.iter().copied())
        .collect();
    (signature(secret, &values, body).as_bytes() == signature_given).then_some(*name)
}

/// A frame with a send, signed by `who`, if anybody.
fn send(dice: &mut Dice, who: Option<usize>, body: &[u8]) -> Vec<u8> {
    let mut fields: Fields = [
        ("a", "PG"),
        ("b", TOPIC),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
        ("n", "broker-a"),
    ]
    .map(|(name, value)| (name.to_string(), value.to_string()))
    .into();
    let tag = ["é\"\\", "TagA", "/"][dice.below(3)];
    fields.insert("i".into(), format!("TAGS\x01{tag}\x02WAIT\x01true\x02"));
    if dice.below(4) == 0 {
        fields.insert("Zz".into(), "x".repeat(dice.below(200)));
    }
    if let Some((name, secret)) = who.map(|who| KEYS[who]) {
        fields.insert("AccessKey".into(), name.into());
        let right = signature(secret, signed_text(&fields).as_bytes(), body);
        fields.insert("Signature".into(), right);
    }
    let opaque = dice.below(1 << 20);
    if dice.below(2) == 0 {
        let ext = serde_json::to_string(&fields).unwrap();
        let header = format!(
            r#"{{"code":310,"extFields":{ext},"flag":0,"language":"JAVA","opaque":{opaque},"version":479}}"#
        );
        return frame(0, header.as_bytes(), body);
    }
    let mut ext = Vec::new();
    for (name, value) in &fields {
        ext.extend((name.len() as u16).to_be_bytes());
        ext.extend(name.bytes());
        ext.extend((value.len() as u32).to_be_bytes());
        ext.extend(value.bytes());
    }
    let mut header = 310_i16.to_be_bytes().to_vec();
    header.push(0);
    header.extend(479_i16.to_be_bytes());
    header.extend((opaque as i32).to_be_bytes());
    header.extend([0; 8]); // flag, and no remark
    header.extend((ext.len() as u32).to_be_bytes());
    header.extend(ext);
    frame(1, &header, body)
}

impl Rig {
    fn new() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let mut config = StoreConfig::new(dir.path());
        config.commit_log_file_size = LOG_FILE;
        config.consume_queue_file_size = 20 * 500;
        config.max_message_size = 4096;
        (config.index_slots, config.index_entries) = (50, 500);
        let store = Store::open(config).unwrap();
        store
            .topics()
            .topic(TOPIC.as_bytes())
            .unwrap()
            .set(Some(TopicSettings {
                read_queues: 4,
                write_queues: 4,
                multi_tag: false,
                sendable: true,
            }));
        let keyring = Arc::new(Keyring::default());
        keyring.replace(KEYS).unwrap();
        Rig {
            context: Arc::new(Context::new(
                Broker::new(store, None, "DefaultRegion", "C", true),
                "DefaultRegion",
                true,
            )),
            keyring,
            _dir: dir,
        }
    }

    fn run(&self, data: &[u8]) {
        let mut dice = Dice::of(data);
        let mut stream = Vec::new();
        let mut rest = data;
        // Frames that are right stand in front until one is not.
        let (mut right, mut all_right) = (0, true);
        while let Some((kind, more)) = rest.split_first() {
            let (body, more) = more.split_at(dice.below(more.len() + 1).min(300));
            rest = more;
            let body = &[&[*kind], body].concat()[..];
            let mut made = match kind % 8 {
                0..4 => send(&mut dice, Some(0), body),
                4 => send(&mut dice, Some(1), body),
                5 => send(&mut dice, None, body),
                6 => send(&mut dice, Some(0), body),
                _ => body.to_vec(),
            };
            let is_right = kind % 8 < 4;
            if kind % 8 == 6 {
                let at = dice.below(made.len());
                made[at] ^= 1 + dice.below(255) as u8;
            }
            all_right &= is_right;
            right += usize::from(all_right);
            stream.extend(made);
        }
        let budget = Arc::new(Budget::new(usize::MAX));
        let host = Host::new("10.1.2.3:4567".parse().unwrap());
        let mut session = Session::new(Some(self.context.clone()), budget, host)
            .with_keyring(self.keyring.clone());
        assert!(session.grant_access(SEND | END_TRANSACTION, KEYS[0].0, TOPIC));
        let (mut commands, mut out) = (Vec::new(), Vec::new());
        let pieces = match dice.below(3) {
            0 => dice.pieces(&stream, 700),
            _ => vec![&stream[..]],
        };
        for piece in pieces {
            let mut fine = session.feed(piece, 0, &mut out).is_ok();
            loop {
                while let Some(command) = session.next_command() {
                    let named = session.subject_of(&command).map(str::to_string);
                    commands.push((command, named));
                }
                if !fine || !session.has_more() {
                    break;
                }
                fine = session.feed(&[], 0, &mut out).is_ok();
            }
            if !fine {
                break;
            }
        }
        check(&stream, &commands, right);
    }
}

fn check(stream: &[u8], commands: &[(Command, Option<String>)], right: usize) {
    let mut commands = commands.iter().peekable();
    let (mut at, mut n) = (0, 0);
    while let Ok(Some(parts)) = split(&stream[at..]) {
        let frame = &stream[at..at + parts.total];
        let mut header = Header::default();
        if header.read(parts.codec, frame, parts.header_end).is_err() {
            break;
        }
        let signed = signer(&header, frame, &frame[parts.header_end..]);
        if commands.peek().is_some_and(|(c, _)| c.frame == frame) {
            assert!(n >= right, "a send that is right was not answered");
            let (_, named) = commands.next().expect("seen");
            if let Some(named) = named {
                assert_eq!(Some(named.as_str()), signed);
            }
        } else {
            assert_eq!(signed, Some(KEYS[0].0), "it was answered");
        }
        at += parts.total;
        n += 1;
    }
    assert!(commands.next().is_none());
}
