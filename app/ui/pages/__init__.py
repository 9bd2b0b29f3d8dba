"""The pages of the window, one a file: each shows items and settings, and asks by `Context`."""
