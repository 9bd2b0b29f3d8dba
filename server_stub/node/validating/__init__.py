"""Validators as a role of their own: the node's side, and the program on such a machine."""
