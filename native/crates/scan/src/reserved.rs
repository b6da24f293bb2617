//! Topics that are the broker's own. [TopicValidator]

const NO_SEND_TOPICS: [&str; 7] = [
    "SCHEDULE_TOPIC_XXXX",
    "RMQ_SYS_TRANS_HALF_TOPIC",
    "RMQ_SYS_TRANS_OP_HALF_TOPIC",
    "TRANS_CHECK_MAX_TIME_TOPIC",
    "rmq_sys_wheel_timer",
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
];
const OTHERS: [&str; 3] = ["TBW102", "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC"];
const PREFIX: &str = "rmq_sys_";

/// Whether a topic is the broker's own: delayed, half and op messages, trace, timers. Retry and dead
/// letter topics are the users'.
pub fn is_reserved(topic: &str) -> bool {
    NO_SEND_TOPICS.contains(&topic) || OTHERS.contains(&topic) || topic.starts_with(PREFIX)
}

#[cfg(test)]
mod tests {
    use super::is_reserved;

    #[test]
    fn own_topics_and_those_of_users() {
        for own in [
            "TBW102",
            "rmq_sys_X",
            "SCHEDULE_TOPIC_XXXX",
            "RMQ_SYS_TRACE_TOPIC",
        ] {
            assert!(is_reserved(own), "{own}");
        }
        for users in ["orders", "%RETRY%group", "%DLQ%group", "RMQ_SYS_"] {
            assert!(!is_reserved(users), "{users}");
        }
    }
}
