//! Pulls that one connection was granted, found by what their frames say.
//!
//! Two pulls are alike if all that the broker checks is the same, byte for byte: the fields of `ALIKE`.

use super::access::Verified;
use super::frame::Parts;
use super::header::Header;
use super::reply::{self, To};
use crate::{Broker, Grant, PullGrants};
use pyrmq_format::parse_i64;
use pyrmq_store::Learnt;
use std::collections::HashMap;
use std::sync::Arc;

pub const PULL_MESSAGE: i32 = 11;
pub const LITE_PULL_MESSAGE: i32 = 361;

/// The ext fields that decide whether a pull is allowed, and of what. [PullMessageRequestHeader]
pub const ALIKE: [&[u8]; 7] = [
    b"consumerGroup",
    b"topic",
    b"queueId",
    b"sysFlag",
    b"subscription",
    b"subVersion",
    b"expressionType",
];
const SYS_FLAG: usize = 3;
/// Bit of sysFlag: commitOffset counts. [PullSysFlag]
const COMMIT_OFFSET: i64 = 1;

/// Bytes of messages that are copied into an answer; larger ones go to the socket from the log's mapping,
/// which the broker in Python does.
const MAX_BYTES: usize = 64 << 10;
/// Bytes of answers that one feed gives.
const MAX_ANSWERS: usize = 256 << 10;
/// Pulls that one feed answers.
const MAX_PULLS: usize = 64;
/// Bytes of the grants that a connection keeps.
const MAX_KEPT: usize = 512 << 10;
/// A key longer than this is not kept: a subscription may be long.
const MAX_KEY: usize = 1 << 10;

/// What is different in each pull.
struct Wanted {
    offset: i64,
    max_count: i32,
    commit: Option<i64>,
}

struct Kept {
    grant: Arc<Grant>,
    learnt: Learnt,
    /// Of the keyring, when it was granted.
    generation: u64,
}

/// The grants of one connection.
#[derive(Default)]
pub struct Grants {
    by_key: HashMap<Box<[u8]>, Kept>,
    /// Bytes of all of them.
    kept: usize,
    /// Where they are counted.
    shared: Option<Arc<PullGrants>>,
}

impl Grants {
    /// From now on pulls of this code with these values of `ALIKE` are answered, if `signer` has signed
    /// them, and if there is memory for one more.
    pub fn keep(
        &mut self,
        shared: &Arc<PullGrants>,
        code: i32,
        fields: &[Option<&[u8]>; ALIKE.len()],
        signer: Option<&Verified>,
        grant: Arc<Grant>,
    ) {
        let mut key = Vec::new();
        push_key(&mut key, code, fields, signer);
        if key.len() > MAX_KEY {
            return;
        }
        self.forget(&key);
        let size = size_of_entry(&key, &grant);
        if self.kept + size > MAX_KEPT {
            let revoked = |grant: &Arc<Grant>| !shared.is_good(grant);
            let old: Vec<_> = self.keys_if(revoked).collect();
            old.iter().for_each(|key| self.forget(key));
        }
        while self.kept + size > MAX_KEPT {
            let Some(any) = self.keys_if(|_| true).next() else {
                return;
            };
            self.forget(&any);
        }
        if shared.reserve(size) {
            self.shared = Some(shared.clone());
            self.kept += size;
            let kept = Kept {
                grant,
                learnt: Learnt::default(),
                generation: signer.map_or(0, |s| s.generation),
            };
            self.by_key.insert(key.into(), kept);
        }
    }

    fn keys_if(&self, which: impl Fn(&Arc<Grant>) -> bool) -> impl Iterator<Item = Box<[u8]>> {
        let chosen = self
            .by_key
            .iter()
            .filter(move |(_, kept)| which(&kept.grant));
        chosen.map(|(key, _)| key.clone())
    }

    fn forget(&mut self, key: &[u8]) {
        if let Some(kept) = self.by_key.remove(key) {
            self.give_back(size_of_entry(key, &kept.grant));
        }
    }

    fn give_back(&mut self, bytes: usize) {
        self.kept -= bytes;
        if let Some(shared) = &self.shared {
            shared.give_back(bytes);
        }
    }

    /// Appends the answer to a pull that is granted to its signer; how many messages it has, and bytes of
    /// their records. None if the broker in Python has to answer.
    #[allow(clippy::too_many_arguments)]
    pub fn answer(
        &mut self,
        broker: &Broker,
        header: &Header,
        frame: &[u8],
        parts: &Parts,
        signer: Option<&Verified>,
        memory: &mut PullMemory,
        out: &mut Vec<u8>,
    ) -> Option<(usize, usize)> {
        let PullMemory { key, answered } = memory;
        let is_full = out.len() > MAX_ANSWERS || *answered >= MAX_PULLS;
        if self.by_key.is_empty() || header.is_oneway() || is_full {
            return None;
        }
        let wanted = read(header, frame, signer, key)?;
        let kept = self.by_key.get(&key[..])?;
        let Kept { grant, learnt, .. } = kept;
        let is_good = kept.generation == signer.map_or(0, |s| s.generation);
        if !is_good || !broker.pulls().is_good(grant) {
            self.forget(key);
            return None;
        }
        *answered += 1;
        let (offset, count) = (wanted.offset, wanted.max_count);
        let got = broker.pull(grant, offset, count, MAX_BYTES, wanted.commit, learnt)?;
        let to = To {
            codec: parts.codec,
            opaque: header.opaque,
        };
        reply::push_pulled(out, to, &got);
        Some((got.count, got.bytes))
    }
}

impl Drop for Grants {
    fn drop(&mut self) {
        self.give_back(self.kept);
    }
}

/// Memory that one pull after the other uses, and how many of a feed were looked for.
#[derive(Default)]
pub struct PullMemory {
    key: Vec<u8>,
    pub answered: usize,
}

/// Bytes that a grant takes with its key, about.
fn size_of_entry(key: &[u8], grant: &Grant) -> usize {
    128 + key.len() + grant.size()
}

fn push_key(
    key: &mut Vec<u8>,
    code: i32,
    fields: &[Option<&[u8]>; ALIKE.len()],
    signer: Option<&Verified>,
) {
    key.clear();
    key.extend_from_slice(&code.to_be_bytes());
    for field in fields {
        let len = field.map_or(u32::MAX, |f| f.len() as u32);
        key.extend_from_slice(&len.to_be_bytes());
        key.extend_from_slice(field.unwrap_or_default());
    }
    // Behind all fields, whose number is the same in all keys.
    key.extend_from_slice(signer.map_or("", |s| s.subject.name()).as_bytes());
}

/// Reads a pull; `key` is what it is found by. None if something is missing or written in an unusual way.
fn read(
    header: &Header,
    frame: &[u8],
    signer: Option<&Verified>,
    key: &mut Vec<u8>,
) -> Option<Wanted> {
    let mut alike: [Option<&[u8]>; ALIKE.len()] = [None; ALIKE.len()];
    let (mut offset, mut max_count, mut commit) = (None, None, None);
    for (name, value) in &header.ext {
        if name.escaped || value.escaped {
            return None;
        }
        let value = value.bytes(frame);
        match name.bytes(frame) {
            b"queueOffset" => offset = Some(value),
            b"maxMsgNums" => max_count = Some(value),
            b"commitOffset" => commit = Some(value),
            name => {
                if let Some(i) = ALIKE.iter().position(|alike| *alike == name) {
                    alike[i] = Some(value);
                }
            }
        }
    }
    push_key(key, header.code, &alike, signer);
    let commits = parse_i64(alike[SYS_FLAG]?)? & COMMIT_OFFSET != 0;
    Some(Wanted {
        offset: parse_i64(offset?)?,
        max_count: parse_i64(max_count?)?.try_into().ok()?,
        commit: match commits {
            true => Some(parse_i64(commit?)?).filter(|&offset| offset >= 0),
            false => None,
        },
    })
}
