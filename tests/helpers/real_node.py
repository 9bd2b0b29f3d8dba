"""A lab node in this process with its real workers, and with its real way to Ray.

Owns: `RealNode`.
"""

from __future__ import annotations

import asyncio

from server_stub.node.executors.ray_link import RayLink
from server_stub.node.service import Service, open_state
from tests.helpers.node import LabNode
from tests.helpers.ray_cluster import wait_until

__all__ = ["RealNode"]

START_S = 90.0


class RealNode(LabNode):
    """A node whose workers are processes, as they are outside of tests."""

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        state = open_state(self.settings)
        try:
            async with Service(state) as self.service:
                self._ready.set()
                await self._stop.wait()
        finally:
            state.close()

    @property
    def ray(self) -> RayLink:
        made = self.node.ray
        assert made is not None
        assert isinstance(made.link, RayLink)
        return made.link

    def await_seats(self, count: int) -> None:
        wait_until(
            lambda: len(self.ray.seats) == count, START_S,
            f"{count} machines are there ({self.ray.trouble})",
        )  # fmt: skip
