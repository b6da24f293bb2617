"""The records that clients write to the trace topic, as columns. [TraceDataEncoder]

A message's body holds records that end in 0x02, their fields stand between 0x01:

| Type | Fields behind it |
|---|---|
| Pub | time, region, group, topic, msgId, tags, keys, storeHost, bodyLength, cost, msgType, offsetMsgId, success[, clientHost] |
| SubBefore | time, region, group, requestId, msgId, retryTimes, keys |
| SubAfter | requestId, msgId, cost, success, keys[, contextCode[, time, group]] |
| EndTransaction | time, region, group, topic, msgId, tags, keys, storeHost, msgType, transactionId, state, fromCheck |
| Recall | time, region, group, topic, msgId, success |

Old clients write Pub without offsetMsgId. Missing texts are the word `null`.
"""  # noqa: E501

from __future__ import annotations

from spark_ext.jobs.engine import Engine, Table, engine_of

TYPES = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
PLACES: dict[str, dict[str, int]] = {
    "Pub": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "bodyLength": 9, "cost": 10, "clientHost": 14,
    },
    "SubBefore": {"time": 1, "group": 3, "requestId": 4, "msgId": 5, "retryTimes": 6, "keys": 7},
    "SubAfter": {
        "requestId": 1, "msgId": 2, "cost": 3, "success": 4, "keys": 5, "contextCode": 6,
        "time": 7, "group": 8,
    },
    "EndTransaction": {
        "time": 1, "group": 3, "topic": 4, "msgId": 5, "keys": 7, "storeHost": 8,
        "transactionId": 10, "state": 11, "fromCheck": 12,
    },
    "Recall": {"time": 1, "group": 3, "topic": 4, "msgId": 5, "success": 6},
}  # fmt: skip
"""Where the fields stand; `success` of Pub depends on the count of fields."""
NUMBERS = {"time": "bigint", "cost": "int", "bodyLength": "int", "retryTimes": "int"}
TEXTS = (
    "group", "topic", "msgId", "requestId", "keys", "storeHost", "clientHost", "transactionId",
    "state",
)  # fmt: skip
NEEDED = {
    "Pub": ("time", "group", "topic", "msgId", "cost"),
    "SubBefore": ("time", "group", "requestId", "msgId"),
    "SubAfter": ("requestId", "msgId", "cost"),
    "EndTransaction": ("time", "group", "topic", "msgId", "state"),
    "Recall": ("time", "group", "topic", "msgId"),
}
"""Fields without which a record is none."""

MAX_TIME = 32_503_680_000_000
"""Times lie in front of the year 3000, in ms: a foreign record's may be any number, and Spark fails
on one that it cannot compute with."""


def _field(name: str) -> str:
    """SQL for a field's text by the record's type; null where the type has no such field."""
    cases = [
        f"WHEN '{kind}' THEN get(f, {places[name]})"
        for kind, places in PLACES.items()
        if name in places
    ]
    return f"CASE type {' '.join(cases)} END"


def _number(text: str, kind: str) -> str:
    """Digits only: engines differ in what else they take for a number."""
    bare = f"translate({text}, '0123456789', '')"
    return f"CASE WHEN {bare} IN ('', '-') THEN try_cast({text} AS {kind}) END"


def _truth(text: str) -> str:
    return f"CASE lower({text}) WHEN 'true' THEN true WHEN 'false' THEN false END"


def _texts() -> str:
    """SQL for the fields as texts, by the names that they have in PLACES."""
    # Pub: 13 fields end in success; of 14 offsetMsgId stands before it, of 15 clientHost behind.
    pub = "CASE WHEN size(f) = 13 THEN get(f, 12) ELSE get(f, 13) END"
    names = dict.fromkeys(name for places in PLACES.values() for name in places)
    columns = [f"{_field(name)} AS `{name}`" for name in names if name != "success"]
    columns.append(f"CASE WHEN type = 'Pub' THEN {pub} ELSE {_field('success')} END AS success")
    known = ", ".join(f"'{kind}'" for kind in TYPES)
    columns.append(f"CASE WHEN type IN ({known}) THEN type END AS type")
    return ", ".join(columns)


def _fields() -> str:
    columns = [f"{_number(f'`{n}`', kind)} AS `{n}`" for n, kind in NUMBERS.items()]
    columns += [f"nullif(nullif(`{name}`, ''), 'null') AS `{name}`" for name in TEXTS]
    columns += [
        f"{_number('contextCode', 'int')} AS contextCode",
        f"{_truth('success')} AS success",
        f"{_truth('fromCheck')} AS fromCheck",
    ]
    return ", ".join(columns)


def _good() -> str:
    complete = [
        f"WHEN '{kind}' THEN {' AND '.join(f'`{name}` IS NOT NULL' for name in names)}"
        for kind, names in NEEDED.items()
    ]
    return (
        f"coalesce(CASE type {' '.join(complete)} END, false)"
        f" AND (`time` IS NULL OR (`time` >= 0 AND `time` < {MAX_TIME}))"
        " AND (cost IS NULL OR cost >= 0)"
    )


def parse(messages: Table) -> Table:
    """One row per trace record of `messages` (columns body, storeTimestamp): type, the fields of
    PLACES, storeTimestamp, and `bad`: it is no record that these rules know."""
    engine: Engine = engine_of(messages)
    records = f"""SELECT storeTimestamp, explode(split({engine.text("body")}, chr(2))) AS record
        FROM {{messages}}"""
    split = f"""SELECT storeTimestamp, split(record, chr(1)) AS f
        FROM ({records}) WHERE trim(record) <> ''"""
    typed = f"SELECT *, get(f, 0) AS type FROM ({split})"
    texts = f"SELECT storeTimestamp, {_texts()} FROM ({typed})"
    fields = f"SELECT type, storeTimestamp, {_fields()} FROM ({texts})"
    return engine.sql(f"SELECT *, NOT ({_good()}) AS bad FROM ({fields})", messages=messages)
