"""All messages, one file a dialogue. Importing this package fills the registry."""

from gpugoblin.wire.messages import (
    account,
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
    "account",
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
