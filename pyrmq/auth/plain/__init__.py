"""Access control of RocketMQ 4.x (ACL 1.0): accounts in plain_acl.yml and conf/acl.

`access.py` puts the parts together. [PlainPermissionManager, PlainAccessValidator]
"""
