"""Questions that wait while the database writes are answered together by the next transaction.

Owns: the batches of one server. Must not: know what a question means. A batch that meets a defect
is asked again one by one, so that one question spoils no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from gpugoblin.errors import GoblinError

__all__ = ["Together"]

A = TypeVar("A")
R = TypeVar("R")


class Together(Generic[A, R]):
    """Answers questions in batches, one batch at a time.

    Args:
        answering: answers several questions in one transaction, in order.
        most: questions in one batch.
    """

    def __init__(
        self, answering: Callable[[Sequence[A]], Awaitable[list[R | GoblinError]]], most: int
    ) -> None:
        self._answering = answering
        self._most = most
        self._waiting: list[tuple[A, asyncio.Future[R]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: A) -> R:
        """The answer to one question.

        Raises:
            GoblinError: the answer is a refusal, or the batch was refused as a whole.
        """
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, future))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
            if not await self._answer(batch):
                for one in batch:
                    await self._answer([one])

    async def _answer(self, batch: list[tuple[A, asyncio.Future[R]]]) -> bool:
        """Answers a batch; False when it has to be asked again one by one."""
        answers: list[R | BaseException]
        try:
            answers = list(await self._answering([question for question, _ in batch]))
        except GoblinError as error:  # the database's: it would meet each of them
            answers = [error] * len(batch)
        except Exception as error:  # a defect that one question met; its sender gets it
            if len(batch) > 1:
                return False
            answers = [error]
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():  # its sender went away
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)
        return True
