"""One card ready to compute: device, queue, kernels, the block that programs share.

Owns: all that outlives a program, and the moving of tensors between host and card. Must not: know
an operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from app.engine.backends.card.steps import ALIGNMENT_BYTES
from app.engine.backends.vulkan.device import Device, choose
from app.engine.backends.vulkan.instance import Instance
from app.engine.backends.vulkan.loader import library
from app.engine.backends.vulkan.memory import Block, Space
from app.engine.backends.vulkan.recording import Commands, Pipelines, Queue
from gpugoblin.catalog.spec import Array
from gpugoblin.errors import EngineError
from gpugoblin.hashing import digest
from gpugoblin.units import MIB

__all__ = ["Machine", "kernel_key", "kernel_name"]

STAGING_BYTES: Final = 16 * MIB
IDLE_KEPT: Final = 32
"""Kernels that no program holds and that are kept for the next one."""
DOMAIN: Final = "gpugoblin 2026-12 kernel words"


def kernel_key(words: bytes) -> str:
    """What names a kernel: 64 hexadecimal digits, of which people and the agent see 16."""
    return digest(DOMAIN, [words])


def kernel_name(words: bytes) -> str:
    """The first 16 digits of its key."""
    return kernel_key(words)[:16]


class Machine:
    """Args:
        uuid: of the card; empty for the first.
        validated: under the validation layer.

    Raises:
        EngineError: `card_missing`, `card_unsuited`, `card_failed`.
    """

    def __init__(self, uuid: str = "", *, validated: bool = False) -> None:
        self.instance = Instance(validated=validated)
        self.device = Device(choose(self.instance, uuid))
        self.pipelines = Pipelines(self.device)
        self.queue = Queue(self.device)
        self.block: Space | None = None
        self.page_bytes = _page_bytes(self.device.limits.allocation_bytes)
        """What is allocated at once, at most."""
        self.tenant: object | None = None
        """The program that ran in the block last: its constants still lie there."""
        self.refused: frozenset[str] = frozenset()
        """Names of kernels that lost this card again and again: they are not run."""
        self.alone: frozenset[str] = frozenset()
        """Names of kernels that ran when the card was lost: each runs by itself."""
        self.in_flight: dict[int, tuple[str, ...]] = {}
        """By submission, the names of the kernels that the card has not answered for."""
        self._staging = Block(self.device, STAGING_BYTES, visible=True)
        self._compiled: dict[str, Any] = {}
        self._users: dict[str, int] = {}
        self.keeps_small: bool | None = None
        """Does it compute with numbers below 2^-126? None until it was asked."""
        self.weight_per_s = 1e11
        """How fast the card was seen to be, in the units of a program's steps."""

    def require_no_complaint(self) -> None:
        """Raises EngineError `card_failed` with what the validation layer said."""
        if self.instance.complaints:
            result = self.instance.complaints.pop(0)[:300]
            raise EngineError("card_failed", doing="being watched by its judge", result=result)

    def claim(self, words: bytes) -> str:
        """The name of a module's kernel, compiled once, kept until its claims are dropped."""
        key = kernel_key(words)
        if key not in self._compiled:
            self._compiled[key] = self.pipelines.compile(words)
        self._users[key] = self._users.get(key, 0) + 1
        return key

    def pipeline(self, key: str) -> Any:
        return self._compiled[key]

    def drop(self, keys: Sequence[str]) -> None:
        """Ends claims; the card must be done with these kernels."""
        for key in keys:
            self._users[key] -= 1
        idle = [key for key, users in self._users.items() if users == 0]
        for key in idle[: max(0, len(idle) - IDLE_KEPT)]:
            del self._users[key]
            self.pipelines.destroy(self._compiled.pop(key))

    def hold(self, size_bytes: int) -> Space:
        """The block for tensors, of at least this size, in pages. Its contents are not kept.

        Raises:
            MemoryError: the card has not that much.
        """
        held = self.block
        is_whole = held is not None and size_bytes <= held.page_bytes
        if (
            held is not None
            and held.size_bytes >= size_bytes
            and (is_whole or held.page_bytes == self.page_bytes)
        ):
            return held
        if held is not None:
            held.close()  # the old one goes before the new one comes
            self.block = self.tenant = None
        if size_bytes > self.device.budget_bytes():
            raise MemoryError
        try:
            self.block = Space(self.device, size_bytes, self.page_bytes)
        except EngineError as cause:
            if cause.code == "card_memory":
                raise MemoryError from cause
            raise
        return self.block

    def finish(self, number: int) -> None:
        while not self.queue.wait(number):
            pass

    def _now(self, copies: Sequence[tuple[Block, int, Block, int, int]]) -> None:
        commands = Commands(self.device, self.pipelines)
        try:
            for copy in copies:
                commands.copy(*copy)
            commands.barrier()
            commands.for_host()
            commands.end()
            self.finish(self.queue.submit(commands))
        finally:
            commands.close()

    def upload(self, block: Space, tensors: Sequence[tuple[int, Array]]) -> None:
        """Puts arrays at places of the block, as many at once as the staging memory holds."""
        stage, filled = self._staging, 0
        copies: list[tuple[Block, int, Block, int, int]] = []
        for place, array in tensors:
            flat = _bytes(array)
            done = 0
            while done < flat.size:
                if filled == stage.size_bytes:
                    self._now(copies)
                    filled, copies = 0, []
                size = min(flat.size - done, stage.size_bytes - filled)
                stage.bytes[filled : filled + size] = flat[done : done + size]
                copies.append((stage, filled, *block.find(place + done), size))
                filled = min(stage.size_bytes, _aligned(filled + size))
                done += size
        if copies:
            self._now(copies)

    def download(self, block: Space, tensors: Sequence[tuple[int, Array]]) -> None:
        """Fills C-contiguous arrays from places of the block."""
        stage, filled = self._staging, 0
        pending: list[tuple[Array, int, int, int]] = []
        for place, array in tensors:
            flat = _bytes(array)
            done = 0
            while done < flat.size:
                if filled == stage.size_bytes:
                    self._fetch(block, pending)
                    filled, pending = 0, []
                size = min(flat.size - done, stage.size_bytes - filled)
                pending.append((flat[done : done + size], place + done, filled, size))
                filled = min(stage.size_bytes, _aligned(filled + size))
                done += size
        if pending:
            self._fetch(block, pending)

    def _fetch(self, block: Space, pending: Sequence[tuple[Array, int, int, int]]) -> None:
        stage = self._staging
        self._now([(*block.find(place), stage, into, size) for _, place, into, size in pending])
        for part, _, into, size in pending:
            part[...] = stage.bytes[into : into + size]

    def close(self) -> None:
        """Waits for the card and gives everything back."""
        library.vkDeviceWaitIdle(self.device.handle)
        self._staging.close()
        if self.block is not None:
            self.block.close()
        self.queue.close()
        self.pipelines.close()
        self.device.close()
        self.instance.close()


def _page_bytes(allocation_bytes: int) -> int:
    """With room for what a driver adds to an allocation."""
    left = allocation_bytes - min(MIB, allocation_bytes // 16)
    return left // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view("u1")
