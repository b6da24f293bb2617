"""RocketMQ segments for Spark: the data source `rocketmq`, its sink, and the pipeline jobs."""
