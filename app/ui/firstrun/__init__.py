"""The first run: from the start of a new program to a machine that lends, page by page."""
