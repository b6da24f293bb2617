"""The portal: how programs that do not run on trio call the clients, which do."""
