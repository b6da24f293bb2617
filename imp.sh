cd /tmp/h/prod; export PYTHONPATH=$PWD; P=/work/main/.venv/bin/python
for m in pyrmq pyrmq.client; do for i in 1 2 3; do $P -c "
import time; t=time.perf_counter()
import $m; print('$m', round((time.perf_counter()-t)*1000,1), end='  ')"; done; echo; done
$P -c "
import sys, pyrmq.client
print([m for m in ('lz4','zstandard','asyncio','pyrmq.broker','pyarrow') if m in sys.modules])"
