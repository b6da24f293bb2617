"""`pyrmq.admin.Admin` for asyncio.

Written by scripts/portals.py: change that, or what it reads.
"""

from __future__ import annotations

from pyrmq.admin.access import Access as TrioAccess
from pyrmq.admin.accounts import Accounts as TrioAccounts
from pyrmq.admin.api import Admin as TrioAdmin
from pyrmq.admin.auth import Acls as TrioAcls
from pyrmq.admin.auth import Users as TrioUsers
from pyrmq.admin.brokers import Brokers as TrioBrokers
from pyrmq.admin.clusters import Clusters as TrioClusters
from pyrmq.admin.connections import Producers as TrioProducers
from pyrmq.admin.controllers import Controllers as TrioControllers
from pyrmq.admin.draining import Draining as TrioDraining
from pyrmq.admin.expected import Expected
from pyrmq.admin.exports import Exports as TrioExports
from pyrmq.admin.groups import Groups as TrioGroups
from pyrmq.admin.life import Lives as TrioLives
from pyrmq.admin.messages import Messages as TrioMessages
from pyrmq.admin.namesrv import Namesrv as TrioNamesrv
from pyrmq.admin.offset_moves import Offsets as TrioOffsets
from pyrmq.admin.resend import DeadLetters as TrioDeadLetters
from pyrmq.admin.rocksdb import RocksDb as TrioRocksDb
from pyrmq.admin.timers import Timers as TrioTimers
from pyrmq.admin.topics import Topics as TrioTopics
from pyrmq.admin.transactions import Transactions as TrioTransactions
from pyrmq.admin.usage import Usages as TrioUsages
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.tls import Tls
from pyrmq.portal.awaiting import Client, awaited, streamed
from pyrmq.portal.client import ASYNCIO, Part, in_words


class Access(Part):
    __doc__ = TrioAccess.__doc__

    export = awaited(TrioAccess.export)
    load = awaited(TrioAccess.load)


class Accounts(Part):
    __doc__ = TrioAccounts.__doc__

    delete = awaited(TrioAccounts.delete)
    list = awaited(TrioAccounts.list)
    set = awaited(TrioAccounts.set)
    set_white_addresses = awaited(TrioAccounts.set_white_addresses)
    versions = awaited(TrioAccounts.versions)


class Acls(Part):
    __doc__ = TrioAcls.__doc__

    copy = awaited(TrioAcls.copy)
    create = awaited(TrioAcls.create)
    delete = awaited(TrioAcls.delete)
    get = awaited(TrioAcls.get)
    list = awaited(TrioAcls.list)
    update = awaited(TrioAcls.update)


class Brokers(Part):
    __doc__ = TrioBrokers.__doc__

    add = awaited(TrioBrokers.add)
    clean_log = awaited(TrioBrokers.clean_log)
    clean_queues = awaited(TrioBrokers.clean_queues)
    clean_topics = awaited(TrioBrokers.clean_topics)
    cold_data = awaited(TrioBrokers.cold_data)
    config = awaited(TrioBrokers.config)
    config_of = awaited(TrioBrokers.config_of)
    consume_stats = awaited(TrioBrokers.consume_stats)
    each = awaited(TrioBrokers.each)
    ha = awaited(TrioBrokers.ha)
    promote = awaited(TrioBrokers.promote)
    remove = awaited(TrioBrokers.remove)
    remove_cold_data_threshold = awaited(TrioBrokers.remove_cold_data_threshold)
    reset_flush_offset = awaited(TrioBrokers.reset_flush_offset)
    runtime = awaited(TrioBrokers.runtime)
    runtime_of = awaited(TrioBrokers.runtime_of)
    set_cold_data_threshold = awaited(TrioBrokers.set_cold_data_threshold)
    set_read_ahead = awaited(TrioBrokers.set_read_ahead)
    update_config = awaited(TrioBrokers.update_config)


class Clusters(Part):
    __doc__ = TrioClusters.__doc__

    apply = awaited(TrioClusters.apply)
    describe = awaited(TrioClusters.describe)
    epochs = awaited(TrioClusters.epochs)
    health = awaited(TrioClusters.health)
    list = awaited(TrioClusters.list)
    plan = awaited(TrioClusters.plan)
    probe = streamed(TrioClusters.probe)
    round_trips = streamed(TrioClusters.round_trips)


class Controllers(Part):
    __doc__ = TrioControllers.__doc__

    clean = awaited(TrioControllers.clean)
    config = awaited(TrioControllers.config)
    elect = awaited(TrioControllers.elect)
    metadata = awaited(TrioControllers.metadata)
    sync_states = awaited(TrioControllers.sync_states)
    update_config = awaited(TrioControllers.update_config)


class DeadLetters(Part):
    __doc__ = TrioDeadLetters.__doc__

    find = awaited(TrioDeadLetters.find)
    groups = streamed(TrioDeadLetters.groups)
    parts = awaited(TrioDeadLetters.parts)
    preview = awaited(TrioDeadLetters.preview)
    read = streamed(TrioDeadLetters.read)
    resend = streamed(TrioDeadLetters.resend)
    resent = awaited(TrioDeadLetters.resent)


class Draining(Part):
    __doc__ = TrioDraining.__doc__

    bring_back = awaited(TrioDraining.bring_back)
    drain = awaited(TrioDraining.drain)
    state = awaited(TrioDraining.state)
    wait = awaited(TrioDraining.wait)


class Exports(Part):
    __doc__ = TrioExports.__doc__

    configs = awaited(TrioExports.configs)
    metadata = awaited(TrioExports.metadata)
    metrics = awaited(TrioExports.metrics)


class Groups(Part):
    __doc__ = TrioGroups.__doc__

    change = awaited(TrioGroups.change)
    configs = awaited(TrioGroups.configs)
    connections = awaited(TrioGroups.connections)
    consume_stats = awaited(TrioGroups.consume_stats)
    delete = awaited(TrioGroups.delete)
    delete_topics = awaited(TrioGroups.delete_topics)
    enabled = awaited(TrioGroups.enabled)
    enabled_at = awaited(TrioGroups.enabled_at)
    lags = awaited(TrioGroups.lags)
    names = awaited(TrioGroups.names)
    queue_owners = awaited(TrioGroups.queue_owners)
    running_info = awaited(TrioGroups.running_info)
    set_consume_mode = awaited(TrioGroups.set_consume_mode)
    stats_of_broker = awaited(TrioGroups.stats_of_broker)
    summaries = streamed(TrioGroups.summaries)
    times = awaited(TrioGroups.times)
    update = awaited(TrioGroups.update)
    update_many = awaited(TrioGroups.update_many)


class Lives(Part):
    __doc__ = TrioLives.__doc__

    of_id = awaited(TrioLives.of_id)
    of_key = awaited(TrioLives.of_key)


class Messages(Part):
    __doc__ = TrioMessages.__doc__

    at = awaited(TrioMessages.at)
    by_key = awaited(TrioMessages.by_key)
    by_offset_id = awaited(TrioMessages.by_offset_id)
    by_unique_key = awaited(TrioMessages.by_unique_key)
    consume_directly = awaited(TrioMessages.consume_directly)
    get = awaited(TrioMessages.get)
    indexed = awaited(TrioMessages.indexed)
    queue_entries = awaited(TrioMessages.queue_entries)
    queues = awaited(TrioMessages.queues)
    read = streamed(TrioMessages.read)
    send = awaited(TrioMessages.send)
    slice = awaited(TrioMessages.slice)
    traces = awaited(TrioMessages.traces)
    tracks = awaited(TrioMessages.tracks)


class Namesrv(Part):
    __doc__ = TrioNamesrv.__doc__

    add_write_perm = awaited(TrioNamesrv.add_write_perm)
    all = awaited(TrioNamesrv.all)
    config = awaited(TrioNamesrv.config)
    delete = awaited(TrioNamesrv.delete)
    get = awaited(TrioNamesrv.get)
    put = awaited(TrioNamesrv.put)
    update_config = awaited(TrioNamesrv.update_config)
    wipe_write_perm = awaited(TrioNamesrv.wipe_write_perm)


class Offsets(Part):
    __doc__ = TrioOffsets.__doc__

    clone = awaited(TrioOffsets.clone)
    move = awaited(TrioOffsets.move)
    of_clients = awaited(TrioOffsets.of_clients)
    plan = awaited(TrioOffsets.plan)
    preview = awaited(TrioOffsets.preview)
    reset = awaited(TrioOffsets.reset)
    reset_by_client = awaited(TrioOffsets.reset_by_client)
    reset_queue = awaited(TrioOffsets.reset_queue)
    search = awaited(TrioOffsets.search)
    set = awaited(TrioOffsets.set)
    target_of_queue = awaited(TrioOffsets.target_of_queue)


class Producers(Part):
    __doc__ = TrioProducers.__doc__

    all = awaited(TrioProducers.all)
    connections = awaited(TrioProducers.connections)


class RocksDb(Part):
    __doc__ = TrioRocksDb.__doc__

    check_queues = awaited(TrioRocksDb.check_queues)
    export_configs = awaited(TrioRocksDb.export_configs)
    export_pop_records = awaited(TrioRocksDb.export_pop_records)


class Timers(Part):
    __doc__ = TrioTimers.__doc__

    figures = awaited(TrioTimers.figures)
    figures_of = awaited(TrioTimers.figures_of)


class Topics(Part):
    __doc__ = TrioTopics.__doc__

    allocation = awaited(TrioTopics.allocation)
    change = awaited(TrioTopics.change)
    clusters = awaited(TrioTopics.clusters)
    delete = awaited(TrioTopics.delete)
    delete_order_conf = awaited(TrioTopics.delete_order_conf)
    deletion = awaited(TrioTopics.deletion)
    flows = streamed(TrioTopics.flows)
    groups = awaited(TrioTopics.groups)
    hidden = awaited(TrioTopics.hidden)
    list = awaited(TrioTopics.list)
    order_conf = awaited(TrioTopics.order_conf)
    put_order_conf = awaited(TrioTopics.put_order_conf)
    route = awaited(TrioTopics.route)
    set_perm = awaited(TrioTopics.set_perm)
    status = awaited(TrioTopics.status)
    system = awaited(TrioTopics.system)
    update = awaited(TrioTopics.update)
    update_many = awaited(TrioTopics.update_many)
    update_ordered = awaited(TrioTopics.update_ordered)
    with_groups = streamed(TrioTopics.with_groups)


class Transactions(Part):
    __doc__ = TrioTransactions.__doc__

    commit = awaited(TrioTransactions.commit)
    discarded = awaited(TrioTransactions.discarded)
    find = awaited(TrioTransactions.find)
    pending = awaited(TrioTransactions.pending)
    resume = awaited(TrioTransactions.resume)
    rollback = awaited(TrioTransactions.rollback)
    statistics = awaited(TrioTransactions.statistics)


class Usages(Part):
    __doc__ = TrioUsages.__doc__

    disk = awaited(TrioUsages.disk)
    history = awaited(TrioUsages.history)
    history_of = awaited(TrioUsages.history_of)
    top = awaited(TrioUsages.top)
    top_of = awaited(TrioUsages.top_of)


class Users(Part):
    __doc__ = TrioUsers.__doc__

    copy = awaited(TrioUsers.copy)
    create = awaited(TrioUsers.create)
    delete = awaited(TrioUsers.delete)
    get = awaited(TrioUsers.get)
    list = awaited(TrioUsers.list)
    update = awaited(TrioUsers.update)


class Admin(Client[TrioAdmin]):
    __doc__ = in_words(TrioAdmin.__doc__, ASYNCIO)
    __module__ = "pyrmq.aio"

    def __init__(
        self,
        namesrv: str,
        *,
        timeout: float | None = None,
        credentials: Credentials | None = None,
        tls: Tls | None = None,
        expected: Expected | None = None,
    ) -> None:
        client = TrioAdmin(
            namesrv, timeout=timeout, credentials=credentials, tls=tls, expected=expected
        )
        super().__init__(client)
        self.access = Access(self, client.access)
        self.accounts = Accounts(self, client.accounts)
        self.acls = Acls(self, client.acls)
        self.brokers = Brokers(self, client.brokers)
        self.clusters = Clusters(self, client.clusters)
        self.controllers = Controllers(self, client.controllers)
        self.dead_letters = DeadLetters(self, client.dead_letters)
        self.draining = Draining(self, client.draining)
        self.exports = Exports(self, client.exports)
        self.groups = Groups(self, client.groups)
        self.lives = Lives(self, client.lives)
        self.messages = Messages(self, client.messages)
        self.namesrv = Namesrv(self, client.namesrv)
        self.offsets = Offsets(self, client.offsets)
        self.producers = Producers(self, client.producers)
        self.rocksdb = RocksDb(self, client.rocksdb)
        self.timers = Timers(self, client.timers)
        self.topics = Topics(self, client.topics)
        self.transactions = Transactions(self, client.transactions)
        self.usage = Usages(self, client.usage)
        self.users = Users(self, client.users)
