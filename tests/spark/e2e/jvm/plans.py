"""What Spark made of a query: its plan, its tasks, and what they have read."""

from __future__ import annotations

from pyspark.sql import DataFrame


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def tasks_of(frame: DataFrame) -> int:
    plan = frame._jdf.queryExecution().executedPlan()
    return int(plan.collectLeaves().head().inputPartitions().size())


def metrics_of(frame: DataFrame) -> dict[str, int]:
    """What the tasks of the first scan have read."""
    execution = frame._jdf.queryExecution()
    execution.toRdd().count()
    plan = execution.executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    if plan.nodeName() == "ResultQueryStage":
        plan = plan.plan()
    leaves = plan.collectLeaves()
    every = (leaves.apply(number).metrics() for number in range(leaves.size()))
    metrics = next(one for one in every if one.contains("messagesExamined"))
    names = ("messagesExamined", "bytesRead", "rowsRead", "bytesSkipped", "damagedParts")
    return {name: int(metrics.apply(name).value()) for name in names}
