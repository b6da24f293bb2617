//! What an evaluation costs. On a quiet core:
//! `taskset -c 1 cargo test --release --lib sql::speed -- --ignored --nocapture`

use super::Program;
use crate::properties;
use std::hint::black_box;
use std::time::Instant;

/// Rounds are short, so that some of them meet no interruption.
const EVALUATIONS: u32 = 10_000;
const ROUNDS: usize = 200;

type Pairs = [(&'static str, &'static str)];

/// About 100 bytes, as a client sends and a broker adds them.
fn props(pairs: &Pairs) -> Vec<u8> {
    let mut text = Vec::new();
    let usual = [
        ("UNIQ_KEY", "AC110001000118B4AAC2000000000001"),
        ("WAIT", "true"),
        ("TAGS", "TagA"),
    ];
    for (name, value) in usual.iter().chain(pairs) {
        properties::push(&mut text, name.as_bytes(), value.as_bytes());
    }
    text
}

#[test]
#[ignore = "a measurement"]
fn evaluations_per_second() {
    let wide: Vec<String> = (0..40).map(|i| format!("n{i} = 1")).collect();
    let named: Vec<String> = (0..1000).map(|i| format!("'text{i}'")).collect();
    let many = format!("b IN ({}, 'abc')", named.join(", "));
    let plain = [
        ("a", "7"),
        ("b", "abc"),
        ("region", "eu-west-1"),
        ("kind", "order"),
    ];
    let umlauts = [
        ("a", "7"),
        ("b", "abc"),
        ("region", "Köln-Süd"),
        ("kind", "日本語"),
    ];
    let cases: [(&str, &str, &Pairs); 10] = [
        ("a > 5 AND b = 'abc'", "a > 5 AND b = 'abc'", &plain),
        ("the same, not ASCII", "a > 5 AND b = 'abc'", &umlauts),
        ("the same, first side FALSE", "a > 50 AND b = 'abc'", &plain),
        ("a > 5.5 AND b = 'abc'", "a > 5.5 AND b = 'abc'", &plain),
        ("a BETWEEN 1 AND 9", "a BETWEEN 1 AND 9", &plain),
        ("b CONTAINS 'bc'", "b CONTAINS 'bc'", &plain),
        (
            "region IN, 3 texts",
            "region IN ('us', 'eu-west-1', 'x')",
            &plain,
        ),
        ("b IN, 1001 texts", &many, &plain),
        ("an absent property", "zone = 'x'", &plain),
        ("40 names joined by OR", &wide.join(" OR "), &plain),
    ];
    println!("millions of evaluations per second, best of {ROUNDS}");
    for (title, expression, pairs) in cases {
        let program = Program::compile(expression).unwrap();
        let props = props(pairs);
        let round = |_| {
            let start = Instant::now();
            for _ in 0..EVALUATIONS {
                black_box(program.matches(black_box(&props)));
            }
            start.elapsed().as_nanos() as f64 / f64::from(EVALUATIONS)
        };
        let best = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
        println!(
            "  {title:28} {:7.2}  ({best:.0} ns, {} bytes)",
            1e3 / best,
            props.len()
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn compilations_per_second() {
    let long = vec!["a = 1 AND b <> 'x'"; 16_384 / 24].join(" OR ");
    for expression in ["a > 5 AND b = 'abc'", &long] {
        let round = |_| {
            let start = Instant::now();
            black_box(Program::compile(black_box(expression)).unwrap());
            start.elapsed().as_nanos()
        };
        let best = (0..ROUNDS).map(round).min().unwrap();
        println!("{} bytes: {best} ns for a compilation", expression.len());
    }
}
