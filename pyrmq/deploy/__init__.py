"""Files to run servers with systemd, Docker, Compose and Kubernetes.

They are part of the package, so that who has only a wheel has them, of the version that is installed.
`pyrmq deploy` writes them as they are: there is no template language. What is to be changed stands
in them as a comment.
"""
