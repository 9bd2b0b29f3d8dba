"""The coordinator: accounts, devices, grants, receipts and credits; never a number of a task."""
