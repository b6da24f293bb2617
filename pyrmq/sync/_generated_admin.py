"""`pyrmq.admin.Admin` for threads.

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
from pyrmq.portal.blocking import Client, blocking, streamed
from pyrmq.portal.client import PLAIN, Part, in_words


class Access(Part):
    __doc__ = TrioAccess.__doc__

    export = blocking(TrioAccess.export)
    load = blocking(TrioAccess.load)


class Accounts(Part):
    __doc__ = TrioAccounts.__doc__

    delete = blocking(TrioAccounts.delete)
    list = blocking(TrioAccounts.list)
    set = blocking(TrioAccounts.set)
    set_white_addresses = blocking(TrioAccounts.set_white_addresses)
    versions = blocking(TrioAccounts.versions)


class Acls(Part):
    __doc__ = TrioAcls.__doc__

    copy = blocking(TrioAcls.copy)
    create = blocking(TrioAcls.create)
    delete = blocking(TrioAcls.delete)
    get = blocking(TrioAcls.get)
    list = blocking(TrioAcls.list)
    update = blocking(TrioAcls.update)


class Brokers(Part):
    __doc__ = TrioBrokers.__doc__

    add = blocking(TrioBrokers.add)
    clean_log = blocking(TrioBrokers.clean_log)
    clean_queues = blocking(TrioBrokers.clean_queues)
    clean_topics = blocking(TrioBrokers.clean_topics)
    cold_data = blocking(TrioBrokers.cold_data)
    config = blocking(TrioBrokers.config)
    config_of = blocking(TrioBrokers.config_of)
    consume_stats = blocking(TrioBrokers.consume_stats)
    each = blocking(TrioBrokers.each)
    ha = blocking(TrioBrokers.ha)
    promote = blocking(TrioBrokers.promote)
    remove = blocking(TrioBrokers.remove)
    remove_cold_data_threshold = blocking(TrioBrokers.remove_cold_data_threshold)
    reset_flush_offset = blocking(TrioBrokers.reset_flush_offset)
    runtime = blocking(TrioBrokers.runtime)
    runtime_of = blocking(TrioBrokers.runtime_of)
    set_cold_data_threshold = blocking(TrioBrokers.set_cold_data_threshold)
    set_read_ahead = blocking(TrioBrokers.set_read_ahead)
    update_config = blocking(TrioBrokers.update_config)


class Clusters(Part):
    __doc__ = TrioClusters.__doc__

    apply = blocking(TrioClusters.apply)
    describe = blocking(TrioClusters.describe)
    epochs = blocking(TrioClusters.epochs)
    health = blocking(TrioClusters.health)
    list = blocking(TrioClusters.list)
    plan = blocking(TrioClusters.plan)
    probe = streamed(TrioClusters.probe)
    round_trips = streamed(TrioClusters.round_trips)


class Controllers(Part):
    __doc__ = TrioControllers.__doc__

    clean = blocking(TrioControllers.clean)
    config = blocking(TrioControllers.config)
    elect = blocking(TrioControllers.elect)
    metadata = blocking(TrioControllers.metadata)
    sync_states = blocking(TrioControllers.sync_states)
    update_config = blocking(TrioControllers.update_config)


class DeadLetters(Part):
    __doc__ = TrioDeadLetters.__doc__

    find = blocking(TrioDeadLetters.find)
    groups = streamed(TrioDeadLetters.groups)
    parts = blocking(TrioDeadLetters.parts)
    preview = blocking(TrioDeadLetters.preview)
    read = streamed(TrioDeadLetters.read)
    resend = streamed(TrioDeadLetters.resend)
    resent = blocking(TrioDeadLetters.resent)


class Draining(Part):
    __doc__ = TrioDraining.__doc__

    bring_back = blocking(TrioDraining.bring_back)
    drain = blocking(TrioDraining.drain)
    state = blocking(TrioDraining.state)
    wait = blocking(TrioDraining.wait)


class Exports(Part):
    __doc__ = TrioExports.__doc__

    configs = blocking(TrioExports.configs)
    metadata = blocking(TrioExports.metadata)
    metrics = blocking(TrioExports.metrics)


class Groups(Part):
    __doc__ = TrioGroups.__doc__

    change = blocking(TrioGroups.change)
    configs = blocking(TrioGroups.configs)
    connections = blocking(TrioGroups.connections)
    consume_stats = blocking(TrioGroups.consume_stats)
    delete = blocking(TrioGroups.delete)
    delete_topics = blocking(TrioGroups.delete_topics)
    enabled = blocking(TrioGroups.enabled)
    enabled_at = blocking(TrioGroups.enabled_at)
    lags = blocking(TrioGroups.lags)
    names = blocking(TrioGroups.names)
    queue_owners = blocking(TrioGroups.queue_owners)
    running_info = blocking(TrioGroups.running_info)
    set_consume_mode = blocking(TrioGroups.set_consume_mode)
    stats_of_broker = blocking(TrioGroups.stats_of_broker)
    summaries = streamed(TrioGroups.summaries)
    times = blocking(TrioGroups.times)
    update = blocking(TrioGroups.update)
    update_many = blocking(TrioGroups.update_many)


class Lives(Part):
    __doc__ = TrioLives.__doc__

    of_id = blocking(TrioLives.of_id)
    of_key = blocking(TrioLives.of_key)


class Messages(Part):
    __doc__ = TrioMessages.__doc__

    at = blocking(TrioMessages.at)
    by_key = blocking(TrioMessages.by_key)
    by_offset_id = blocking(TrioMessages.by_offset_id)
    by_unique_key = blocking(TrioMessages.by_unique_key)
    consume_directly = blocking(TrioMessages.consume_directly)
    get = blocking(TrioMessages.get)
    indexed = blocking(TrioMessages.indexed)
    queue_entries = blocking(TrioMessages.queue_entries)
    queues = blocking(TrioMessages.queues)
    read = streamed(TrioMessages.read)
    send = blocking(TrioMessages.send)
    slice = blocking(TrioMessages.slice)
    traces = blocking(TrioMessages.traces)
    tracks = blocking(TrioMessages.tracks)


class Namesrv(Part):
    __doc__ = TrioNamesrv.__doc__

    add_write_perm = blocking(TrioNamesrv.add_write_perm)
    all = blocking(TrioNamesrv.all)
    config = blocking(TrioNamesrv.config)
    delete = blocking(TrioNamesrv.delete)
    get = blocking(TrioNamesrv.get)
    put = blocking(TrioNamesrv.put)
    update_config = blocking(TrioNamesrv.update_config)
    wipe_write_perm = blocking(TrioNamesrv.wipe_write_perm)


class Offsets(Part):
    __doc__ = TrioOffsets.__doc__

    clone = blocking(TrioOffsets.clone)
    move = blocking(TrioOffsets.move)
    of_clients = blocking(TrioOffsets.of_clients)
    plan = blocking(TrioOffsets.plan)
    preview = blocking(TrioOffsets.preview)
    reset = blocking(TrioOffsets.reset)
    reset_by_client = blocking(TrioOffsets.reset_by_client)
    reset_queue = blocking(TrioOffsets.reset_queue)
    search = blocking(TrioOffsets.search)
    set = blocking(TrioOffsets.set)
    target_of_queue = blocking(TrioOffsets.target_of_queue)


class Producers(Part):
    __doc__ = TrioProducers.__doc__

    all = blocking(TrioProducers.all)
    connections = blocking(TrioProducers.connections)


class RocksDb(Part):
    __doc__ = TrioRocksDb.__doc__

    check_queues = blocking(TrioRocksDb.check_queues)
    export_configs = blocking(TrioRocksDb.export_configs)
    export_pop_records = blocking(TrioRocksDb.export_pop_records)


class Timers(Part):
    __doc__ = TrioTimers.__doc__

    figures = blocking(TrioTimers.figures)
    figures_of = blocking(TrioTimers.figures_of)


class Topics(Part):
    __doc__ = TrioTopics.__doc__

    allocation = blocking(TrioTopics.allocation)
    change = blocking(TrioTopics.change)
    clusters = blocking(TrioTopics.clusters)
    delete = blocking(TrioTopics.delete)
    delete_order_conf = blocking(TrioTopics.delete_order_conf)
    deletion = blocking(TrioTopics.deletion)
    flows = streamed(TrioTopics.flows)
    groups = blocking(TrioTopics.groups)
    hidden = blocking(TrioTopics.hidden)
    list = blocking(TrioTopics.list)
    order_conf = blocking(TrioTopics.order_conf)
    put_order_conf = blocking(TrioTopics.put_order_conf)
    route = blocking(TrioTopics.route)
    set_perm = blocking(TrioTopics.set_perm)
    status = blocking(TrioTopics.status)
    system = blocking(TrioTopics.system)
    update = blocking(TrioTopics.update)
    update_many = blocking(TrioTopics.update_many)
    update_ordered = blocking(TrioTopics.update_ordered)
    with_groups = streamed(TrioTopics.with_groups)


class Transactions(Part):
    __doc__ = TrioTransactions.__doc__

    commit = blocking(TrioTransactions.commit)
    discarded = blocking(TrioTransactions.discarded)
    find = blocking(TrioTransactions.find)
    pending = blocking(TrioTransactions.pending)
    resume = blocking(TrioTransactions.resume)
    rollback = blocking(TrioTransactions.rollback)
    statistics = blocking(TrioTransactions.statistics)


class Usages(Part):
    __doc__ = TrioUsages.__doc__

    disk = blocking(TrioUsages.disk)
    history = blocking(TrioUsages.history)
    history_of = blocking(TrioUsages.history_of)
    top = blocking(TrioUsages.top)
    top_of = blocking(TrioUsages.top_of)


class Users(Part):
    __doc__ = TrioUsers.__doc__

    copy = blocking(TrioUsers.copy)
    create = blocking(TrioUsers.create)
    delete = blocking(TrioUsers.delete)
    get = blocking(TrioUsers.get)
    list = blocking(TrioUsers.list)
    update = blocking(TrioUsers.update)


class Admin(Client[TrioAdmin]):
    __doc__ = in_words(TrioAdmin.__doc__, PLAIN)
    __module__ = "pyrmq.sync"

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
