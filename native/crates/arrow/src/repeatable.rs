//! Unique keys that are the same when the same rows are sent again, so that a sender can ask whether
//! a request was stored by an earlier try.
//!
//! The keys of a request hold a digest of who sends it, which of its rows come first, where it goes
//! and all that it carries. A request with other rows has other keys, so that nobody takes it for
//! stored. [MessageClientIDSetter]

use super::send_request::{Request, Target};
use pyrmq_format::unique_key::{GIVEN, GIVEN_LEN, given};
use sha1::{Digest, Sha1};

/// What one task writes of one version of an application's rows.
#[derive(Clone, Debug)]
pub struct Txn {
    pub app: String,
    pub version: u64,
    pub partition: u32,
    /// The number of the batch's first row in the task.
    pub first_row: u64,
}

impl Txn {
    /// The value of the property SPARK_BATCH.
    pub fn label(&self) -> Vec<u8> {
        format!("{}/{}", self.app, self.version).into_bytes()
    }

    /// Puts its keys into a request that has zeros at `places`, of the properties or of the body.
    pub(crate) fn fill(
        &self,
        request: &mut Request,
        topics: &[Vec<u8>],
        brokers: &[Vec<u8>],
        places: &[usize],
    ) {
        let digest = self.digest(request, topics, brokers);
        let out = if request.batch {
            &mut request.body
        } else {
            &mut request.properties
        };
        for (n, &at) in places.iter().enumerate() {
            // A request has fewer than 2^16 messages (MAX_ENTRIES).
            let key = given(&digest, n as u16);
            out[at..at + GIVEN_LEN].copy_from_slice(&key);
            request.key = Some(key.to_vec());
        }
    }

    fn digest(&self, request: &Request, topics: &[Vec<u8>], brokers: &[Vec<u8>]) -> [u8; GIVEN] {
        let mut hash = Sha1::new();
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        };
        add(self.app.as_bytes());
        add(&self.version.to_be_bytes());
        add(&self.partition.to_be_bytes());
        add(&(self.first_row + request.first_row as u64).to_be_bytes());
        add(&topics[request.topic as usize]);
        // A queue that a sharding key selects is no part of the row: the key itself is.
        if let Target::Queue { id, broker } = request.target {
            add(&id.map_or(-1, i64::from).to_be_bytes());
            add(broker.map_or(b"", |b| brokers[b as usize].as_slice()));
        }
        add(&[request.batch as u8]);
        add(&request.flag.to_be_bytes());
        add(&request.properties);
        add(&request.body);
        let whole = hash.finalize();
        std::array::from_fn(|n| whole[n])
    }
}
