//! What a process uses, by /proc.

use std::fs;

/// A look at a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    pub cpu_seconds: f64,
    pub rss: u64,
    /// Bytes read from storage and written to it; none where that may not be read.
    pub read: Option<u64>,
    pub written: Option<u64>,
    /// When it was started, in ticks since the boot: a number may be used again.
    started: u64,
}

/// A process that is watched through a window. It may end meanwhile.
pub struct Watched {
    pub pid: u32,
    pub name: String,
    pub first: Look,
    pub last: Look,
    pub max_rss: u64,
    pub ended: bool,
}

impl Watched {
    /// An error where there is no such process.
    pub fn new(pid: u32) -> Result<Watched, String> {
        let look = look(pid).ok_or_else(|| format!("--pid {pid}: there is no such process"))?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Ok(Watched {
            pid,
            name: name.trim_end().to_string(),
            first: look,
            last: look,
            max_rss: look.rss,
            ended: false,
        })
    }

    /// The window begins.
    pub fn begin(&mut self) {
        self.look();
        self.first = self.last;
        self.max_rss = self.last.rss;
    }

    pub fn look(&mut self) {
        if self.ended {
            return;
        }
        match look(self.pid) {
            Some(now) if now.started == self.last.started => {
                self.last = now;
                self.max_rss = self.max_rss.max(now.rss);
            }
            _ => self.ended = true,
        }
    }
}

/// `None`: there is no such process, or it has ended and waits for its parent.
fn look(pid: u32) -> Option<Look> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut look = stat(&text)?;
    if let Ok(io) = fs::read_to_string(format!("/proc/{pid}/io")) {
        let field = |name: &str| {
            let line = io.lines().find_map(|l| l.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        look.read = field("read_bytes:");
        look.written = field("write_bytes:");
    }
    Some(look)
}

/// The fields of /proc/PID/stat: state 3, utime 14, stime 15, starttime 22, rss 24. [proc(5)]
fn stat(text: &str) -> Option<Look> {
    // The name may hold blanks and brackets: count from the last bracket.
    let rest = text.get(text.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let hertz = rustix::param::clock_ticks_per_second() as f64;
    Some(Look {
        cpu_seconds: (number(14)? + number(15)?) as f64 / hertz,
        rss: number(24)? * rustix::param::page_size() as u64,
        read: None,
        written: None,
        started: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn our_own_process_is_there() {
        let mut own = Watched::new(std::process::id()).unwrap();
        assert!(own.first.rss > 0 && !own.name.is_empty());
        own.begin();
        own.look();
        assert!(!own.ended && own.last.cpu_seconds >= own.first.cpu_seconds);
    }

    #[test]
    fn a_process_that_ends_keeps_its_last_look() {
        assert!(Watched::new(u32::MAX).is_err());
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut watched = Watched::new(child.id()).unwrap();
        watched.begin();
        let before = watched.last;
        child.kill().unwrap();
        child.wait().unwrap();
        watched.look();
        assert!(watched.ended);
        assert_eq!(watched.last, before);
    }

    #[test]
    fn names_with_brackets_are_read() {
        let line =
            "12 (a) b (c) S 1 12 12 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 777 1000 33 9 0";
        let look = stat(line).unwrap();
        assert_eq!(look.started, 777);
        assert!(look.cpu_seconds > 0.0 && look.rss >= 33 * 4096);
        assert_eq!(stat("12 (a) Z 1"), None);
        assert_eq!(stat(""), None);
    }
}
