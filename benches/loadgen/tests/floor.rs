//! The floor as a process: under the generator's load, and under frames of another kind.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

struct Floor {
    process: Child,
    addr: String,
    dir: PathBuf,
}

impl Floor {
    fn start(name: &str, more: &[&str]) -> Floor {
        let dir = std::env::temp_dir().join(format!("loadgen-{name}-{}", std::process::id()));
        let mut process = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(["floor", "--dir", dir.to_str().unwrap()])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port: u16 = line.strip_prefix("port ").unwrap().trim().parse().unwrap();
        let addr = format!("127.0.0.1:{port}");
        Floor { process, addr, dir }
    }

    fn load(&self, line: &str) -> String {
        let mut words = line.split(' ');
        let out = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .arg(words.next().unwrap())
            .args(["--addr", &self.addr])
            .args(words)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// SIGTERM; it leaves nothing behind.
    fn stop(mut self) {
        let pid = self.process.id() as libc::pid_t;
        // SAFETY: it is our child and has not been waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        assert!(self.process.wait().unwrap().success());
        assert!(files(&self.dir).is_empty());
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.process.kill(); // nothing when it has ended
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|e| e.unwrap().path()).collect()
}

#[test]
fn every_load_is_answered() {
    for more in [&[][..], &["--sync"]] {
        let floor = Floor::start("loads", more);
        for line in [
            "send --count 2000",
            "send --count 5000 --connections 8 --in-flight 128 --body 3000",
            "send --count 5000 --connections 300",
            "send --count 20 --in-flight 3 --body 1000000",
            "send-batch --count 3200 --batch 32 --in-flight 4",
        ] {
            let text = floor.load(line);
            let count = line.split(' ').nth(2).unwrap();
            let wanted = format!("\"messages\":{count},");
            assert!(text.contains(&wanted), "{line}: {text}");
            assert!(text.contains("\"refused\":0"), "{line}: {text}");
        }
        floor.stop();
    }
}

/// A request with a binary header.
fn binary(code: i16, flag: i32, opaque: i32, body: &[u8]) -> Vec<u8> {
    let mut header = code.to_be_bytes().to_vec();
    header.extend([0, 1, 0xdf]);
    header.extend(opaque.to_be_bytes());
    header.extend(flag.to_be_bytes());
    header.extend([0; 8]); // no remark, no fields
    let mut out = ((4 + header.len() + body.len()) as u32)
        .to_be_bytes()
        .to_vec();
    out.extend((header.len() as u32 | 1 << 24).to_be_bytes());
    out.extend(header);
    out.extend(body);
    out
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut rest = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut rest).unwrap();
    rest
}

#[test]
fn bodies_lie_behind_each_other() {
    let floor = Floor::start("bodies", &[]);
    let mut stream = TcpStream::connect(&floor.addr).unwrap();
    let frames = [
        binary(310, 0, 77, b"first"),
        binary(37, 2, 78, b"one-way"),
        binary(34, 0, 79, b"heartbeat"),
        binary(105, 0, 80, b""),
        binary(310, 0, -81, b"second"),
    ]
    .concat();
    for piece in frames.chunks(5) {
        stream.write_all(piece).unwrap();
    }
    for (opaque, code) in [(77i32, 0i16), (79, 0), (80, 3), (-81, 0)] {
        let rest = read_frame(&mut stream);
        assert_eq!(rest[0], 1, "serialize type");
        assert_eq!(rest[4..6], code.to_be_bytes());
        assert_eq!(rest[9..13], opaque.to_be_bytes());
    }
    let log = File::open(&files(&floor.dir)[0]).unwrap();
    assert_eq!(log.metadata().unwrap().len(), 1 << 30);
    let mut written = [1; 12];
    log.read_exact_at(&mut written, 0).unwrap();
    assert_eq!(&written, b"firstsecond\0");
    // Nonsense ends its own connection only.
    stream.write_all(&[0xff; 16]).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    floor.load("send --count 10");
}
