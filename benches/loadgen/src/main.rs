//! `loadgen`: a load generator for RocketMQ's remoting protocol, one thread, one epoll.
//!
//! It shares a machine with the broker it measures, so it has to cost far less than that broker:
//! frames are encoded once and patched (opaque, queue, message id), every wake-up reads all
//! answers that arrived and sends all new requests with one system call each, and the clock is
//! read once per wake-up of a connection. Every answer is checked all the same.
//!
//! The result is one JSON line on stdout. Exit status: 0 all answers were good, 1 the broker
//! refused some requests (the line tells how many and why) or did not deliver all that was
//! committed, 2 the run failed.

mod args;
mod conn;
mod drive;
mod frame;
mod idle;
mod measure;
mod probe;
mod pull;
mod send;
mod transaction;

use std::process::ExitCode;

use args::{Args, Mode};

fn run(args: &Args) -> Result<bool, String> {
    match args.mode {
        Mode::Idle => idle::run(args),
        Mode::Send | Mode::SendBatch => {
            let mut load = send::SendLoad::new(args);
            finish(args, drive::drive(args, &mut load)?, "")
        }
        Mode::Pull => {
            let mut load = pull::PullLoad::new(args);
            finish(args, drive::drive(args, &mut load)?, "")
        }
        Mode::Transaction => {
            let mut load = transaction::TransactionLoad::new(args)?;
            let report = drive::drive(args, &mut load)?;
            let outcome = load.outcome();
            let good = finish(args, report, &outcome.json())?;
            Ok(good && outcome.complete())
        }
    }
}

fn finish(args: &Args, report: measure::Report, more: &str) -> Result<bool, String> {
    println!("{}", report.json(args, more));
    Ok(report.refused == 0)
}

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args().skip(1)) {
        Ok(Some(args)) => args,
        Ok(None) => {
            print!("{}", args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(what) => {
            eprintln!("loadgen: {what}\n\n{}", args::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(what) => {
            eprintln!("loadgen: {what}");
            ExitCode::from(2)
        }
    }
}
