"""Files to run servers with systemd, Docker, Compose and Kubernetes.

They are part of the package: who has only a wheel has them too, of the version that is installed.
`pyrmq deploy` writes them as they are: there is no template language. Comments in them say what to
change.
"""
