"""Pipelines and recorded commands.

Owns: compute pipelines, command buffers, the wait for them, and time stamps. Must not: know what a
kernel computes.

All kernels have one layout: no descriptors, and the first bytes of push constants hold addresses.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from app.engine.backends.card.spirv import controlled, loose
from app.engine.backends.vulkan.device import Device
from app.engine.backends.vulkan.loader import Structures, constant, ffi, library, require
from app.engine.backends.vulkan.memory import Block

__all__ = ["PUSH_BYTES", "Commands", "Pipelines", "Queue"]

PUSH_BYTES: Final = 128
"""What every card has."""

MOST_CACHED: Final = 256
"""Kernels that a driver keeps beside those that are in use: a working engine compiles many more."""

HEADER: Final = struct.Struct("<IIII16s")
"""How each export begins: its own length, its version, vendor, device, and the driver's mark."""

WAIT_NS: Final = 50_000_000
"""How long one wait lasts before the caller is asked whether it still wants the result."""


class Pipelines:
    """Compiled kernels, until `close`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._made: list[Any] = []
        make = Structures()
        stage = constant("VK_SHADER_STAGE_COMPUTE_BIT")
        pushed = make.make("PushConstantRange", stageFlags=stage, offset=0, size=PUSH_BYTES)
        info = make.make(
            "PipelineLayoutCreateInfo", pushConstantRangeCount=1, pPushConstantRanges=pushed
        )
        found = ffi.new("VkPipelineLayout *")
        require(
            library.vkCreatePipelineLayout(device.handle, info, ffi.NULL, found),
            "making a pipeline layout",
        )
        self.layout = found[0]
        self._given, self._compiled = b"", 0
        self._cache = _made_cache(device, b"")

    def load(self, compiled: bytes) -> bool:
        """Takes an export of an engine that warmed up; False where it is of another card or driver.

        Its header is compared first: no driver has to survive the bytes of another one.
        """
        if not _is_own(self._device, compiled):
            return False
        self._begin_again(compiled)
        return True

    def _begin_again(self, given: bytes) -> None:
        """The driver adds whatever is compiled to its cache: back to what was given."""
        fresh = _made_cache(self._device, given)
        library.vkDestroyPipelineCache(self._device.handle, self._cache, ffi.NULL)
        self._cache, self._compiled, self._given = fresh, 0, given

    def export(self) -> bytes:
        """All kernels that were compiled, as this driver writes them."""
        handle = self._device.handle
        size = ffi.new("size_t *")
        doing = "exporting kernels"
        require(library.vkGetPipelineCacheData(handle, self._cache, size, ffi.NULL), doing)
        data = ffi.new("char[]", max(1, size[0]))
        require(library.vkGetPipelineCacheData(handle, self._cache, size, data), doing)
        return bytes(ffi.buffer(data, size[0]))

    def compile(self, words: bytes) -> Any:
        """A pipeline of a SPIR-V module whose entry point is `main`.

        Raises:
            EngineError: `card_failed`, `card_memory`.
        """
        if self._compiled == MOST_CACHED:
            self._begin_again(self._given)
        self._compiled += 1
        make = Structures()
        # With the sign of zero kept NVIDIA's driver joins no product with a sum: half the speed.
        if self._device.card.software or not loose(words):
            words = controlled(words, sorted(self._device.controls))
        code = make.array("uint32_t", len(words) // 4)
        ffi.buffer(code)[:] = words
        info = make.make("ShaderModuleCreateInfo", codeSize=len(words), pCode=code)
        module = ffi.new("VkShaderModule *")
        handle = self._device.handle
        require(library.vkCreateShaderModule(handle, info, ffi.NULL, module), "loading a kernel")
        try:
            pipeline = make.make("ComputePipelineCreateInfo", layout=self.layout)
            stage = pipeline.stage
            stage.sType = constant("VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO")
            stage.stage = constant("VK_SHADER_STAGE_COMPUTE_BIT")
            stage.module = module[0]
            stage.pName = make.text("main")
            found = ffi.new("VkPipeline *")
            require(
                library.vkCreateComputePipelines(handle, self._cache, 1, pipeline, ffi.NULL, found),
                "compiling a kernel",
            )
        finally:
            library.vkDestroyShaderModule(handle, module[0], ffi.NULL)
        self._made.append(found[0])
        return found[0]

    def destroy(self, pipeline: Any) -> None:
        """Ends one kernel; the card must be done with it."""
        self._made.remove(pipeline)
        library.vkDestroyPipeline(self._device.handle, pipeline, ffi.NULL)

    def close(self) -> None:
        for pipeline in self._made:
            library.vkDestroyPipeline(self._device.handle, pipeline, ffi.NULL)
        self._made.clear()
        if self._cache is not None:
            library.vkDestroyPipelineCache(self._device.handle, self._cache, ffi.NULL)
            self._cache = None
        if self.layout is not None:
            library.vkDestroyPipelineLayout(self._device.handle, self.layout, ffi.NULL)
            self.layout = None


def _made_cache(device: Device, data: bytes) -> Any:
    make = Structures()
    info = make.make("PipelineCacheCreateInfo")
    if data:
        info.initialDataSize = len(data)
        info.pInitialData = make.array("char", data)
    found = ffi.new("VkPipelineCache *")
    require(library.vkCreatePipelineCache(device.handle, info, ffi.NULL, found), "loading kernels")
    return found[0]


def _is_own(device: Device, data: bytes) -> bool:
    """Does the header name this card and this driver (VkPipelineCacheHeaderVersionOne)?"""
    if len(data) < HEADER.size:
        return False
    make = Structures()
    properties = make.make("PhysicalDeviceProperties2")
    library.vkGetPhysicalDeviceProperties2(device.card.handle, properties)
    own = properties.properties
    wanted = (HEADER.size, 1, own.vendorID, own.deviceID, bytes(own.pipelineCacheUUID))
    return HEADER.unpack_from(data) == wanted


class Queue:
    """Submissions to the card in order, counted by a timeline semaphore, until `close`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        make = Structures()
        timeline = make.make(
            "SemaphoreTypeCreateInfo", semaphoreType=constant("VK_SEMAPHORE_TYPE_TIMELINE")
        )
        info = make.make("SemaphoreCreateInfo", pNext=timeline)
        found = ffi.new("VkSemaphore *")
        require(
            library.vkCreateSemaphore(device.handle, info, ffi.NULL, found), "making a semaphore"
        )
        self._semaphore = found[0]
        self._semaphores = ffi.new("VkSemaphore[]", [self._semaphore])
        self._value = 0
        self._submit = device.function("vkQueueSubmit")
        self._keep = make  # one description for all submissions
        self._values = make.array("uint64_t", 1)
        signalled = make.make(
            "TimelineSemaphoreSubmitInfo",
            signalSemaphoreValueCount=1,
            pSignalSemaphoreValues=self._values,
        )
        self._info = make.make(
            "SubmitInfo",
            pNext=signalled,
            commandBufferCount=1,
            signalSemaphoreCount=1,
            pSignalSemaphores=self._semaphores,
        )

    def submit(self, commands: Commands) -> int:
        """Queues a recorded buffer; the number to wait for."""
        self._value += 1
        self._values[0] = self._value
        self._info.pCommandBuffers = commands.buffers
        require(self._submit(self._device.queue, 1, self._info, ffi.NULL), "submitting work")
        return self._value

    def wait(self, number: int, limit_ns: int = WAIT_NS) -> bool:
        """True when that submission is done; False after `limit_ns`.

        Raises:
            EngineError: `card_lost`, `card_failed`.
        """
        make = Structures()
        info = make.make(
            "SemaphoreWaitInfo",
            semaphoreCount=1,
            pSemaphores=self._semaphores,
            pValues=make.array("uint64_t", [number]),
        )
        result = library.vkWaitSemaphores(self._device.handle, info, limit_ns)
        if result == constant("VK_TIMEOUT"):
            return False
        require(result, "waiting for the card")
        return True

    def close(self) -> None:
        if self._semaphore is not None:
            library.vkDestroySemaphore(self._device.handle, self._semaphore, ffi.NULL)
            self._semaphore = None


class Commands:
    """One command buffer, recorded once and submitted many times, until `close`.

    Args:
        stamps: number of time stamps that it may take.
    """

    def __init__(self, device: Device, pipelines: Pipelines, stamps: int = 0) -> None:
        self._device = device
        self._layout = pipelines.layout
        self._stamps = stamps
        self._pool: Any = None
        self._queries: Any = None
        make = Structures()
        info = make.make("CommandPoolCreateInfo", queueFamilyIndex=device.family)
        pool = ffi.new("VkCommandPool *")
        require(library.vkCreateCommandPool(device.handle, info, ffi.NULL, pool), "making a pool")
        self._pool = pool[0]
        try:
            self._begin(make)
        except BaseException:
            self.close()
            raise
        self._dispatch = device.function("vkCmdDispatch")
        self._push = device.function("vkCmdPushConstants")
        self._bind = device.function("vkCmdBindPipeline")
        self._pushed = ffi.new("uint8_t[]", PUSH_BYTES)
        self._pushed_bytes = ffi.buffer(self._pushed)
        self._bound: Any = None
        self._barrier_info = make.make(
            "MemoryBarrier",
            srcAccessMask=_ACCESS_WRITE,
            dstAccessMask=_ACCESS_READ | _ACCESS_WRITE,
        )
        self._keep = make

    def _begin(self, make: Structures) -> None:
        device = self._device
        info = make.make("CommandBufferAllocateInfo", commandPool=self._pool, commandBufferCount=1)
        self.buffers = ffi.new("VkCommandBuffer[1]")
        require(
            library.vkAllocateCommandBuffers(device.handle, info, self.buffers),
            "making a command buffer",
        )
        self._buffer = self.buffers[0]
        flags = constant("VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT")
        begin = make.make("CommandBufferBeginInfo", flags=flags)
        require(library.vkBeginCommandBuffer(self._buffer, begin), "recording")
        if self._stamps:
            kind = constant("VK_QUERY_TYPE_TIMESTAMP")
            query = make.make("QueryPoolCreateInfo", queryType=kind, queryCount=self._stamps)
            found = ffi.new("VkQueryPool *")
            require(
                library.vkCreateQueryPool(device.handle, query, ffi.NULL, found),
                "making time stamps",
            )
            self._queries = found[0]
            library.vkCmdResetQueryPool(self._buffer, self._queries, 0, self._stamps)

    def dispatch(
        self, pipeline: Any, groups: tuple[int, int, int], addresses: Sequence[int]
    ) -> None:
        """One kernel: at most 16 addresses go into its push constants."""
        if self._bound is not pipeline:
            self._bind(self._buffer, _COMPUTE, pipeline)
            self._bound = pipeline
        size = 8 * len(addresses)
        self._pushed_bytes[:size] = struct.pack(f"<{len(addresses)}Q", *addresses)
        if size:
            self._push(self._buffer, self._layout, _STAGE, 0, size, self._pushed)
        self._dispatch(self._buffer, *groups)

    def barrier(self) -> None:
        """What comes after reads what came before."""
        library.vkCmdPipelineBarrier(
            self._buffer, _STAGES, _STAGES, 0, 1, self._barrier_info, 0, ffi.NULL, 0, ffi.NULL
        )

    def for_host(self) -> None:
        """What the host reads afterwards is what the card wrote."""
        make = self._keep
        info = make.make(
            "MemoryBarrier",
            srcAccessMask=_ACCESS_WRITE,
            dstAccessMask=constant("VK_ACCESS_HOST_READ_BIT"),
        )
        host = constant("VK_PIPELINE_STAGE_HOST_BIT")
        library.vkCmdPipelineBarrier(
            self._buffer, _STAGES, host, 0, 1, info, 0, ffi.NULL, 0, ffi.NULL
        )

    def copy(self, source: Block, start: int, target: Block, place: int, size_bytes: int) -> None:
        """`size_bytes` from one block to another, or within one where they do not overlap."""
        if size_bytes:
            region = ffi.new("VkBufferCopy *", [start, place, size_bytes])
            library.vkCmdCopyBuffer(self._buffer, source.handle, target.handle, 1, region)

    def fill(self, target: Block, place: int, size_bytes: int, word: int = 0) -> None:
        """Repeats a word of four bytes; place and size are multiples of four."""
        if size_bytes:
            library.vkCmdFillBuffer(self._buffer, target.handle, place, size_bytes, word)

    def stamp(self, number: int) -> None:
        """Takes a time stamp once all before it is done."""
        stage = constant("VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT")
        library.vkCmdWriteTimestamp(self._buffer, stage, self._queries, number)

    def end(self) -> None:
        require(library.vkEndCommandBuffer(self._buffer), "recording")

    def stamps_ns(self) -> list[float]:
        """The stamps of the last run, in nanoseconds of the card's clock."""
        found = ffi.new("uint64_t[]", self._stamps)
        flags = constant("VK_QUERY_RESULT_64_BIT") | constant("VK_QUERY_RESULT_WAIT_BIT")
        require(
            library.vkGetQueryPoolResults(
                self._device.handle,
                self._queries,
                0,
                self._stamps,
                8 * self._stamps,
                found,
                8,
                flags,
            ),
            "reading time stamps",
        )
        return [found[place] * self._device.limits.timestamp_ns for place in range(self._stamps)]

    def close(self) -> None:
        """Frees the buffer; the card must be done with it."""
        if self._queries is not None:
            library.vkDestroyQueryPool(self._device.handle, self._queries, ffi.NULL)
            self._queries = None
        if self._pool is not None:
            library.vkDestroyCommandPool(self._device.handle, self._pool, ffi.NULL)
            self._pool = None


_STAGE: Final = constant("VK_SHADER_STAGE_COMPUTE_BIT")
_COMPUTE: Final = constant("VK_PIPELINE_BIND_POINT_COMPUTE")
_STAGES: Final = constant("VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT") | constant(
    "VK_PIPELINE_STAGE_TRANSFER_BIT"
)
_ACCESS_READ: Final = constant("VK_ACCESS_SHADER_READ_BIT") | constant(
    "VK_ACCESS_TRANSFER_READ_BIT"
)
_ACCESS_WRITE: Final = constant("VK_ACCESS_SHADER_WRITE_BIT") | constant(
    "VK_ACCESS_TRANSFER_WRITE_BIT"
)
