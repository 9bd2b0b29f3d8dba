"""The socket: who may speak, what comes back, who is let go."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.control.client import ControlClient, ControlRefusal
from app.control.messages import (
    MAX_LINE_BYTES,
    VERSION,
    Accepted,
    Answer,
    Hello,
    LeaseItem,
    Logs,
    Pause,
    Quit,
    Request,
    Resume,
    SelfTest,
    SelfTestIs,
    Show,
    Status,
    Subscribe,
    Welcome,
    decode_answer,
    encode,
)
from app.control.paths import SOCKET_NAME, socket_path
from app.control.server import MAX_SLOW, ControlServer
from gpugoblin.errors import AgentError

measured: list[bool] = []
"""Filled when measurements may end."""


async def answers(request: Request) -> Answer:
    if isinstance(request, SelfTest):
        while not measured:
            await asyncio.sleep(0.01)
        return SelfTestIs(request.request, 0, 1.0, 1.0, "full", is_fresh=True)
    if isinstance(request, Pause):
        return Accepted(request.request, request.intent, True)
    raise AgentError("card_unknown", card=9, known=[0])


def serve(directory: Path, script: Callable[[ControlServer], Awaitable[None]]) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def whole() -> None:
        server = ControlServer(directory, "agent-1", answers)
        await server.start()
        try:
            await script(server)
        finally:
            await server.close()

    asyncio.run(whole())


def raw(directory: Path, *lines: bytes) -> bytes:
    """Sends bytes and reads until the server closes."""
    with socket.socket(socket.AF_UNIX) as connection, socket_path(directory) as path:
        connection.settimeout(5)
        connection.connect(path)
        with contextlib.suppress(BrokenPipeError, OSError):  # it may have closed already
            for line in lines:
                connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                received += piece
        return received


def test_requests_and_refusals(tmp_path: Path) -> None:
    def ask() -> None:
        with ControlClient(tmp_path) as client:
            assert client.ask(Pause(4, "i")) == Accepted(4, "i", True)
            with pytest.raises(ControlRefusal, match="no card 9") as caught:
                client.ask(Resume(5, "i"))
            assert caught.value.code == "card_unknown"
            assert client.status() == {}

    async def script(_: ControlServer) -> None:
        await asyncio.to_thread(ask)

    serve(tmp_path, script)
    assert not (tmp_path / SOCKET_NAME).exists()


def test_a_pause_does_not_wait_for_what_takes_seconds(tmp_path: Path) -> None:
    measured.clear()
    order: list[int] = []

    async def script(_: ControlServer) -> None:
        with socket_path(tmp_path) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        writer.write(encode(Hello(VERSION)))
        await reader.readline()
        for number in range(1, MAX_SLOW + 1):
            writer.write(encode(SelfTest(number, 0)))
        writer.write(encode(Pause(99, "i")))
        while len(order) <= MAX_SLOW:
            answer = decode_answer(await asyncio.wait_for(reader.readline(), 20.0))
            assert isinstance(answer, (Accepted, SelfTestIs))
            order.append(answer.request)
            measured.append(True)
            if len(order) == 1:
                writer.write_eof()  # what was asked is answered all the same
        writer.close()

    serve(tmp_path, script)
    assert order[0] == 99
    assert sorted(order[1:]) == [1, 2, 3, 4]


def test_a_pause_waits_for_no_queue_of_what_takes_seconds(tmp_path: Path) -> None:
    """More of it than is answered at once, as by pages that come to the front again and again."""
    measured.clear()
    asked = 3 * MAX_SLOW
    order: list[int] = []

    async def script(_: ControlServer) -> None:
        with socket_path(tmp_path) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        writer.write(encode(Hello(VERSION)))
        await reader.readline()
        for number in range(1, asked + 1):
            writer.write(encode(SelfTest(number, 0)))
        writer.write(encode(Pause(100, "i")))
        async with asyncio.timeout(10):
            while len(order) <= asked:
                answer = decode_answer(await reader.readline())
                assert isinstance(answer, (Accepted, SelfTestIs))
                order.append(answer.request)
                measured.append(True)
        writer.close()

    serve(tmp_path, script)
    assert order[0] == 100
    assert sorted(order[1:]) == list(range(1, asked + 1))


def test_a_server_that_ends_waits_for_no_measurement(tmp_path: Path) -> None:
    measured.clear()

    async def script(server: ControlServer) -> None:
        with socket_path(tmp_path) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        writer.write(encode(Hello(VERSION)) + encode(SelfTest(1, 0)) + encode(Pause(2, "i")))
        await reader.readline()
        await asyncio.wait_for(reader.readline(), 20.0)
        await asyncio.wait_for(server.close(), 20.0)
        assert await reader.read() == b""
        writer.close()

    serve(tmp_path, script)


def test_a_path_of_any_length(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120) / ("e" * 120)

    async def script(_: ControlServer) -> None:
        assert stat.S_IMODE((deep / SOCKET_NAME).stat().st_mode) == 0o600
        await asyncio.to_thread(lambda: ControlClient(deep).close())

    serve(deep, script)


def test_followers_see_every_change_in_order(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def follow() -> None:
        with ControlClient(tmp_path) as client:
            for items in client.follow():
                seen.append(sorted(items))
                if len(items) == 5:
                    return

    async def script(server: ControlServer) -> None:
        following = asyncio.create_task(asyncio.to_thread(follow))
        while not seen:
            await asyncio.sleep(0.01)
        for count in range(1, 6):
            server.show(tuple(LeaseItem(f"lease_{n}", 0, "ready") for n in range(count)))
        await following

    serve(tmp_path, script)
    assert [len(each) for each in seen] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "lines",
    [
        (encode(Status(1)),),
        (b"hello\n",),
        (encode(Hello(1)), b"nonsense\n", encode(Status(1))),
        (encode(Hello(1)), b'{"type":"Status"}\n'),
    ],
)
def test_who_talks_nonsense_is_told_and_let_go(tmp_path: Path, lines: tuple[bytes, ...]) -> None:
    async def script(_: ControlServer) -> None:
        received = await asyncio.to_thread(raw, tmp_path, *lines)
        assert b"control_malformed" in received.splitlines()[-1]

    serve(tmp_path, script)


@pytest.mark.parametrize("theirs", [1, VERSION - 1, VERSION, VERSION + 1])
def test_whoever_speaks_another_version_is_told_which_one_is_spoken(
    tmp_path: Path, theirs: int
) -> None:
    async def script(_: ControlServer) -> None:
        # A line that is none ends the conversation, so that all of the answer is there.
        received = await asyncio.to_thread(raw, tmp_path, encode(Hello(theirs)), b"nonsense\n")
        answer = decode_answer(received.splitlines()[0])
        assert isinstance(answer, Welcome)
        assert answer.version == VERSION

    serve(tmp_path, script)


def test_a_line_without_end_is_not_read_on(tmp_path: Path) -> None:
    async def script(_: ControlServer) -> None:
        line = b"x" * (MAX_LINE_BYTES + 10)
        assert await asyncio.to_thread(raw, tmp_path, line + b"\n") == b""

    serve(tmp_path, script)


def test_a_subscriber_who_does_not_read_is_let_go(tmp_path: Path) -> None:
    async def script(server: ControlServer) -> None:
        with socket_path(tmp_path) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=1024)
        writer.write(encode(Hello(1)) + encode(Subscribe(1)))
        await writer.drain()
        await reader.readline()
        await reader.readline()
        for number in range(3000):
            server.show(tuple(LeaseItem(f"l{number}.{n}", 0, "ready") for n in range(20)))
            if not server._subscribers:
                break
            await asyncio.sleep(0)
        assert not server._subscribers
        writer.close()

    serve(tmp_path, script)


def test_a_stranger_gets_no_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.control.server.peer_user", lambda _: 4711)

    async def script(_: ControlServer) -> None:
        assert await asyncio.to_thread(raw, tmp_path, encode(Hello(1))) == b""

    serve(tmp_path, script)


def test_one_server_a_directory_and_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    stale = socket.socket(socket.AF_UNIX)
    with socket_path(tmp_path) as path:
        stale.bind(path)
    stale.close()

    async def script(_: ControlServer) -> None:
        second = ControlServer(tmp_path, "agent-2", answers)
        with pytest.raises(AgentError) as caught:
            await second.start()
        assert caught.value.code == "control_busy"

    serve(tmp_path, script)


def test_a_handler_is_not_asked_for_what_the_server_knows(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def note(request: Request) -> Answer:
        asked.append(request)
        return Accepted(1, "", True)

    async def whole() -> None:
        server = ControlServer(tmp_path, "a", note)
        await server.start()

        def ask() -> None:
            with ControlClient(tmp_path) as client:
                client.status()
                client.ask(Quit(2))

        await asyncio.to_thread(ask)
        await server.close()

    asyncio.run(whole())
    assert asked == [Quit(2)]


def test_a_group_may_tell_and_everybody_else_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.control.server.peer_user", lambda _: 4711)
    groups = {100}
    monkeypatch.setattr("app.control.server.peer_groups", lambda _: groups)

    def ask() -> None:
        with ControlClient(tmp_path) as client:
            assert client.status() == {}
            with pytest.raises(ControlRefusal, match="may look"):
                client.ask(Pause(4, "i"))
            with pytest.raises(ControlRefusal, match="may look"):
                client.ask(Logs(5))
        groups.add(7)
        with ControlClient(tmp_path) as client:
            assert client.ask(Pause(4, "i")) == Accepted(4, "i", True)

    async def whole() -> None:
        server = ControlServer(tmp_path, "a", answers, group=7)
        await server.start()
        assert stat.S_IMODE((tmp_path / SOCKET_NAME).stat().st_mode) == 0o666
        await asyncio.to_thread(ask)
        await server.close()

    asyncio.run(whole())


def test_a_page_is_shown_by_whoever_follows(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def follow() -> None:
        received = raw(tmp_path, encode(Hello(2)) + encode(Subscribe(1)) + encode(Show(2, "home")))
        heard.extend(received.splitlines())

    async def script(_: ControlServer) -> None:
        await asyncio.to_thread(follow)

    serve(tmp_path, script)
    assert b'{"type":"ShowPage","page":"home"}' in heard
    assert any(b'"is_new":true' in line for line in heard)
