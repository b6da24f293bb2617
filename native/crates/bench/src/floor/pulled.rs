//! What the floor gives to pulls: records of a log that lies in memory, walked from front to back.

use super::answer::{self, Form};

/// Messages of one answer, whatever a pull asks for.
const COUNT: usize = 32;
/// Bytes of a record: a body of 1 KiB, and what a broker keeps with it.
const RECORD: usize = 1200;
const BODY: usize = 1024;
const TOPIC: usize = 5;
const MAGIC: u32 = 0xDAA3_20A7;
/// Answers after which the log begins again; larger than the caches of a processor.
const ANSWERS: usize = 3000;

#[derive(Default)]
pub struct Pulled {
    /// Made for the first pull.
    log: Vec<u8>,
    /// Messages given so far.
    given: u64,
}

impl Pulled {
    /// The answer to a pull goes to `out`.
    pub fn take(&mut self, form: Form, opaque: i32, out: &mut Vec<u8>) {
        if self.log.is_empty() {
            self.log = made();
        }
        let at = (self.given as usize / COUNT % ANSWERS) * COUNT * RECORD;
        self.given += COUNT as u64;
        answer::found(
            form,
            opaque,
            self.given,
            &self.log[at..at + COUNT * RECORD],
            out,
        );
    }
}

fn made() -> Vec<u8> {
    let mut log = vec![b'x'; ANSWERS * COUNT * RECORD];
    for record in log.chunks_exact_mut(RECORD) {
        record[..4].copy_from_slice(&(RECORD as u32).to_be_bytes());
        record[4..8].copy_from_slice(&MAGIC.to_be_bytes());
        record[8..84].fill(0); // CRC to prepared offset
        record[84..88].copy_from_slice(&(BODY as u32).to_be_bytes());
        let topic = 88 + BODY;
        record[topic] = TOPIC as u8;
        let properties = topic + 1 + TOPIC;
        let length = (RECORD - properties - 2) as u16;
        record[properties..properties + 2].copy_from_slice(&length.to_be_bytes());
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Reader;
    use crate::frame;

    #[test]
    fn each_pull_gets_the_messages_behind_those_before() {
        let mut pulled = Pulled::default();
        let mut reader = Reader::default();
        for (n, form) in [Form::Json, Form::Binary, Form::Json]
            .into_iter()
            .enumerate()
        {
            let mut out = Vec::new();
            pulled.take(form, 7, &mut out);
            assert_eq!(frame::length(&out).unwrap(), Some(out.len()));
            let answer = reader.read(&out).unwrap();
            assert_eq!((answer.code, answer.opaque), (0, 7));
            assert_eq!(answer.body.len(), COUNT * RECORD);
            let next = answer.field("nextBeginOffset").unwrap();
            assert_eq!(next, ((n + 1) * COUNT) as i64);
            assert!(answer.field("maxOffset").unwrap() > 1 << 40);
        }
    }
}
