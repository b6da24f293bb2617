//! What copying with a CRC costs, in ns per record. On a quiet core:
//! `taskset -c 1 cargo test --release --lib crc_copy::bench -- --ignored --nocapture`

use super::tests::{copy_at, crc_at, levels};
use std::hint::black_box;
use std::time::Instant;

const BODY: usize = 1024;
/// Distance between records: what stands around the bodies keeps them off the cache lines' borders.
const RECORD: usize = BODY + 191;
const LOG: usize = 256 << 20;
const ROUNDS: usize = 9;

/// A way to copy and to say the CRC.
type Copy = Box<dyn Fn(&mut [u8], &[u8]) -> u32>;

/// Rounds of all ways take turns, so that a busy moment of the machine hits all of them.
fn compare(title: &str, names: &[String], mut round: impl FnMut(usize) -> f64) {
    let mut times = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            times.push(round(way));
        }
    }
    println!("{title}: ns, median and least of {ROUNDS}");
    for (name, times) in names.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        println!("  {name:18} {:9.1} {:9.1}", times[ROUNDS / 2], times[0]);
    }
}

fn append_all(copy: &Copy, log: &mut [u8], source: &[u8]) -> f64 {
    let bodies = source.chunks_exact(BODY).cycle();
    let start = Instant::now();
    for (to, body) in log.chunks_exact_mut(RECORD).zip(bodies) {
        black_box(copy(&mut to[88..88 + BODY], black_box(body)));
        to[..88].fill(1);
        to[88 + BODY..].fill(2);
    }
    start.elapsed().as_nanos() as f64 / (log.len() / RECORD) as f64
}

#[test]
#[ignore = "a measurement"]
fn copies_of_1_kib_into_a_log() {
    let mut ways: Vec<(String, Copy)> = vec![
        (
            "copy alone".into(),
            Box::new(|to, from| {
                to.copy_from_slice(from);
                0
            }),
        ),
        (
            "copy, crc32fast".into(),
            Box::new(|to, from| {
                to.copy_from_slice(from);
                crc32fast::hash(from)
            }),
        ),
    ];
    for level in levels() {
        let way: Copy = Box::new(move |to, from| copy_at(level, to, from));
        ways.push((format!("fused, level {level}"), way));
    }
    let names: Vec<String> = ways.iter().map(|w| w.0.clone()).collect();
    let file = tempfile::tempfile().unwrap();
    file.set_len(LOG as u64).unwrap();
    // SAFETY: the file has no name, so that nobody else changes it.
    let mapped = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    let memory = memmap2::MmapMut::map_anon(LOG).unwrap();
    for (kind, mut log) in [("file", mapped), ("memory", memory)] {
        log.fill(3); // faults all pages in
        for kib in [32, 128, 1024] {
            let source = vec![5; kib << 10];
            let title = format!("1 KiB from {kib} KiB into 256 MiB of {kind}");
            compare(&title, &names, |way| {
                append_all(&ways[way].1, &mut log, &source)
            });
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn crc_alone() {
    for len in [64, 256, 1024, 4096, 1 << 20] {
        let text = vec![7; len];
        let times = ((16 << 20) / len).min(100_000);
        let mut names = vec!["crc32fast".to_string()];
        names.extend(levels().iter().map(|l| format!("level {l}")));
        compare(&format!("CRC of {len} bytes"), &names, |way| {
            let start = Instant::now();
            for _ in 0..times {
                black_box(match way {
                    0 => crc32fast::hash(black_box(&text)),
                    level => crc_at(level as u8, black_box(&text)),
                });
            }
            start.elapsed().as_nanos() as f64 / times as f64
        });
    }
}
