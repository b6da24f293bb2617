//! The columns that there are. Names follow RocketMQ's own Spark connector.

use super::json_type::{JsonField, JsonType};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use std::sync::Arc;

/// Form of the column `properties`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertiesForm {
    Map,
    Json,
    Raw,
}

/// Form of the column `body`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum BodyForm {
    #[default]
    Binary,
    /// Text; what is no UTF-8 is replaced by U+FFFD.
    Utf8,
    /// Objects of these fields: see `body_json`.
    Json(Vec<JsonField>),
}

macro_rules! columns {
    ($($name:ident = $text:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Column { $($name),* }
        /// All columns, in the order of the documentation.
        pub const ALL: &[Column] = &[$(Column::$name),*];
        impl Column {
            pub fn name(self) -> &'static str {
                match self { $(Column::$name => $text),* }
            }
        }
    };
}

columns! {
    Topic = "topic",
    Flag = "flag",
    Body = "body",
    Properties = "properties",
    BrokerName = "brokerName",
    QueueId = "queueId",
    QueueOffset = "queueOffset",
    BornTimestamp = "bornTimestamp",
    StoreTimestamp = "storeTimestamp",
    Tags = "tags",
    Keys = "keys",
    CommitLogOffset = "commitLogOffset",
    BodyLength = "bodyLength",
    SysFlag = "sysFlag",
    StoreSize = "storeSize",
    BodyCrc = "bodyCRC",
    ReconsumeTimes = "reconsumeTimes",
    PreparedTransactionOffset = "preparedTransactionOffset",
    MsgId = "msgId",
    TransactionId = "transactionId",
    BornHost = "bornHost",
    StoreHost = "storeHost",
    PropertiesRaw = "propertiesRaw",
}

/// How many of `ALL`, from its start, are given when nothing is asked for.
pub const DEFAULT: usize = 12;

impl Column {
    pub fn named(name: &str) -> Option<Column> {
        ALL.iter().copied().find(|c| c.name() == name)
    }

    fn data_type(self, form: PropertiesForm, body: &BodyForm, views: bool) -> DataType {
        use Column::*;
        match self {
            Flag | QueueId | BodyLength | SysFlag | StoreSize | BodyCrc | ReconsumeTimes => {
                DataType::Int32
            }
            QueueOffset | CommitLogOffset | PreparedTransactionOffset => DataType::Int64,
            BornTimestamp | StoreTimestamp => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            Body => match body {
                BodyForm::Binary if views => DataType::BinaryView,
                BodyForm::Binary => DataType::Binary,
                BodyForm::Utf8 => DataType::Utf8,
                BodyForm::Json(fields) => JsonType::Struct(fields.clone()).data_type(),
            },
            Properties if form == PropertiesForm::Map => {
                let entries = DataType::Struct(map_fields());
                DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
            }
            _ => DataType::Utf8,
        }
    }
}

pub fn map_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ])
}

/// Every column may be null for its reader: Spark compares nullability as well.
pub fn schema(columns: &[Column], form: PropertiesForm, body: &BodyForm, views: bool) -> Schema {
    let field = |c: &Column| Field::new(c.name(), c.data_type(form, body, views), true);
    Schema::new(columns.iter().map(field).collect::<Vec<_>>())
}
