"""The counter IDLETIME of an X server, by two alarms: one when input stops, one when it comes.

Owns: the alarms and what they say. Must not: be used below XWayland, which sees half of the input.
Protocol: X Synchronization Extension, version 3.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from app.probes.desktop.xconnection import XConnection, XError
from app.probes.idle.source import Input

__all__ = ["IdleAlarm"]

IDLE_AFTER_S: Final = 2.0
COUNTER: Final = b"IDLETIME"
MOST_COUNTERS: Final = 256
POSITIVE, NEGATIVE = 0, 1
_ALARM_FIELDS: Final = 0b111111
"""Counter, value type, value, test, delta, events. The delta is 0: the alarm stays as it is."""


class IdleAlarm:
    """The alarms of one connection. `start` first, then `take` for every event.

    Args:
        now_s: Unix seconds.
    """

    def __init__(self, connection: XConnection, now_s: Callable[[], float]) -> None:
        self._connection = connection
        self._now_s = now_s
        self._event = 0
        self._idle_alarm = 0
        self._active_alarm = 0

    async def start(self) -> Input:
        """Sets the alarms; what holds now.

        Raises:
            XError: the server has no such counter.
        """
        x = self._connection
        major, first_event = await x.extension("SYNC")
        await x.ask(major, 0, struct.pack("<BBxx", 3, 0))
        counter = _counter(await x.ask(major, 1, b""))
        self._event = first_event + 1
        self._idle_alarm = self._alarm(major, counter, POSITIVE)
        self._active_alarm = self._alarm(major, counter, NEGATIVE)
        reply = await x.ask(major, 5, struct.pack("<I", counter))
        idle_s = _int64(reply, 8) / 1000.0
        is_active = idle_s < IDLE_AFTER_S
        return Input(self._now_s() - max(0.0, idle_s), is_active=is_active)

    def _alarm(self, major: int, counter: int, test: int) -> int:
        alarm = self._connection.new_id()
        threshold_ms = round(IDLE_AFTER_S * 1000)
        values = struct.pack("<IIiIIiII", counter, 0, 0, threshold_ms, test, 0, 0, 1)
        self._connection.send(major, 8, struct.pack("<II", alarm, _ALARM_FIELDS) + values)
        return alarm

    def take(self, event: bytes) -> Input | None:
        """What an event says; None for events of something else."""
        if event[0] & 0x7F != self._event:
            return None
        (alarm,) = struct.unpack_from("<I", event, 4)
        if alarm == self._active_alarm:
            return Input(self._now_s(), is_active=True)
        if alarm == self._idle_alarm:
            return Input(self._now_s() - IDLE_AFTER_S)
        return None


def _counter(reply: bytes) -> int:
    """The number of IDLETIME among the system's counters."""
    (count,) = struct.unpack_from("<I", reply, 8)
    at = 32
    for _ in range(min(count, MOST_COUNTERS)):
        if at + 14 > len(reply):
            break
        counter, _, _, length = struct.unpack_from("<IiIH", reply, at)
        if reply[at + 14 : at + 14 + length] == COUNTER:
            return int(counter)
        at += (14 + length + 3) // 4 * 4
    raise XError("the X server has no idle counter")


def _int64(data: bytes, at: int) -> int:
    high, low = struct.unpack_from("<iI", data, at)
    return (int(high) << 32) | int(low)
