"""The topics that every broker has. [TopicConfigManager, TopicValidator]"""

from __future__ import annotations

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.model.broker_name import MEMBER_TOPIC_PREFIX
from pyrmq.model.names import AUTO_CREATE_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC
from pyrmq.model.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig

CHECKPOINT_TOPIC = "CHECKPOINT_TOPIC"
"""A name that RocketMQ keeps for itself; no broker makes it."""
_RW = PERM_READ | PERM_WRITE


def system_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Those of a broker with this configuration."""
    cluster, name = config.broker_cluster_name, config.broker_name
    cluster_perm = PERM_INHERIT | (_RW if config.cluster_topic_enable else 0)
    broker_perm = PERM_INHERIT | (_RW if config.broker_topic_enable else 0)
    rows = [
        ("SELF_TEST_TOPIC", 1, _RW),
        ("BenchmarkTest", 1024, _RW),
        (cluster, 16, cluster_perm),
        (name, 1, broker_perm),
        ("OFFSET_MOVED_EVENT", 1, _RW),
        (SCHEDULE_TOPIC, len(config.delay_levels), _RW),
        (f"{cluster}_REPLY_TOPIC", 1, _RW),
        (f"rmq_sys_REVIVE_LOG_{cluster}", 8, _RW),
        (f"{MEMBER_TOPIC_PREFIX}{name}", 1, PERM_INHERIT),
        (HALF_TOPIC, 1, _RW),
        (OP_TOPIC, 1, _RW),
        ("rmq_sys_wheel_timer", 1, _RW),
    ]
    if config.auto_create_topic_enable:
        rows.append((AUTO_CREATE_TOPIC, config.default_topic_queue_nums, _RW | PERM_INHERIT))
    if config.trace_topic_enable:
        rows.append((config.msg_trace_topic_name, 1, _RW))
    return [TopicConfig(topic, n, n, perm) for topic, n, perm in rows]
