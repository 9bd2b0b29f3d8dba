"""Whether there is a newer version: looked up, announced, never installed."""
