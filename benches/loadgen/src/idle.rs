//! Connections that say nothing.
//!
//! When all are open, `open N` goes to stderr, so that whoever started this can begin to measure.

use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::conn::{allow_files, connect, Poll, CLOSED, READ};
use crate::measure::own_cpu;

const STDIN: usize = usize::MAX;

/// `false` when the broker closed some of the connections.
pub fn run(args: &Args) -> Result<bool, String> {
    allow_files(args.connections as u64 + 64)?;
    let mut poll = Poll::new()?;
    let began = Instant::now();
    let mut streams = Vec::with_capacity(args.connections);
    for index in 0..args.connections {
        let stream = connect(args.addr).map_err(|e| format!("connection {index}: {e}"))?;
        poll.add(stream.as_raw_fd(), READ | CLOSED, index)?;
        streams.push(stream);
    }
    let opening = began.elapsed().as_secs_f64();
    if args.stdin {
        poll.add(0, READ, STDIN)?;
    }
    eprintln!("open {}", streams.len());
    let held = Instant::now();
    let end = held + Duration::from_secs_f64(args.seconds.unwrap_or(3.0));
    let mut closed = 0;
    'hold: while Instant::now() < end {
        for i in 0..poll.wait(100)? {
            match poll.event(i).0 {
                STDIN => break 'hold,
                index => {
                    poll.remove(streams[index].as_raw_fd())?;
                    closed += 1;
                }
            }
        }
    }
    println!(
        "{{\"mode\":\"idle\",\"connections\":{},\"closed_by_broker\":{closed},\
         \"opening_seconds\":{opening:.4},\"seconds\":{:.4},\"own_cpu_seconds\":{:.4}}}",
        streams.len(),
        held.elapsed().as_secs_f64(),
        own_cpu(),
    );
    Ok(closed == 0)
}
