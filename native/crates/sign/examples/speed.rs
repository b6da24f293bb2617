//! How long a signature takes: `cargo run --release -p pyrmq-sign --example speed`.
//!
//! For so many messages at once, nanoseconds a message: by `macs`, one after the other by `Key`, and by the
//! crates `hmac` and `sha1`. The least of many turns, so that others on the machine count little.

use hmac::{Hmac, KeyInit, Mac};
use pyrmq_sign::{Job, Key, MOST, macs};
use sha1::Sha1;
use std::hint::black_box;
use std::time::Instant;

const SECRET: &[u8] = b"12345678";
const HEAD: usize = 250;
const TURNS: usize = 3000;

fn least(messages: usize, mut work: impl FnMut()) -> f64 {
    let took = (0..TURNS).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed().as_nanos()
    });
    took.min().unwrap_or_default() as f64 / messages as f64
}

fn main() {
    let key = Key::new(SECRET);
    let library = Hmac::<Sha1>::new_from_slice(SECRET).expect("any length will do");
    for body in [128, 1024, 4096] {
        for messages in [1, 4, 5, 8, 12, MOST] {
            let texts: Vec<Vec<u8>> = (0..messages).map(|n| vec![n as u8; HEAD + body]).collect();
            let jobs: Vec<_> = texts
                .iter()
                .map(|text| Job {
                    key: &key,
                    head: &text[..HEAD],
                    body: &text[HEAD..],
                })
                .collect();
            let ours = least(messages, || {
                black_box(macs(black_box(&jobs)));
            });
            let alone = least(messages, || {
                for job in black_box(&jobs) {
                    black_box(key.mac(job.head, job.body));
                }
            });
            let theirs = least(messages, || {
                for text in black_box(&texts) {
                    let mut one = library.clone();
                    one.update(text);
                    black_box(one.finalize().into_bytes());
                }
            });
            println!(
                "{body:4} B x {messages:2}: {ours:5.0} ns, one by one {alone:5.0}, library {theirs:5.0}"
            );
        }
    }
}
