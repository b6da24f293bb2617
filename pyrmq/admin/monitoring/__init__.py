"""Watching a cluster: figures of groups and servers, thresholds, alarms, and where alarms go."""
