"""What keeps a node's data over the years: backups, restoring, checks, and collecting what is free.

Nothing here runs inside the service: each is a command that may work beside a running node.
"""
