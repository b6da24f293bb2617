//! What tests of the store share.

use super::error::Result;
use super::message::{Appended, Content, Message};
use super::put::PutGuard;

use super::resident::Wait;
use super::topics::Topic;
use super::wanted::{TagFilter, Wanted};
use pyrmq_format::host::Host;
use std::path::Path;
use std::sync::Arc;

/// Appends a message to queue 0 of a topic.
pub fn append(
    guard: &mut PutGuard<'_>,
    topic: &Arc<Topic>,
    props: &[u8],
    body: &[u8],
) -> Result<Appended> {
    let message = Message {
        topic,
        queue_id: 0,
        sys_flag: 0,
        born_timestamp: 7,
        born_host: Host::new("10.1.2.3:4567".parse().unwrap()),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
    };
    let content = Content {
        flag: 0,
        body,
        props: [props, b"", b"", b""],
        tags_code: 0,
        count: 1,
    };
    guard.append(&message, &content)
}

/// All messages of a queue from an offset on, as far as one read gives them.
pub fn all_from(offset: i64) -> Wanted<'static> {
    Wanted {
        offset,
        max_count: 1000,
        max_bytes: usize::MAX >> 1,
        tags: TagFilter(&[]),
        properties: None,
        bits: None,
        wait: Wait::ForDisk,
        learnt: None,
    }
}

/// Copies the folder of a store, also of one that is open, as a kill would leave it.
pub fn copy_store(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_store(&entry.path(), &target);
        } else if let Err(e) = std::fs::copy(entry.path(), target) {
            // A file that is being prepared may be renamed meanwhile.
            assert_eq!(e.kind(), std::io::ErrorKind::NotFound, "{e}");
        }
    }
}
