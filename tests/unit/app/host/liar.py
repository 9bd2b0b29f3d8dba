"""An engine that lies: started in the place of `child.py`, with the kind of lie first.

Standard library only, and the header written by hand: it must be able to say what an honest engine
cannot.
"""

import array
import json
import os
import socket
import struct
import sys
import time

HEADER = struct.Struct("<4sHHIIQQ")
NUMBERS = {"ready": 1, "run": 2, "pong": 5, "done": 6, "refused": 7, "failed": 8, "log": 9}
NUMBERS |= {"progress": 10, "prepared": 12, "exported": 14, "lost": 15}
READY = {
    "build": "engine-lie",
    "driver": "none",
    "backend": "cpu",
    "catalog_hash": "0" * 64,
    "kernel_set": "0" * 64,
    "threads": 1,
    "walls": {},
}
DONE = {"compute_s": 0.1, "peak_memory_bytes": 0}


class Liar:
    def __init__(self, control_fd: int) -> None:
        self.fd = control_fd
        self.sequence = 0

    def raw(self, data: bytes) -> None:
        os.write(self.fd, data)

    def frame(self, kind, body, task=0, sequence=None, magic=b"GGe1", version=1, flags=0, pad=0):
        data = json.dumps(body).encode()
        number = NUMBERS.get(kind, 99)
        chosen = self.sequence if sequence is None else sequence
        self.sequence += 1
        return HEADER.pack(magic, version, number, flags, len(data) + pad, chosen, task) + data

    def say(self, *arguments, **named) -> None:
        self.raw(self.frame(*arguments, **named))

    def ready(self) -> None:
        self.say("ready", READY)

    def task(self) -> int:
        """Waits for a task; its number."""
        while True:
            data = os.read(self.fd, 20000)
            if not data:
                sys.exit(0)
            fields = HEADER.unpack_from(data)
            if fields[2] == NUMBERS["run"]:
                return fields[6]


def flood(liar, kind, body, task):
    while True:
        liar.say(kind, body, task=task)


def descriptors(liar):
    """Sends open files beside an honest message."""
    with socket.socket(fileno=os.dup(liar.fd)) as channel:
        sent = array.array("i", [0, 1, 2]).tobytes()
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)
        channel.sendmsg([liar.frame("ready", READY)], [rights])


def lie(kind: str, liar: Liar) -> None:
    if kind == "garbage":
        liar.raw(os.urandom(600))
    elif kind == "short":
        liar.raw(b"GGe1")
    elif kind == "huge":
        liar.raw(b"x" * 60_000)
    elif kind == "wrong_magic":
        liar.say("ready", READY, magic=b"EVIL")
    elif kind == "wrong_version":
        liar.say("ready", READY, version=2)
    elif kind == "flags":
        liar.say("ready", READY, flags=1)
    elif kind == "wrong_length":
        liar.say("ready", READY, pad=1)
    elif kind == "unknown_type":
        liar.say("nothing", {})
    elif kind == "unknown_field":
        liar.say("ready", {**READY, "extra": 1})
    elif kind == "long_word":
        liar.say("ready", {**READY, "build": "x" * 65})
    elif kind == "sentence":
        liar.say("ready", {**READY, "build": "buy gold now"})
    elif kind == "deep":
        liar.raw(HEADER.pack(b"GGe1", 1, 1, 0, 10_000, 0, 0) + b"[" * 10_000)
    elif kind == "wrong_sequence":
        liar.say("ready", READY, sequence=1)
    elif kind == "parents_word":
        liar.say("run", {})
    elif kind == "not_ready":
        liar.say("done", DONE, task=1)
    elif kind == "descriptors":
        descriptors(liar)
    elif kind == "ready_twice":
        liar.ready()
        liar.ready()
    elif kind == "log_flood":
        liar.ready()
        flood(liar, "log", {"text": "x"}, 0)
    elif kind == "binary_log":
        liar.say("log", {"text": "\u001b[2J"})
    elif kind == "progress_flood":
        liar.ready()
        flood(liar, "progress", {"fraction": 0.5}, liar.task())
    elif kind == "unknown_task":
        liar.ready()
        liar.say("done", DONE, task=liar.task() + 7)
    elif kind == "done_twice":
        liar.ready()
        task = liar.task()
        liar.say("done", DONE, task=task)
        liar.say("done", DONE, task=task)
    elif kind == "out_of_order":
        liar.ready()
        liar.task()
        liar.say("done", DONE, task=liar.task())
    elif kind == "infinite_time":
        liar.ready()
        liar.say("done", {"compute_s": 1e300, "peak_memory_bytes": 0}, task=liar.task())
    elif kind == "negative":
        liar.ready()
        liar.say("done", {"compute_s": 0.1, "peak_memory_bytes": -1}, task=liar.task())
    elif kind in ("exported", "prepared"):
        liar.ready()
        liar.say(kind, {"nbytes": 64} if kind == "exported" else {"accepted": True})
    elif kind == "idly_lost":
        liar.ready()
        liar.say("lost", {"kernels": ["0123456789abcdef"]})
    elif kind == "refuses":
        liar.ready()
        liar.say("refused", {"code": "does_not_fit", "needed_bytes": 8000}, task=liar.task())
    elif kind == "after_lost":
        liar.ready()
        task = liar.task()
        liar.say("lost", {"kernels": ["0123456789abcdef"]})
        liar.say("done", DONE, task=task)
    elif kind == "pong":
        liar.ready()
        liar.say("pong", {"token": 1})
    elif kind == "dies":
        liar.ready()
        liar.task()
        sys.stderr.write("last words\n")
        sys.stderr.flush()
        os._exit(3)
    elif kind == "dies_at_once":
        os._exit(9)
    elif kind == "closes":
        os.close(liar.fd)
    elif kind == "noisy":
        os.write(2, b"\xff" * 300_000 + b"the end")
        os._exit(4)
    elif kind == "hungry":
        liar.ready()
        kept = bytearray(400 * 1024 * 1024)
        kept[::4096] = b"x" * len(kept[::4096])
    elif kind in ("honest", "silent_task"):
        liar.ready()
    while kind == "honest":
        liar.say("done", DONE, task=liar.task())
    time.sleep(60)  # "silent" and everything that is to be found out


lie(sys.argv[1], Liar(int(sys.argv[2])))
