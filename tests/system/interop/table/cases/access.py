"""Users and access lists. (Authentication is off, but users and lists are kept.)"""

from ..case import Case

CASES = (
    Case("createUser -b {broker} -u alice -p secret-1"),
    Case("createUser -c DefaultCluster -u bob -p secret-2 -t Super"),
    Case("createUser -b {broker} -u alice -p secret-1 "),
    Case("updateUser -b {broker} -u alice -p secret-3"),
    Case("updateUser -b {broker} -u alice -s disable"),
    Case("updateUser -b {broker} -u nobody -p x"),
    Case("getUser -b {broker} -u alice"),
    Case("getUser -c DefaultCluster -u bob"),
    Case("getUser -b {broker} -u nobody"),
    Case("listUser -b {broker}", unordered=True),
    Case("listUser -c DefaultCluster -f bo"),
    Case(
        "createAcl -b {broker} -s User:alice -r Topic:Asked,Group:Live -a Pub,Sub"
        " -d Allow -i 10.0.0.1"
    ),
    Case("createAcl -c DefaultCluster -s User:bob -r Topic:* -a All -d Deny"),
    Case("updateAcl -b {broker} -s User:alice -r Topic:Asked -a Sub -d Deny"),
    Case("createAcl -b {broker} -s User:nobody -r Topic:Asked -a Sub -d Deny"),
    Case("getAcl -b {broker} -s User:alice", unordered=True),
    Case("getAcl -b {broker} -s User:nobody"),
    Case("listAcl -b {broker}", unordered=True),
    Case("listAcl -c DefaultCluster -s User:bob"),
    Case("deleteAcl -b {broker} -s User:alice -r Topic:Asked"),
    Case("deleteAcl -c DefaultCluster -s User:bob"),
    Case("copyUser -f {broker} -t {broker} -u alice"),
    Case("copyAcl -f {broker} -t {broker} -s User:alice"),
    Case("deleteUser -b {broker} -u alice"),
    Case("deleteUser -c DefaultCluster -u bob"),
    Case("getUser -b {broker} -u alice "),
)
