"""The border between the agent and everything that shows it. Nobody needs a window to use it."""
