//! Requests that are signed, for brokers with access control. [AclClientRPCHook, AclUtils]

use crate::field::Field;
use crate::field::Value::{Int, Text};
use pyrmq_format::push_int;
use pyrmq_sign::{Job, Key, MOST, SIGNATURE, encode, macs};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Stands where a signature is written over.
pub const SIGNATURE_MARK: &str = "!!!!!!!!!!!!!!!!!!!!!!!!!!!!";
const _: () = assert!(SIGNATURE_MARK.len() == SIGNATURE);

/// Who sends the requests.
#[derive(Clone)]
pub struct Credentials {
    pub access_key: String,
    /// Empty: none.
    pub security_token: String,
    key: Arc<Key>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Credentials")
            .field(&self.access_key)
            .finish()
    }
}

impl Credentials {
    pub fn new(access_key: String, secret_key: &str, security_token: String) -> Self {
        Credentials {
            access_key,
            security_token,
            key: Arc::new(Key::new(secret_key.as_bytes())),
        }
    }

    /// What is wrong with them.
    pub fn check(&self) -> Result<(), String> {
        if self.access_key.is_empty() {
            return Err("the access key is empty".into());
        }
        Ok(())
    }

    /// `fields` and those that say who sends them, without the signature.
    pub fn named<'a>(&'a self, fields: &[Field<'a>]) -> Vec<Field<'a>> {
        // Behind the others, whose places are looked for by what they say.
        let mut all = fields.to_vec();
        all.push(("AccessKey", Text(&self.access_key)));
        if !self.security_token.is_empty() {
            all.push(("SecurityToken", Text(&self.security_token)));
        }
        all
    }

    /// The signature of what `values` gave, and a body.
    #[inline]
    pub fn sign(&self, values: &[u8], body: &[u8]) -> [u8; SIGNATURE] {
        encode(&self.key.mac(values, body))
    }
}

/// Frames of an output whose signatures are still to be written: those of several are made at once.
#[derive(Default)]
pub struct Unsigned {
    frames: Vec<Frame>,
    values: Vec<u8>,
}

struct Frame {
    /// In `Unsigned::values`.
    values: Range<usize>,
    /// In the output.
    signature: usize,
    body: Range<usize>,
}

impl Unsigned {
    /// A frame whose `body` and whose place for the signature are there in the output. `values` appends
    /// what is signed.
    #[inline]
    pub fn push(
        &mut self,
        signature: usize,
        body: Range<usize>,
        values: impl FnOnce(&mut Vec<u8>),
    ) {
        let start = self.values.len();
        values(&mut self.values);
        self.frames.push(Frame {
            values: start..self.values.len(),
            signature,
            body,
        });
    }

    /// Writes the signatures.
    pub fn sign(&mut self, signer: &Credentials, out: &mut [u8]) {
        for frames in self.frames.chunks(MOST) {
            let mut jobs = [Job {
                key: &signer.key,
                head: b"",
                body: b"",
            }; MOST];
            for (job, frame) in jobs.iter_mut().zip(frames) {
                job.head = &self.values[frame.values.clone()];
                job.body = &out[frame.body.clone()];
            }
            let made = macs(&jobs[..frames.len()]);
            for (mac, frame) in made.iter().zip(frames) {
                out[frame.signature..][..SIGNATURE].copy_from_slice(&encode(mac));
            }
        }
        self.frames.clear();
        self.values.clear();
    }
}

/// The values of fields in the order of their names, and where each begins.
pub fn values(fields: &[Field<'_>]) -> (Vec<u8>, Vec<(&'static str, usize)>) {
    let mut sorted = fields.to_vec();
    sorted.sort_by_key(|(name, _)| *name);
    let (mut text, mut starts) = (Vec::new(), Vec::new());
    for (name, value) in sorted {
        starts.push((name, text.len()));
        match value {
            Text(value) => text.extend_from_slice(value.as_bytes()),
            Int(n) => push_int(&mut text, n),
        }
    }
    (text, starts)
}
