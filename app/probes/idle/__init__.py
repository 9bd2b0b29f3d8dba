"""Whether a person uses the machine: many sources, one answer (`merge.py`)."""
