"""A line for every command of `pyrmq admin` that asks a server; {places} as in the table of
mqadmin's commands."""

LINES = """
acl copy --from {broker} --to {broker}
acl create User:x -b {broker} --resource Topic:Asked --action Pub
acl delete User:x -b {broker} --yes
acl get User:x -b {broker}
acl list -b {broker}
acl update User:x -b {broker} --resource Topic:Asked --action Sub
broker bring-back {broker}
broker clean commitlog -b {broker} --yes
broker clean cq -b {broker}
broker clean topics -b {broker} --yes
broker cold-data get -b {broker}
broker cold-data remove -b {broker} --group Behind
broker cold-data set 1000 -b {broker} --group Behind
broker config get -c DefaultCluster
broker config set sendThreadPoolQueueCapacity 2000 -b {broker}
broker consume-stats -b {broker}
broker container add /tmp/none.conf --container {broker}
broker container remove --yes --container {broker} --cluster DefaultCluster --name broker-a --id 0
broker disk -b {broker}
broker disk --topic Asked
broker drain {broker} --reads --wait 0
broker drain-status broker-a
broker bring-back broker-a
broker epoch -c DefaultCluster
broker flush-offset 0 --yes -b {broker}
broker ha -b {broker}
broker history -b {broker}
broker hogs -b {broker}
broker hogs --by topic --last 1h
broker probe --topic Sent --count 2 --size 10
broker read-ahead normal -b {broker}
broker status -b {broker}
cluster list
cluster rt --amount 2 --size 16 --rounds 1
controller clean broker-a --yes --controller {broker} --cluster DefaultCluster
controller config get --controller {broker}
controller config set a b --controller {broker}
controller elect 1 --yes --controller {broker} --cluster DefaultCluster --broker-name broker-a
controller metadata --controller {broker}
controller sync-state --controller {broker} --cluster DefaultCluster
dlq export Behind
dlq list
dlq look Behind
dlq resend Behind --to group --all --yes
dlq resend Behind --to topic --all --dry-run
export configs -c DefaultCluster --folder {dir}/c
export metadata -c DefaultCluster --folder {dir}/m
export metrics -c DefaultCluster --folder {dir}/x
export pop-records --yes -b {broker}
export rocksdb -b {broker}
group config Behind
group connections Live
group create Made-group -b {broker}
group delete Doomed-2 -b {broker} --yes
group list
group mode Target Asked pull -b {broker}
group offsets Live Asked
group progress Behind
group progress Live --clients
group status Live
message by-key k3 --topic Asked
message by-offset 1 --topic Asked --broker-name broker-a --queue 1
message by-unique-key {unique-2} --topic Asked
message get {offset-id-3} --topic Asked
message get {unique-3} --topic Asked
message life {unique-3} --topic Asked
message life {offset-id-3}
message life --key k3
message print --topic Asked
message queue-index 0 --topic Asked --queue 1
message send --topic Sent --body hello
message trace {unique-3}
namesrv config get
namesrv config set orderMessageEnable true
namesrv kv delete Space key --yes
namesrv kv get Space
namesrv kv put Space key value
namesrv write-perm add broker-a
namesrv write-perm wipe broker-a --yes
offset clone Behind Target Asked --yes
offset reset Target Asked --to now --dry-run
offset reset Target Asked --to now --yes
offset reset Target Asked --offset 1 --queue 1 --yes
offset skip Target Asked --dry-run
offset skip Target Asked --yes
producer connections Producers Traced
producer list --broker {broker}
topic allocate Asked 10.0.0.1 10.0.0.2
topic clusters Asked
topic create Made -b {broker}
topic delete Doomed -c DefaultCluster --yes
topic list --groups
topic order get Plain
topic order put Plain broker-a:2
topic order delete Plain --yes
topic route Asked
topic set-perm Made 6 -b {broker}
topic stats Asked
topic stats
topic status Asked
txn commit half-1 -b {broker} --yes
txn list -b {broker}
txn resume half-1 -b {broker} --yes
txn rollback half-1 -b {broker} --yes
txn show half-1 -b {broker}
txn stats -b {broker}
user copy --from {broker} --to {broker}
user create x -b {broker} --password y
user delete x -b {broker} --yes
user get x -b {broker}
user list -b {broker}
user update x -b {broker} --status disable
monitor run --once
export cluster -c DefaultCluster --folder {dir}/w
cluster diff {wanted}
cluster apply {wanted} --yes
""".strip().splitlines()
