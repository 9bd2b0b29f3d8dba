"""All messages, one file a dialogue. Importing this package fills the registry."""

from gpugoblin.wire.messages import (
    blob,
    contact,
    enrol,
    job,
    lease,
    probe,
    receipt,
    sharing,
    summary,
    task,
    training,
)

__all__ = [
    "blob",
    "contact",
    "enrol",
    "job",
    "lease",
    "probe",
    "receipt",
    "sharing",
    "summary",
    "task",
    "training",
]
