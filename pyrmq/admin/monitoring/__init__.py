"""Watching a cluster: figures of groups and servers, thresholds, alarms, and where alarms go."""

from pyrmq.admin.monitoring.alarms import Event as Event
from pyrmq.admin.monitoring.alarms import Sample as Sample
from pyrmq.admin.monitoring.alarms import State as State
from pyrmq.admin.monitoring.metrics import METRICS as METRICS
from pyrmq.admin.monitoring.metrics import Subject as Subject
from pyrmq.admin.monitoring.metrics import Threshold as Threshold
from pyrmq.admin.monitoring.monitor import Monitor as Monitor
from pyrmq.admin.monitoring.rounds import Report as Report
from pyrmq.admin.monitoring.settings import Settings as Settings
from pyrmq.admin.monitoring.settings import parse as parse
from pyrmq.admin.monitoring.settings import read as read
from pyrmq.admin.monitoring.sinks import SinkError as SinkError
