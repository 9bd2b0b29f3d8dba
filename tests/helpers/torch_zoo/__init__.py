"""Programs of PyTorch that are none of the zoo's: what researchers may also write.

Importing a module of this package needs torch, and puts its programs into `table.PROGRAMS`.
"""
