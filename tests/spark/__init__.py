"""Reading raw segments: pyrmq.scan and the Spark data source."""
