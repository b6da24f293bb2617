"""mqadmin's commands, the original and ours, each on Apache RocketMQ's servers and on ours.

python -m tests.system.interop.table            # runs all, writes docs/mqadmin-table.md
python -m tests.system.interop.table --again    # compares what the last run has kept, runs nothing
"""
