"""Every code that a verdict may carry, with the names of its fields.

Owns: the list, which words and translations are proven against. Must not: hold words.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["REASONS"]

REASONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "lending": (),
        # the owner
        "owner_paused": (),
        "owner_finishing": (),
        "owner_finished": (),
        "owner_stopped": (),
        # cards and the machine
        "card_unusable": ("why",),
        "card_not_chosen": (),
        "machine_sleeps": (),
        # people
        "away": ("last_at_s", "source"),
        "never_used": ("source",),
        "in_use": ("source",),
        "kept_awake": ("program",),
        "idle_unknown": ("why",),
        # other programs
        "game_runs": ("games",),
        "program_runs": ("programs",),
        "full_screen": ("program",),
        "play_unknown": ("why",),
        "card_used": ("programs",),
        "lent_by_another": ("holder",),
        "card_memory_short": ("most_percent",),
        "foreign_unknown": ("why",),
        "processor_needed": ("limit_percent",),
        "memory_short": ("least_bytes",),
        "disk_short": ("least_bytes",),
        "load_unknown": ("why",),
        # hours
        "inside_hours": ("ends_at_s",),
        "hours_end": ("ends_at_s",),
        "outside_hours": (),
        "energy_dear": (),
        "dear_soon": ("begins_at_s",),
        # heat and power
        "hot": ("limit_c", "resume_c", "sensor"),
        "sensor_lies": ("reading_c", "sensor"),
        "sensors_unknown": ("why",),
        "fan_fast": ("limit_rpm",),
        "on_battery": (),
        "on_ups": (),
        "saving_power": (),
        "lid_closed": (),
        "power_unknown": ("why",),
        "power_capped": ("cap_w",),
        "duty": ("percent",),
        # network
        "metered": (),
        "not_wired": (),
        "day_spent": ("limit_bytes",),
        "month_spent": ("limit_bytes",),
        "network_unknown": ("why",),
        # a cause that has just passed; with the fields of that cause
        "was_needed": ("cause",),
    }
)
