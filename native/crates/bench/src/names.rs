//! Names of response codes. [RemotingSysResponseCode, ResponseCode]

/// The name of a response code; "code N" of others.
pub fn of(code: i32) -> String {
    let name = match code {
        0 => "SUCCESS",
        1 => "SYSTEM_ERROR",
        2 => "SYSTEM_BUSY",
        3 => "REQUEST_CODE_NOT_SUPPORTED",
        4 => "TRANSACTION_FAILED",
        10 => "FLUSH_DISK_TIMEOUT",
        11 => "SLAVE_NOT_AVAILABLE",
        12 => "FLUSH_SLAVE_TIMEOUT",
        13 => "MESSAGE_ILLEGAL",
        14 => "SERVICE_NOT_AVAILABLE",
        15 => "VERSION_NOT_SUPPORTED",
        16 => "NO_PERMISSION",
        17 => "TOPIC_NOT_EXIST",
        18 => "TOPIC_EXIST_ALREADY",
        19 => "PULL_NOT_FOUND",
        20 => "PULL_RETRY_IMMEDIATELY",
        21 => "PULL_OFFSET_MOVED",
        22 => "QUERY_NOT_FOUND",
        23 => "SUBSCRIPTION_PARSE_FAILED",
        24 => "SUBSCRIPTION_NOT_EXIST",
        25 => "SUBSCRIPTION_NOT_LATEST",
        26 => "SUBSCRIPTION_GROUP_NOT_EXIST",
        27 => "FILTER_DATA_NOT_EXIST",
        28 => "FILTER_DATA_NOT_LATEST",
        29 => "INVALID_PARAMETER",
        208 => "NO_MESSAGE",
        209 => "POLLING_FULL",
        210 => "POLLING_TIMEOUT",
        215 => "FLOW_CONTROL",
        604 => "ILLEGAL_OPERATION",
        1500 => "GO_AWAY",
        other => return format!("code {other}"),
    };
    name.to_string()
}
