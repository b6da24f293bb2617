#!/usr/bin/env bash
# The tests marked spark_versions with each PySpark that is supported beside the one in .venv: what
# the data source relies on differs between them. Needs .venv (make setup), whose packages and built
# engine are used; only PySpark itself and py4j are installed, into build/spark-VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=${*:-4.1.4 4.2.1}

for version in $versions; do
    folder=build/spark-$version
    if [ ! -f "$folder/ready" ]; then
        rm -rf "$folder"
        .venv/bin/python -m venv --without-pip "$folder"
        site=$("$folder/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
        .venv/bin/pip install --quiet --disable-pip-version-check --target "$site" "pyspark==$version"
        # Behind what is installed here, all of .venv, with its own .pth files.
        ours=$(.venv/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")
        echo "import site; site.addsitedir('$ours')" >"$site/rest-from-venv.pth"
        touch "$folder/ready"
    fi
    found=$("$folder/bin/python" -c "import pyspark; print(pyspark.__version__)")
    [ "$found" = "$version" ] ||
        { echo "spark-versions: $folder has PySpark $found, not $version; remove it"; exit 1; }
    echo "spark-versions: PySpark $version"
    "$folder/bin/python" -m pytest -q -m spark_versions tests/spark
done
