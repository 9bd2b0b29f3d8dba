"""The contributor's background process: policy in, engines and leases out. No window, no NumPy."""
