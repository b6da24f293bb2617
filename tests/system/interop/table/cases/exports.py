"""Exports."""

from ..case import Case

CASES = (
    Case("exportConfigs -c DefaultCluster -f {dir}/c", shows=("c/configs.json",)),
    Case("exportConfigs -c NoCluster -f {dir}/n"),
    Case("exportMetadata -c DefaultCluster -f {dir}/m", shows=("m/metadata.json",)),
    Case("exportMetadata -c DefaultCluster -t -f {dir}/t", shows=("t/topic.json",)),
    Case("exportMetadata -b {broker} -g -f {dir}/g", shows=("g/subscriptionGroup.json",)),
    Case("exportMetadata -b {broker} -t -s -f {dir}/s", shows=("s/topic.json",)),
    Case("exportMetadata"),
    Case("exportMetrics -c DefaultCluster -f {dir}/x", shows=("x/metrics.json",)),
    Case("exportPopRecord -c DefaultCluster -d false"),
    Case("exportPopRecord -b {broker} -d false"),
)
