"""`pyrmq.admin.Admin` for plain code: each call blocks, and generators are plain ones.

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
from pyrmq.background import Background
from pyrmq.face_docs import PLAIN, in_words
from pyrmq.net.client.signing import Credentials
from pyrmq.sync_face import Client, blocking, streamed


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

    copy = blocking(acls_.Acls.copy)
    create = blocking(acls_.Acls.create)
    delete = blocking(acls_.Acls.delete)
    get = blocking(acls_.Acls.get)
    list = blocking(acls_.Acls.list)
    update = blocking(acls_.Acls.update)


class Brokers(_Part):
    __doc__ = brokers_.Brokers.__doc__

    add = blocking(brokers_.Brokers.add)
    clean_log = blocking(brokers_.Brokers.clean_log)
    clean_queues = blocking(brokers_.Brokers.clean_queues)
    clean_topics = blocking(brokers_.Brokers.clean_topics)
    cold_data = blocking(brokers_.Brokers.cold_data)
    config = blocking(brokers_.Brokers.config)
    config_of = blocking(brokers_.Brokers.config_of)
    consume_stats = blocking(brokers_.Brokers.consume_stats)
    each = blocking(brokers_.Brokers.each)
    ha = blocking(brokers_.Brokers.ha)
    promote = blocking(brokers_.Brokers.promote)
    remove = blocking(brokers_.Brokers.remove)
    remove_cold_data_threshold = blocking(brokers_.Brokers.remove_cold_data_threshold)
    reset_flush_offset = blocking(brokers_.Brokers.reset_flush_offset)
    runtime = blocking(brokers_.Brokers.runtime)
    runtime_of = blocking(brokers_.Brokers.runtime_of)
    set_cold_data_threshold = blocking(brokers_.Brokers.set_cold_data_threshold)
    set_read_ahead = blocking(brokers_.Brokers.set_read_ahead)
    update_config = blocking(brokers_.Brokers.update_config)


class Clusters(_Part):
    __doc__ = clusters_.Clusters.__doc__

    epochs = blocking(clusters_.Clusters.epochs)
    health = blocking(clusters_.Clusters.health)
    list = blocking(clusters_.Clusters.list)
    probe = streamed(clusters_.Clusters.probe)
    round_trips = streamed(clusters_.Clusters.round_trips)


class Controllers(_Part):
    __doc__ = controllers_.Controllers.__doc__

    clean = blocking(controllers_.Controllers.clean)
    config = blocking(controllers_.Controllers.config)
    elect = blocking(controllers_.Controllers.elect)
    metadata = blocking(controllers_.Controllers.metadata)
    sync_states = blocking(controllers_.Controllers.sync_states)
    update_config = blocking(controllers_.Controllers.update_config)


class Exports(_Part):
    __doc__ = exports_.Exports.__doc__

    configs = blocking(exports_.Exports.configs)
    metadata = blocking(exports_.Exports.metadata)
    metrics = blocking(exports_.Exports.metrics)


class Groups(_Part):
    __doc__ = groups_.Groups.__doc__

    change = blocking(groups_.Groups.change)
    configs = blocking(groups_.Groups.configs)
    connections = blocking(groups_.Groups.connections)
    consume_stats = blocking(groups_.Groups.consume_stats)
    delete = blocking(groups_.Groups.delete)
    delete_topics = blocking(groups_.Groups.delete_topics)
    names = blocking(groups_.Groups.names)
    queue_owners = blocking(groups_.Groups.queue_owners)
    running_info = blocking(groups_.Groups.running_info)
    set_consume_mode = blocking(groups_.Groups.set_consume_mode)
    stats_of_broker = blocking(groups_.Groups.stats_of_broker)
    summaries = streamed(groups_.Groups.summaries)
    update = blocking(groups_.Groups.update)
    update_many = blocking(groups_.Groups.update_many)


class Messages(_Part):
    __doc__ = messages_.Messages.__doc__

    at = blocking(messages_.Messages.at)
    by_key = blocking(messages_.Messages.by_key)
    by_unique_key = blocking(messages_.Messages.by_unique_key)
    consume_directly = blocking(messages_.Messages.consume_directly)
    get = blocking(messages_.Messages.get)
    queue_entries = blocking(messages_.Messages.queue_entries)
    queues = blocking(messages_.Messages.queues)
    read = streamed(messages_.Messages.read)
    send = blocking(messages_.Messages.send)
    slice = blocking(messages_.Messages.slice)
    traces = blocking(messages_.Messages.traces)
    tracks = blocking(messages_.Messages.tracks)


class Namesrv(_Part):
    __doc__ = namesrv_.Namesrv.__doc__

    add_write_perm = blocking(namesrv_.Namesrv.add_write_perm)
    all = blocking(namesrv_.Namesrv.all)
    config = blocking(namesrv_.Namesrv.config)
    delete = blocking(namesrv_.Namesrv.delete)
    get = blocking(namesrv_.Namesrv.get)
    put = blocking(namesrv_.Namesrv.put)
    update_config = blocking(namesrv_.Namesrv.update_config)
    wipe_write_perm = blocking(namesrv_.Namesrv.wipe_write_perm)


class Offsets(_Part):
    __doc__ = offsets_.Offsets.__doc__

    clone = blocking(offsets_.Offsets.clone)
    of_clients = blocking(offsets_.Offsets.of_clients)
    plan = blocking(offsets_.Offsets.plan)
    reset = blocking(offsets_.Offsets.reset)
    reset_by_client = blocking(offsets_.Offsets.reset_by_client)
    reset_queue = blocking(offsets_.Offsets.reset_queue)
    search = blocking(offsets_.Offsets.search)
    set = blocking(offsets_.Offsets.set)
    target_of_queue = blocking(offsets_.Offsets.target_of_queue)


class Producers(_Part):
    __doc__ = producers_.Producers.__doc__

    all = blocking(producers_.Producers.all)
    connections = blocking(producers_.Producers.connections)


class RocksDb(_Part):
    __doc__ = rocksdb_.RocksDb.__doc__

    check_queues = blocking(rocksdb_.RocksDb.check_queues)
    export_configs = blocking(rocksdb_.RocksDb.export_configs)
    export_pop_records = blocking(rocksdb_.RocksDb.export_pop_records)


class Topics(_Part):
    __doc__ = topics_.Topics.__doc__

    allocation = blocking(topics_.Topics.allocation)
    change = blocking(topics_.Topics.change)
    clusters = blocking(topics_.Topics.clusters)
    delete = blocking(topics_.Topics.delete)
    delete_order_conf = blocking(topics_.Topics.delete_order_conf)
    deletion = blocking(topics_.Topics.deletion)
    flows = streamed(topics_.Topics.flows)
    groups = blocking(topics_.Topics.groups)
    hidden = blocking(topics_.Topics.hidden)
    list = blocking(topics_.Topics.list)
    order_conf = blocking(topics_.Topics.order_conf)
    put_order_conf = blocking(topics_.Topics.put_order_conf)
    route = blocking(topics_.Topics.route)
    set_perm = blocking(topics_.Topics.set_perm)
    status = blocking(topics_.Topics.status)
    system = blocking(topics_.Topics.system)
    update = blocking(topics_.Topics.update)
    update_many = blocking(topics_.Topics.update_many)
    update_ordered = blocking(topics_.Topics.update_ordered)
    with_groups = streamed(topics_.Topics.with_groups)


class Users(_Part):
    __doc__ = users_.Users.__doc__

    copy = blocking(users_.Users.copy)
    create = blocking(users_.Users.create)
    delete = blocking(users_.Users.delete)
    get = blocking(users_.Users.get)
    list = blocking(users_.Users.list)
    update = blocking(users_.Users.update)


class Admin(Client[api_.Admin]):
    __doc__ = in_words(api_.Admin.__doc__, PLAIN)

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
