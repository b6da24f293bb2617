//! A log that is written in pieces of any size, compared with its rows.

use super::*;
use proptest::prelude::*;

fn any_put() -> impl Strategy<Value = Put> {
    let topic = prop_oneof![Just("A"), Just("B"), Just("C")];
    (topic, 0..3, 0usize..500, 1usize..6).prop_map(|(topic, queue, body, inner)| Put {
        body: if topic == "C" { body % 40 } else { body },
        inner: if topic == "C" { inner } else { 0 },
        ..Put::new(topic, queue)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_whole_record_comes_once_however_it_is_written(
        all_puts in prop::collection::vec(any_put(), 1..40),
        pieces in prop::collection::vec((1usize..400, any::<bool>(), any::<bool>()), 1..60),
        rows_of_a_batch in 1u64..20,
        from in 0usize..40,
    ) {
        let log = Growing::new(&all_puts);
        let from = from % log.rows.len();
        let first = log.start(from);
        log.write(0, first);
        let mut task = log.task(first as u64);
        task.how.batch_rows = rows_of_a_batch;
        let mut opened = open(task.clone(), vec![]);
        let begin = log.rows.iter().position(|row| row.phys as usize == first).unwrap();
        let is_whole = |row: &Row, at: usize| {
            let (start, end) = (row.phys as usize, (row.phys + row.size) as usize);
            // Zeros at its end look as if they were written.
            let (_, bytes) = &log.files[start / LOG_FILE];
            let base = start / LOG_FILE * LOG_FILE;
            end <= at || (start < at && bytes[at - base..end - base].iter().all(|&b| b == 0))
        };
        let whole = |at: usize| {
            let rows = log.rows[begin..].iter();
            seen(&rows.take_while(|row| is_whole(row, at)).cloned().collect::<Vec<_>>())
        };
        let (mut rows, mut at) = (Vec::new(), first);
        let rest = (log.log_end, true, false);
        for (piece, relist, restart) in pieces.into_iter().chain([rest]) {
            let to = (at + piece).min(log.log_end);
            log.write(at, to);
            at = to;
            opened.tail.begun.1 = None; // as if the moment had passed
            opened.tail.relist |= relist;
            rows.extend(all(&mut opened.tail));
            prop_assert_eq!(&rows, &whole(at));
            let position = opened.tail.position() as usize;
            prop_assert!(position <= log.log_end.max(at) + LOG_FILE);
            if restart {
                task.from = opened.tail.position();
                opened = open(task.clone(), vec![]);
            }
        }
        prop_assert_eq!(opened.tail.position(), log.log_end as u64);
    }
}
