"""Which processor answers which request about POP."""

from __future__ import annotations

from pyrmq.broker.config.broker_config import LiveConfig
from pyrmq.broker.pop.parts import PopParts
from pyrmq.broker.requests.pop import PopProcessor
from pyrmq.broker.requests.pop_acks import AckProcessor
from pyrmq.broker.requests.pop_checks import PopChecks
from pyrmq.broker.requests.pop_looks import Looks
from pyrmq.broker.tables.tables import Tables
from pyrmq.engine import PullGrants, Store
from pyrmq.model.codes import RequestCode
from pyrmq.net.server.answers import Processor


def pop_processors(
    live: LiveConfig, store: Store, tables: Tables, grants: PullGrants, pop: PopParts
) -> dict[int, Processor]:
    """By request code."""
    checks = PopChecks(live, store, tables.topics.table, tables.groups)
    popping = PopProcessor(checks, pop.popping, pop.waits, grants, tables.filters, tables.clients)
    acks = AckProcessor(checks, store, pop.engine, pop.orderly, pop.in_flight, pop.waits)
    looks = Looks(checks, pop.popping, pop.waits, pop.notices, grants)
    return {
        RequestCode.POP_MESSAGE: popping,
        RequestCode.ACK_MESSAGE: acks.ack,
        RequestCode.BATCH_ACK_MESSAGE: acks.batch,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME: acks.change,
        RequestCode.PEEK_MESSAGE: looks.peek,
        RequestCode.NOTIFICATION: looks.notification,
        RequestCode.POLLING_INFO: looks.polling_info,
    }
