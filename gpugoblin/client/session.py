"""A session: the link between this process and one lab node.

Owns: connecting, submitting, finding jobs again, and what is said once. Several sessions, and
several processes, may use one node. Must not: hold anything that would be lost with the process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gpugoblin.capture.lower import lower
from gpugoblin.capture.runner import CURRENT, Lazy, PathLike, SubmitOptions
from gpugoblin.catalog.spec import Array as NumpyArray
from gpugoblin.client import local
from gpugoblin.client.config import LEAST_MEMORY_BYTES, ClientConfig, default_state_dir, load
from gpugoblin.client.job import Job
from gpugoblin.client.notices import GRID, NO_SANDBOX, OTHER_LIMIT, Notices
from gpugoblin.client.submitting import Target, input_arrays, submission, target
from gpugoblin.client.views import PlanView
from gpugoblin.errors import ClientError
from gpugoblin.ids import fresh_id
from gpugoblin.units import format_seconds
from gpugoblin.wire.messages.job import JobInfo, JobList, JobSubmit, OutputSave
from gpugoblin.wire.remote import RemoteError
from gpugoblin.wire.transport import Endpoint, Transport

__all__ = ["Session", "connect"]

TRAINING: Final = "training"
"""The kind of the plan of a training."""

MAX_HEALTH_BYTES: Final = 64 * 1024
WORTH_SAYING_S: Final = 5.0
"""A job that the node itself computes in less time is not announced."""


def connect(
    node: str | None = None,
    *,
    token: str | None = None,
    certificate_sha256: str | None = None,
    ca_file: str | None = None,
    state_dir: PathLike | None = None,
    memory_bytes: int | None = None,
    config: PathLike | None = None,
) -> Session:
    """Connects to a lab node; later calls such as `x.compute()` use it.

    Args:
        node: `"local"` for this machine (its node is started when none runs, and stays),
            `"https://host:port"`, or `"unix:/path"`; None: as the configuration says.
        token, certificate_sha256, ca_file: instead of the configuration's.
        state_dir: where the local node keeps its state.
        memory_bytes: what one task may take on this machine, at least 64 MiB, when the local node
            is started by this call.
        config: the configuration file, instead of the usual one.

    Returns:
        the session; also a context manager that closes itself (jobs go on).

    Raises:
        ClientError: `not_connected` when nothing is configured, `config_malformed`,
            `token_missing`, `address_malformed`, `node_unreachable`, `node_not_trusted`,
            `local_unsupported`, `local_start_failed`, `local_memory_refused`.
        RemoteError: the node refuses the token.
    """
    settings = load(None if config is None else Path(config))
    given = {"token": token, "certificate_sha256": certificate_sha256, "ca_file": ca_file}
    changed: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    settings = dataclasses.replace(settings, **changed)
    if memory_bytes is not None:
        if memory_bytes < LEAST_MEMORY_BYTES:
            raise ClientError(
                "local_memory_refused", memory_bytes=memory_bytes, least_bytes=LEAST_MEMORY_BYTES
            )
        settings = dataclasses.replace(settings, local_memory_bytes=memory_bytes)
    address = node or settings.node
    if not address:
        raise ClientError("not_connected")
    if address == "local":
        place = state_dir or settings.state_dir or default_state_dir()
        session = Session(settings, None, Path(place))
    else:
        session = Session(settings, settings.endpoint(address), None)
    CURRENT.enter(session)
    return session


class Session:
    """See `connect`.

    Args:
        settings: the configuration.
        endpoint: of a node that is there; None for the node of `state_dir` on this machine.
    """

    def __init__(
        self, settings: ClientConfig, endpoint: Endpoint | None, state_dir: Path | None
    ) -> None:
        self._settings = settings
        self._state_dir = state_dir
        self._notices = Notices()
        if endpoint is None:
            place = state_dir or default_state_dir()
            limits = local.LocalLimits(settings.local_memory_bytes, settings.local_idle_exit_s)
            node = local.attach(place, limits)
            endpoint = node.endpoint
            self._say_about(node, limits)
            # It ends when nobody uses it for long, and comes back when it is asked again.
            self._transport = Transport(endpoint, revive=lambda: _revive(place, limits))
        else:
            self._transport = Transport(endpoint)
        try:
            self._health = self._ask_health()
        except BaseException:
            self._transport.close()
            raise

    def _say_about(self, node: local.LocalNode, limits: local.LocalLimits) -> None:
        if node.engine_level == "none":
            self._notices.say_once(NO_SANDBOX)
        if limits.memory_bytes and node.memory_bytes != limits.memory_bytes:
            self._notices.say_once(OTHER_LIMIT)

    @property
    def is_local(self) -> bool:
        """True for the node of this machine that `connect("local")` started or found."""
        return self._state_dir is not None

    @property
    def address(self) -> str:
        return self._transport.endpoint.address

    @property
    def transport(self) -> Transport:
        return self._transport

    @property
    def node_key(self) -> str:
        """The key that certificates must be signed with; empty when none is known."""
        known = self._settings.node_key or self._health.get("node_key")
        return known if isinstance(known, str) else ""

    @property
    def health(self) -> dict[str, Any]:
        """What the node says about itself."""
        return self._ask_health()

    def save(
        self,
        arrays: Sequence[Lazy],
        path: PathLike | None = None,
        block_axis: int | None = None,
        options: SubmitOptions | None = None,
    ) -> Job:
        """Submits arrays as one job; see `Array.save`. The path is for the first of them."""
        options = options or {}
        place = target(path)
        overwrite = options.get("overwrite", False)
        # Paths are places on the node's machine; over HTTPS the node keeps the result for us.
        here = place.format != "node" and not self._transport.endpoint.socket_path
        output = (Target() if here else place).save(overwrite, options.get("retention", "durable"))
        message = self._message(arrays, output, options, block_axis)
        self._warn(message)
        info = self._submit(message, overwrite)
        job = Job(self, info)
        if info.state == "running" and info.plan.executor == "local":
            self._say_estimate(info)
        if here:
            job.download(place, overwrite)
        return job

    def compute(
        self,
        arrays: Sequence[Lazy],
        timeout: float | None = None,
        block_axis: int | None = None,
        options: SubmitOptions | None = None,
    ) -> tuple[NumpyArray, ...]:
        """Submits, waits and reads; a job without a name is removed once it has been read."""
        options = options or {}
        unnamed = not options.get("name")
        if unnamed:
            options = {**options, "name": fresh_id("compute")}
        job = self.save(arrays, None, block_axis, options)
        try:
            job.wait(timeout)
        except ClientError as ended:
            if unnamed and ended.code == "job_cancelled":
                job.delete()  # nobody can go on with it
            raise
        numbers = tuple(array.numpy() for array in job.arrays)
        if unnamed:
            job.delete()
        return numbers

    def estimate(
        self,
        arrays: Sequence[Lazy],
        block_axis: int | None = None,
        options: SubmitOptions | None = None,
    ) -> PlanView:
        """The plan and its figures; nothing is started or kept."""
        message = self._message(arrays, OutputSave(), options or {}, block_axis)
        return PlanView.of(self._plan(message).plan)

    def jobs(self, everybody: bool = False) -> list[Job]:
        """All jobs of yours, the newest first.

        Args:
            everybody: those that others share with you, too; for an administrator all jobs.
        """
        query: dict[str, str | int] = {"all": 1} if everybody else {}
        found = self._transport.call("GET", "/v1/jobs", JobList, query=query).jobs
        return [self._as_job(info) for info in found]

    def get(self, name: str) -> Job:
        """The job of a name (or id), wherever it was submitted.

        Raises:
            RemoteError: there is none.
        """
        path = f"/v1/jobs/{quote(name, safe='')}"
        return self._as_job(self._transport.call("GET", path, JobInfo))

    def _as_job(self, info: JobInfo) -> Job:
        """A run, where it is a training."""
        if info.plan.kind != TRAINING:
            return Job(self, info)
        from gpugoblin.client.run import Run

        return Run(self, info)

    def reconnect(self) -> None:
        """After the node was away: starts the local one again, else does nothing."""
        if self._state_dir is not None:
            local.attach(self._state_dir)

    def say(self, text: str) -> None:
        """Tells the researcher, on standard error."""
        self._notices.say(text)

    def stop_node(self) -> None:
        """Ends the lab node of this machine. Its jobs go on at the next `connect("local")`.

        Raises:
            ClientError: `not_connected` when the session's node is not the one of this machine.
        """
        if self._state_dir is None:
            raise ClientError("not_connected")
        local.stop(local.LocalNode(self._state_dir.expanduser().resolve()))

    def close(self) -> None:
        """Ends the session. The node and its jobs go on."""
        CURRENT.leave(self)
        self._transport.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gpugoblin session with the lab node at {self.address}>"

    def _message(
        self,
        arrays: Sequence[Lazy],
        output: OutputSave,
        options: SubmitOptions,
        block_axis: int | None,
    ) -> JobSubmit:
        lowered = lower([array.value for array in arrays])
        inputs = input_arrays(lowered, self._transport)
        outputs = (output, *(
            Target().save(output.overwrite, output.retention) for _ in arrays[1:]
        ))  # fmt: skip
        if self.is_local and options.get("executor", "auto") == "auto":
            options = {**options, "executor": "local"}
        return submission(lowered, inputs, outputs, options, block_axis)

    def _warn(self, message: JobSubmit) -> None:
        """Says what contributors can see, before the first job that leaves the lab."""
        if message.executor in ("local", "ray") or self._notices.heard(GRID):
            return
        if message.executor == "grid" or self._plan(message).plan.executor == "grid":
            self._notices.say_once(GRID)

    def _say_estimate(self, info: JobInfo) -> None:
        if info.plan.estimate_s >= WORTH_SAYING_S:
            took = format_seconds(info.plan.estimate_s)
            self.say(f"gpugoblin: job {info.name!r}: {info.tasks} tasks, about {took} on the node.")

    def _plan(self, message: JobSubmit) -> JobInfo:
        trial = msgspec.structs.replace(message, dry_run=True)
        return self._transport.call("POST", "/v1/jobs", JobInfo, body=trial, repeatable=True)

    def _submit(self, message: JobSubmit, overwrite: bool) -> JobInfo:
        """A named submission may be repeated: the same name and content attaches."""
        try:
            return self._transport.call("POST", "/v1/jobs", JobInfo, body=message, repeatable=True)
        except RemoteError as refusal:
            if refusal.code != "job_name_taken" or not overwrite:
                raise
        name = quote(message.name or "", safe="")
        self._transport.fetch("DELETE", f"/v1/jobs/{name}", max_bytes=MAX_HEALTH_BYTES)
        return self._transport.call("POST", "/v1/jobs", JobInfo, body=message, repeatable=True)

    def _ask_health(self) -> dict[str, Any]:
        data = self._transport.fetch("GET", "/v1/health", max_bytes=MAX_HEALTH_BYTES)
        try:
            return msgspec.json.decode(data, type=dict[str, Any])
        except msgspec.DecodeError as cause:
            raise ClientError(
                "reply_unexpected",
                address=self.address,
                request="GET /v1/health",
                reason=str(cause),
            ) from cause


def _revive(place: Path, limits: local.LocalLimits) -> None:
    local.attach(place, limits)
