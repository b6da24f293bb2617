//! One option of the data source: its name, its form, its default, where it is allowed. The table of
//! options is made of these.

/// The kind of query that options are checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    Batch,
    Stream,
    BrokerBatch,
    BrokerStream,
    Write,
    WriteStream,
}

impl Query {
    pub const ALL: [Query; 6] = [
        Query::Batch,
        Query::Stream,
        Query::BrokerBatch,
        Query::BrokerStream,
        Query::Write,
        Query::WriteStream,
    ];

    /// Its name at the borders.
    pub fn name(self) -> &'static str {
        match self {
            Query::Batch => "batch",
            Query::Stream => "stream",
            Query::BrokerBatch => "broker_batch",
            Query::BrokerStream => "broker_stream",
            Query::Write => "write",
            Query::WriteStream => "write_stream",
        }
    }

    pub fn named(name: &str) -> Option<Query> {
        Query::ALL.into_iter().find(|query| query.name() == name)
    }

    /// As messages call it.
    pub fn text(self) -> &'static str {
        match self {
            Query::Batch => "a batch read of segments",
            Query::Stream => "a streaming read of segments",
            Query::BrokerBatch => "a batch read through a broker",
            Query::BrokerStream => "a streaming read through a broker",
            Query::Write => "a batch write",
            Query::WriteStream => "a streaming write",
        }
    }

    pub fn is_batch_read(self) -> bool {
        matches!(self, Query::Batch | Query::BrokerBatch)
    }

    pub fn is_stream_read(self) -> bool {
        matches!(self, Query::Stream | Query::BrokerStream)
    }
}

/// Kinds of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queries(u8);

impl Queries {
    const NONE: Queries = Queries(0);

    pub const fn of(query: Query) -> Queries {
        Queries(1 << query as u8)
    }

    pub const fn and(self, other: Queries) -> Queries {
        Queries(self.0 | other.0)
    }

    pub fn has(self, query: Query) -> bool {
        self.0 & Queries::of(query).0 != 0
    }

    pub fn all(self) -> impl Iterator<Item = Query> {
        Query::ALL.into_iter().filter(move |query| self.has(*query))
    }
}

pub const FILES: Queries = Queries::of(Query::Batch).and(Queries::of(Query::Stream));
pub const BROKER: Queries = Queries::of(Query::BrokerBatch).and(Queries::of(Query::BrokerStream));
pub const READS: Queries = FILES.and(BROKER);
pub const BATCHES: Queries = Queries::of(Query::Batch).and(Queries::of(Query::BrokerBatch));
pub const STREAMS: Queries = Queries::of(Query::Stream).and(Queries::of(Query::BrokerStream));
pub const WRITES: Queries = Queries::of(Query::Write).and(Queries::of(Query::WriteStream));

/// What the text of an option has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any text that is not empty.
    Text,
    /// As it is: a program above checks it.
    AsGiven,
    /// A text that no error quotes.
    Secret,
    Boolean,
    /// Whole numbers, from and to.
    Integer(i64, i64),
    /// Bytes, from and to.
    Size(i64, i64),
    Choice(&'static [&'static str]),
    /// Names with commas.
    Names,
    Paths,
    Pattern,
    Storage,
    Group,
    /// The name of a program.
    App,
    Tags,
    Assign,
    Offsets,
    Moment,
    QueueTimes,
    Duration,
    /// A list of columns as in CREATE TABLE.
    Ddl,
}

/// One row of the table. `default` is the text that a user would give; None: not set.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub name: &'static str,
    pub form: Form,
    pub queries: Queries,
    pub default: Option<&'static str>,
    /// Default in streaming queries where it is another one.
    pub stream_default: Option<&'static str>,
    /// The parameter of `pyrmq.scan` that the option sets.
    pub parameter: Option<&'static str>,
    /// Of the options of one group a query takes one.
    pub group: Option<&'static str>,
    /// Whether every query that takes the option needs it.
    pub required: Queries,
    /// Whether the option selects messages: it leaves some out, or adds topics.
    pub selects: bool,
    /// Whether its value is shown and kept nowhere.
    pub secret: bool,
    /// The first version of PySpark in which the Python source can serve the option; None: every
    /// supported one.
    pub pyspark: Option<(u8, u8)>,
    /// One sentence or two for docs/spark.md and for messages, in Markdown.
    pub doc: &'static str,
}

impl Row {
    pub(super) const fn new(name: &'static str, form: Form, queries: Queries) -> Row {
        Row {
            name,
            form,
            queries,
            default: None,
            stream_default: None,
            parameter: None,
            group: None,
            required: Queries::NONE,
            selects: false,
            secret: false,
            pyspark: None,
            doc: "",
        }
    }

    pub(super) const fn default(mut self, text: &'static str) -> Row {
        self.default = Some(text);
        self
    }

    pub(super) const fn stream_default(mut self, text: &'static str) -> Row {
        self.stream_default = Some(text);
        self
    }

    pub(super) const fn parameter(mut self, name: &'static str) -> Row {
        self.parameter = Some(name);
        self
    }

    pub(super) const fn group(mut self, name: &'static str) -> Row {
        self.group = Some(name);
        self
    }

    pub(super) const fn required(mut self) -> Row {
        self.required = self.queries;
        self
    }

    pub(super) const fn selects(mut self) -> Row {
        self.selects = true;
        self
    }

    pub(super) const fn secret(mut self) -> Row {
        self.secret = true;
        self
    }

    pub(super) const fn since(mut self, major: u8, minor: u8) -> Row {
        self.pyspark = Some((major, minor));
        self
    }

    pub(super) const fn doc(mut self, doc: &'static str) -> Row {
        self.doc = doc;
        self
    }

    /// Whether a query takes the option; None, while its kind is not known: some query does.
    pub fn is_for(&self, query: Option<Query>) -> bool {
        query.is_none_or(|query| self.queries.has(query))
    }

    pub fn default_for(&self, query: Option<Query>) -> Option<&'static str> {
        match query {
            Some(query) if query.is_stream_read() || query == Query::WriteStream => {
                self.stream_default.or(self.default)
            }
            _ => self.default,
        }
    }
}
