"""`pyrmq.admin.Admin` for asyncio: each call is awaited, generators are those of asyncio.

Written by scripts/admin_faces.py: change that, or what it reads.
"""

from __future__ import annotations

from typing import Any

from pyrmq.admin import acls as acls_
from pyrmq.admin import api as api_
from pyrmq.admin import brokers as brokers_
from pyrmq.admin import clusters as clusters_
from pyrmq.admin import controllers as controllers_
from pyrmq.admin import exports as exports_
from pyrmq.admin import groups as groups_
from pyrmq.admin import messages as messages_
from pyrmq.admin import namesrv as namesrv_
from pyrmq.admin import offsets as offsets_
from pyrmq.admin import producers as producers_
from pyrmq.admin import rocksdb as rocksdb_
from pyrmq.admin import topics as topics_
from pyrmq.admin import users as users_
from pyrmq.admin.expected import Expected
from pyrmq.aio_face import Client, awaited, streamed
from pyrmq.background import Background
from pyrmq.face_docs import ASYNCIO, in_words
from pyrmq.net.client.signing import Credentials


class _Part:
    """A part of Admin."""

    def __init__(self, face: Admin, part: Any) -> None:
        self._face = face
        self._client = part

    @property
    def _running(self) -> Background:
        return self._face._running

    def _submit(self, call: Any, *args: Any, **options: Any) -> Any:
        return self._face._submit(call, *args, **options)


class Acls(_Part):
    __doc__ = acls_.Acls.__doc__

    copy = awaited(acls_.Acls.copy)
    create = awaited(acls_.Acls.create)
    delete = awaited(acls_.Acls.delete)
    get = awaited(acls_.Acls.get)
    list = awaited(acls_.Acls.list)
    update = awaited(acls_.Acls.update)


class Brokers(_Part):
    __doc__ = brokers_.Brokers.__doc__

    add = awaited(brokers_.Brokers.add)
    clean_log = awaited(brokers_.Brokers.clean_log)
    clean_queues = awaited(brokers_.Brokers.clean_queues)
    clean_topics = awaited(brokers_.Brokers.clean_topics)
    cold_data = awaited(brokers_.Brokers.cold_data)
    config = awaited(brokers_.Brokers.config)
    config_of = awaited(brokers_.Brokers.config_of)
    consume_stats = awaited(brokers_.Brokers.consume_stats)
    each = awaited(brokers_.Brokers.each)
    ha = awaited(brokers_.Brokers.ha)
    promote = awaited(brokers_.Brokers.promote)
    remove = awaited(brokers_.Brokers.remove)
    remove_cold_data_threshold = awaited(brokers_.Brokers.remove_cold_data_threshold)
    reset_flush_offset = awaited(brokers_.Brokers.reset_flush_offset)
    runtime = awaited(brokers_.Brokers.runtime)
    runtime_of = awaited(brokers_.Brokers.runtime_of)
    set_cold_data_threshold = awaited(brokers_.Brokers.set_cold_data_threshold)
    set_read_ahead = awaited(brokers_.Brokers.set_read_ahead)
    update_config = awaited(brokers_.Brokers.update_config)


class Clusters(_Part):
    __doc__ = clusters_.Clusters.__doc__

    epochs = awaited(clusters_.Clusters.epochs)
    health = awaited(clusters_.Clusters.health)
    list = awaited(clusters_.Clusters.list)
    probe = streamed(clusters_.Clusters.probe)
    round_trips = streamed(clusters_.Clusters.round_trips)


class Controllers(_Part):
    __doc__ = controllers_.Controllers.__doc__

    clean = awaited(controllers_.Controllers.clean)
    config = awaited(controllers_.Controllers.config)
    elect = awaited(controllers_.Controllers.elect)
    metadata = awaited(controllers_.Controllers.metadata)
    sync_states = awaited(controllers_.Controllers.sync_states)
    update_config = awaited(controllers_.Controllers.update_config)


class Exports(_Part):
    __doc__ = exports_.Exports.__doc__

    configs = awaited(exports_.Exports.configs)
    metadata = awaited(exports_.Exports.metadata)
    metrics = awaited(exports_.Exports.metrics)


class Groups(_Part):
    __doc__ = groups_.Groups.__doc__

    change = awaited(groups_.Groups.change)
    configs = awaited(groups_.Groups.configs)
    connections = awaited(groups_.Groups.connections)
    consume_stats = awaited(groups_.Groups.consume_stats)
    delete = awaited(groups_.Groups.delete)
    delete_topics = awaited(groups_.Groups.delete_topics)
    names = awaited(groups_.Groups.names)
    queue_owners = awaited(groups_.Groups.queue_owners)
    running_info = awaited(groups_.Groups.running_info)
    set_consume_mode = awaited(groups_.Groups.set_consume_mode)
    stats_of_broker = awaited(groups_.Groups.stats_of_broker)
    summaries = streamed(groups_.Groups.summaries)
    update = awaited(groups_.Groups.update)
    update_many = awaited(groups_.Groups.update_many)


class Messages(_Part):
    __doc__ = messages_.Messages.__doc__

    at = awaited(messages_.Messages.at)
    by_key = awaited(messages_.Messages.by_key)
    by_unique_key = awaited(messages_.Messages.by_unique_key)
    consume_directly = awaited(messages_.Messages.consume_directly)
    get = awaited(messages_.Messages.get)
    queue_entries = awaited(messages_.Messages.queue_entries)
    queues = awaited(messages_.Messages.queues)
    read = streamed(messages_.Messages.read)
    send = awaited(messages_.Messages.send)
    slice = awaited(messages_.Messages.slice)
    traces = awaited(messages_.Messages.traces)
    tracks = awaited(messages_.Messages.tracks)


class Namesrv(_Part):
    __doc__ = namesrv_.Namesrv.__doc__

    add_write_perm = awaited(namesrv_.Namesrv.add_write_perm)
    all = awaited(namesrv_.Namesrv.all)
    config = awaited(namesrv_.Namesrv.config)
    delete = awaited(namesrv_.Namesrv.delete)
    get = awaited(namesrv_.Namesrv.get)
    put = awaited(namesrv_.Namesrv.put)
    update_config = awaited(namesrv_.Namesrv.update_config)
    wipe_write_perm = awaited(namesrv_.Namesrv.wipe_write_perm)


class Offsets(_Part):
    __doc__ = offsets_.Offsets.__doc__

    clone = awaited(offsets_.Offsets.clone)
    of_clients = awaited(offsets_.Offsets.of_clients)
    plan = awaited(offsets_.Offsets.plan)
    reset = awaited(offsets_.Offsets.reset)
    reset_by_client = awaited(offsets_.Offsets.reset_by_client)
    reset_queue = awaited(offsets_.Offsets.reset_queue)
    search = awaited(offsets_.Offsets.search)
    set = awaited(offsets_.Offsets.set)
    target_of_queue = awaited(offsets_.Offsets.target_of_queue)


class Producers(_Part):
    __doc__ = producers_.Producers.__doc__

    all = awaited(producers_.Producers.all)
    connections = awaited(producers_.Producers.connections)


class RocksDb(_Part):
    __doc__ = rocksdb_.RocksDb.__doc__

    check_queues = awaited(rocksdb_.RocksDb.check_queues)
    export_configs = awaited(rocksdb_.RocksDb.export_configs)
    export_pop_records = awaited(rocksdb_.RocksDb.export_pop_records)


class Topics(_Part):
    __doc__ = topics_.Topics.__doc__

    allocation = awaited(topics_.Topics.allocation)
    change = awaited(topics_.Topics.change)
    clusters = awaited(topics_.Topics.clusters)
    delete = awaited(topics_.Topics.delete)
    delete_order_conf = awaited(topics_.Topics.delete_order_conf)
    deletion = awaited(topics_.Topics.deletion)
    flows = streamed(topics_.Topics.flows)
    groups = awaited(topics_.Topics.groups)
    hidden = awaited(topics_.Topics.hidden)
    list = awaited(topics_.Topics.list)
    order_conf = awaited(topics_.Topics.order_conf)
    put_order_conf = awaited(topics_.Topics.put_order_conf)
    route = awaited(topics_.Topics.route)
    set_perm = awaited(topics_.Topics.set_perm)
    status = awaited(topics_.Topics.status)
    system = awaited(topics_.Topics.system)
    update = awaited(topics_.Topics.update)
    update_many = awaited(topics_.Topics.update_many)
    update_ordered = awaited(topics_.Topics.update_ordered)
    with_groups = streamed(topics_.Topics.with_groups)


class Users(_Part):
    __doc__ = users_.Users.__doc__

    copy = awaited(users_.Users.copy)
    create = awaited(users_.Users.create)
    delete = awaited(users_.Users.delete)
    get = awaited(users_.Users.get)
    list = awaited(users_.Users.list)
    update = awaited(users_.Users.update)


class Admin(Client[api_.Admin]):
    __doc__ = in_words(api_.Admin.__doc__, ASYNCIO)

    def __init__(
        self,
        namesrv: str,
        *,
        timeout: float | None = None,
        credentials: Credentials | None = None,
        expected: Expected | None = None,
    ) -> None:
        client = api_.Admin(namesrv, timeout=timeout, credentials=credentials, expected=expected)
        super().__init__(client)
        self.acls = Acls(self, client.acls)
        self.brokers = Brokers(self, client.brokers)
        self.clusters = Clusters(self, client.clusters)
        self.controllers = Controllers(self, client.controllers)
        self.exports = Exports(self, client.exports)
        self.groups = Groups(self, client.groups)
        self.messages = Messages(self, client.messages)
        self.namesrv = Namesrv(self, client.namesrv)
        self.offsets = Offsets(self, client.offsets)
        self.producers = Producers(self, client.producers)
        self.rocksdb = RocksDb(self, client.rocksdb)
        self.topics = Topics(self, client.topics)
        self.users = Users(self, client.users)
