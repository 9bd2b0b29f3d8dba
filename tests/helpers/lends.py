"""Settings for agents of tests, which run on machines that are in use and busy."""

from __future__ import annotations

LENDS_ALWAYS = (
    'profile = "custom"',
    'away.when_present = "go_on"',
    "load.processor_percent = 100",
    "memory.least_free_mib = 0",
    "disk.least_free_mib = 0",
)
"""Settings for an agent that lends whoever uses this machine, and however busy it is."""
