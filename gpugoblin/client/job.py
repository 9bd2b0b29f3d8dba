"""A job: a computation that lives on the lab node under a name.

Owns: what a researcher can do with one. Every method asks the node; the object itself may be thrown
away and found again with `gg.get(name)` from any machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Final, Protocol
from urllib.parse import quote

from gpugoblin.client.certificate import JobCertificate
from gpugoblin.client.progress import choose_renderer
from gpugoblin.client.result import ResultArray
from gpugoblin.client.submitting import Target
from gpugoblin.client.views import PlanView, StatusView
from gpugoblin.client.waiting import wait_beside_others, wait_until_over
from gpugoblin.errors import ClientError
from gpugoblin.shown.summary import SummaryView
from gpugoblin.wire.messages.job import Certificate, JobEvent, JobEvents, JobInfo
from gpugoblin.wire.messages.sharing import JobShare, JobSharing
from gpugoblin.wire.messages.summary import JobSummary
from gpugoblin.wire.remote import RemoteError
from gpugoblin.wire.transport import READ_TIMEOUT_S, Transport

__all__ = ["Job", "JobFailed"]

OVER: Final = frozenset({"done", "failed", "cancelled"})


class JobFailed(RemoteError):
    """The job ended without a result; `code` and text are the node's."""


class Link(Protocol):
    """What a job needs of its session."""

    @property
    def transport(self) -> Transport: ...

    @property
    def node_key(self) -> str: ...

    def reconnect(self) -> None: ...

    def say(self, text: str) -> None: ...


class Job:
    """A job on the lab node. Made by `save`, `gg.get` and `gg.jobs`."""

    def __init__(self, link: Link, info: JobInfo, download: Target | None = None) -> None:
        self._link = link
        self._info = info
        self._download = download
        self._overwrite = False

    @property
    def name(self) -> str:
        """The name under which `gg.get` finds it."""
        return self._info.name

    @property
    def id(self) -> str:
        return self._info.job

    @property
    def state(self) -> str:
        """`running`, `done`, `failed` or `cancelled`, as the node says now."""
        return self.refresh().state

    @property
    def info(self) -> JobInfo:
        """Everything that the node said last, without asking again."""
        return self._info

    @property
    def attached(self) -> bool:
        """True when the job was there already, under this name and with this content."""
        return self._info.attached

    def plan(self) -> PlanView:
        """How the work is cut, and what it takes. Prints as a table."""
        return PlanView.of(self._info.plan)

    def progress(self) -> StatusView:
        """How far it is now. Prints as a line, shows as a table in a notebook."""
        return StatusView(self.refresh())

    def summary(self) -> SummaryView:
        """All figures as the node has them now: tasks by state, how each was verified, by whom,
        what travelled, time and gain against the estimate. `summary().summary` has them as fields;
        the node's pages and `gpugoblin job` show the same."""
        found = self._link.transport.call("GET", f"{self._path()}/summary", JobSummary)
        self._info = found.info
        return SummaryView(found)

    def refresh(self) -> JobInfo:
        """Asks the node how the job stands."""
        return self.poll(0.0)

    def poll(self, held_s: float) -> JobInfo:
        """As `refresh`; the node holds the answer for up to `held_s` (whole seconds) of no news."""
        if self._info.state in OVER:
            return self._info
        query: dict[str, str | int] = {}
        if held_s >= 1:
            query = {"wait_s": int(held_s), "after": self._info.verified}
        self._info = self._link.transport.call(
            "GET", self._path(), JobInfo, query=query, read_timeout_s=held_s + READ_TIMEOUT_S
        )
        return self._info

    def wait(self, timeout: float | None = None) -> Job:
        """Waits until the job is done, and shows its progress.

        Args:
            timeout: seconds to wait at most; the job goes on beyond.

        Returns:
            the job itself.

        Raises:
            JobFailed: with the node's code and text.
            ClientError: `job_timeout`, `job_cancelled`, `node_unreachable`.
            KeyboardInterrupt: Ctrl-C detaches, and says how to come back; a second one within two
                seconds cancels the job.
        """
        return self._ended(wait_until_over(self, timeout, choose_renderer()))

    def __await__(self) -> Generator[Any, None, Job]:
        """`await job` is `job.wait()` that leaves the event loop free."""
        return self._awaited().__await__()

    async def _awaited(self) -> Job:
        info = await wait_beside_others(self, choose_renderer())
        return await asyncio.to_thread(self._ended, info)

    def _ended(self, info: JobInfo) -> Job:
        if info.state == "failed":
            code = info.error_code or "job_failed"
            text = info.error_text.removesuffix(f" [{code}]") or "no reason was given."
            raise JobFailed(
                500,
                code,
                f"Job {info.name!r} failed: {text}",
                "When the cause is gone, submit it again: what was verified is not computed again. "
                "job.events() shows what led to it.",
                {"name": info.name},
            )
        if info.state == "cancelled":
            raise ClientError(
                "job_cancelled", name=info.name, verified=info.verified, tasks=info.tasks
            )
        if self._download is not None:
            download, self._download = self._download, None
            self.array.download(download, self._overwrite)
        return self

    @property
    def arrays(self) -> tuple[ResultArray, ...]:
        """All outputs; verified parts can be read before the job is done."""
        return tuple(
            ResultArray(self._link.transport, output, self.name, self._info.content, number)
            for number, output in enumerate(self._info.outputs)
        )

    @property
    def array(self) -> ResultArray:
        """The first output: `job.array[:5, :5]`."""
        return self.output(0)

    def output(self, number: int) -> ResultArray:
        """One output.

        Raises:
            ClientError: `output_unknown`.
        """
        arrays = self.arrays
        if not 0 <= number < len(arrays):
            raise ClientError("output_unknown", name=self.name, count=len(arrays), output=number)
        return arrays[number]

    def cancel(self) -> None:
        """Asks the node to stop, and all jobs whose parent it is. Cards are freed at once.

        What is verified is kept for a week: the same computation under the same name goes on from
        there. `delete` lets go of it at once.
        """
        self._info = self._link.transport.call(
            "POST", f"{self._path()}/cancel", JobInfo, repeatable=True
        )

    def retry(self) -> Job:
        """Goes on with a job that failed or was cancelled, as it was submitted; what is verified is
        not computed again.

        Raises:
            RemoteError: `job_not_kept`: nothing is left to go on from; submit it again.
        """
        self._info = self._link.transport.call("POST", f"{self._path()}/retry", JobInfo)
        return self

    def delete(self) -> None:
        """Removes the job and what the node keeps of its results. Saved files stay."""
        self._link.transport.fetch("DELETE", self._path(), max_bytes=64 * 1024)

    def share(self, *users: str, lab: bool = False) -> JobSharing:
        """Lets these users of the lab, or all of them, see the job and read its results.

        It replaces what was said before: `job.share()` makes it yours alone again. The others find
        it with `gg.get("you/name")`.

        Raises:
            RemoteError: `not_the_owner`, `share_too_wide`.
        """
        return self._link.transport.call(
            "POST", f"{self._path()}/share", JobSharing, body=JobShare(users, lab),
            repeatable=True,
        )  # fmt: skip

    def sharing(self) -> JobSharing:
        """Who may see the job beside its owner and the lab's administrators."""
        return self._link.transport.call("GET", f"{self._path()}/sharing", JobSharing)

    def events(self, after: int = 0) -> tuple[JobEvent, ...]:
        """What happened, in order, after event number `after`."""
        return self._link.transport.call(
            "GET", f"{self._path()}/events", JobEvents, query={"after": after}
        ).events

    def certificate(self) -> JobCertificate:
        """The node's signed statement of what was computed and how it was verified.

        Raises:
            RemoteError: the job is not done.
            ClientError: `certificate_invalid`, `package_missing`.
        """
        message = self._link.transport.call("GET", f"{self._path()}/certificate", Certificate)
        if message.body.job != self.id or message.body.graph != self._info.graph:
            raise ClientError(
                "certificate_invalid", name=self.name, reason="it is about another job"
            )
        return JobCertificate.checked(message, self.name, self._link.node_key)

    def download(self, path: Target, overwrite: bool = False) -> None:
        """Sets where `wait` writes the first output on this machine."""
        self._download, self._overwrite = path, overwrite

    def reconnect(self) -> None:
        """After the node was away."""
        self._link.reconnect()

    def say(self, text: str) -> None:
        """Tells the researcher."""
        self._link.say(text)

    def _path(self) -> str:
        return f"/v1/jobs/{quote(self.id, safe='')}"

    def __repr__(self) -> str:
        return f"<job {StatusView(self._info).line()}>"

    def __rich__(self) -> Any:
        return StatusView(self._info).__rich__()

    def _repr_html_(self) -> str:
        return StatusView(self._info)._repr_html_()
