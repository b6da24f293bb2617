cd /tmp/h/prod; export PYTHONPATH=$PWD; nice /work/main/.venv/bin/python -m pytest -q -x "$@" 2>&1 | tail -40
