"""Prints the path of the jar: `spark-submit --jars $(python -m spark_ext) …`."""

from __future__ import annotations

import sys

from spark_ext import jar
from spark_ext.errors import SparkSetupError

if __name__ == "__main__":
    try:
        print(jar.path())
    except SparkSetupError as error:
        sys.exit(f"spark_ext: {error}")
