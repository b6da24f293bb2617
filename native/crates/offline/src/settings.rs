//! The small files: lock, checkpoint and the JSON below `config/`.

use super::findings::{Findings, Severity};
use pyrmq_format::checkpoint::{self, Checkpoint};
use pyrmq_format::json::{self, Value};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest configuration file that is read.
const MAX_JSON: u64 = 256 << 20;
const MAX_VALUES: usize = 1 << 24;

/// JSON files without that ending; other files below `config/` are not JSON. [ConfigManager]
const JSON_NAMES: [&str; 2] = ["transactionMetrics", "timermetrics"];

pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut out = Vec::new();
    file.take(limit).read_to_end(&mut out)?;
    Ok(out)
}

/// Whether a broker has the store open: asks for its lock without taking it.
pub fn is_locked(root: &Path) -> io::Result<bool> {
    let file = match File::open(root.join("lock")) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    // SAFETY: `flock` is plain data for which all-zero is a valid value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_len = 1;
    // SAFETY: the descriptor is open and `range` outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut range) } {
        0 => Ok(range.l_type != libc::F_UNLCK as libc::c_short),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The checkpoint and the file's length; None where no file is or it is shorter than its fields.
pub fn read_checkpoint(root: &Path) -> io::Result<(Option<Checkpoint>, u64)> {
    let path = root.join("checkpoint");
    let len = path.metadata()?.len();
    let bytes = read_small(&path, checkpoint::SIZE as u64)?;
    Ok((Checkpoint::read(&bytes), len))
}

/// Checks the file; without a readable one everything counts as unknown.
pub fn check_checkpoint(root: &Path, empty: bool, out: &mut Findings) -> Checkpoint {
    match read_checkpoint(root) {
        Ok((Some(point), len)) => {
            if len != checkpoint::SIZE as u64 {
                let text = format!("{len} bytes, {} are expected", checkpoint::SIZE);
                out.add(Severity::Warning, "checkpoint", "checkpoint", None, text);
            }
            let fields = [
                point.physic_msg_timestamp,
                point.logics_msg_timestamp,
                point.index_msg_timestamp,
                point.master_flushed_offset,
                point.confirm_phy_offset,
            ];
            if let Some(i) = fields.iter().position(|&f| f < -1) {
                let text = format!("field {i} is negative: {}", fields[i]);
                out.damage("checkpoint", "checkpoint", i as u64 * 8, text);
            }
            return point;
        }
        Ok((None, len)) => out.damage(
            "checkpoint",
            "checkpoint",
            None,
            format!("{len} bytes are too short; without one the next start reads the whole log"),
        ),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            if !empty {
                let text = "there is none: the next start reads the whole log".to_owned();
                out.add(Severity::Warning, "checkpoint", "checkpoint", None, text);
            }
        }
        Err(e) => out.damage(
            "checkpoint",
            "checkpoint",
            None,
            format!("cannot be read: {e}"),
        ),
    }
    Checkpoint::default()
}

fn read_json(path: &Path) -> Result<Value, String> {
    let text = read_small(path, MAX_JSON).map_err(|e| format!("cannot be read: {e}"))?;
    match json::parse(&text, MAX_VALUES).map_err(|e| format!("is no JSON: {e}"))? {
        value @ Value::Object(_) => Ok(value),
        _ => Err("is no JSON object".to_owned()),
    }
}

/// A configuration file or, as brokers do it, its backup.
fn read_either(root: &Path, name: &str) -> Option<Value> {
    let path = root.join("config").join(name);
    let backup = root.join("config").join(format!("{name}.bak"));
    read_json(&path).or_else(|_| read_json(&backup)).ok()
}

/// Checks that every JSON file below `config/` can be read.
pub fn check_config(root: &Path, out: &mut Findings) {
    let Ok(entries) = std::fs::read_dir(root.join("config")) else {
        return;
    };
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = name.strip_suffix(".bak").unwrap_or(&name).to_owned();
        if name.ends_with(".json") || JSON_NAMES.contains(&name.as_str()) {
            names.insert(name);
        }
    }
    for name in names {
        let path = root.join("config").join(&name);
        let shown = format!("config/{name}");
        let Err(why) = read_json(&path) else { continue };
        match read_json(&path.with_file_name(format!("{name}.bak"))) {
            Ok(_) => {
                let text = format!("{why}; the next start takes {name}.bak");
                out.add(Severity::Warning, "config", &shown, None, text);
            }
            Err(_) => out.damage("config", &shown, None, format!("{why}, nor can its .bak")),
        }
    }
}

fn member<'v>(value: &'v Value, name: &str) -> Option<&'v [(Value, Value)]> {
    let Value::Object(members) = value else {
        return None;
    };
    match members
        .iter()
        .find(|(k, _)| matches!(k, Value::Text(t) if t == name))
    {
        Some((_, Value::Object(inner))) => Some(inner),
        _ => None,
    }
}

/// Topics that the broker knows; None if that cannot be said.
pub fn known_topics(root: &Path) -> Option<BTreeSet<String>> {
    let value = read_either(root, "topics.json")?;
    let table = member(&value, "topicConfigTable")?;
    let names = table.iter().filter_map(|(k, _)| match k {
        Value::Text(name) => Some(name.clone()),
        _ => None,
    });
    Some(names.collect())
}

/// Committed offsets: (group, topic, queue id, next offset).
pub fn committed_offsets(root: &Path) -> Vec<(String, String, u32, i64)> {
    let mut out = Vec::new();
    let Some(value) = read_either(root, "consumerOffset.json") else {
        return out;
    };
    for (key, queues) in member(&value, "offsetTable").unwrap_or_default() {
        let (Value::Text(key), Value::Object(queues)) = (key, queues) else {
            continue;
        };
        let Some((topic, group)) = key.split_once('@') else {
            continue;
        };
        for (id, offset) in queues {
            let id = match id {
                Value::Int(id) => u32::try_from(*id).ok(),
                Value::Text(id) => id.parse().ok(),
                _ => None,
            };
            if let (Some(id), Value::Int(offset)) = (id, offset) {
                out.push((group.to_owned(), topic.to_owned(), id, *offset));
            }
        }
    }
    out
}
