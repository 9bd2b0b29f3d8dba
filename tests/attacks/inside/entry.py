"""The program that stands in for the engine: the same start, then attacks by name.

    PYTHON -I -S -B entry.py CHANNEL INPUT ... (as the engine's own)

Each message on the channel is JSON `{"attack": name, "bait": {...}}`; each answer is an outcome.
"""

import os
import sys

CODE = bytes.fromhex(
    "53"  # push rbx: the caller's
    "b814000000"  # mov eax, 20: getpid of the 32-bit table
    "cd80"  # int 0x80
    "5b"  # pop rbx
    "c3"  # ret
)


def _old_gate():  # type: ignore[no-untyped-def]
    """A page with `int 0x80`, made while code may still be made, as a compiler of the card's would
    have left one."""
    import ctypes
    import mmap

    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(CODE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address), page


def main(arguments: list[str]) -> int:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, os.path.dirname(here))
    walls = os.environ.get("GPUGOBLIN_WALLS") == "1"
    if walls:
        from app.sandbox.inside import enter_first

        enter_first()
    import dataclasses
    import json

    if os.environ.get("ATTACK_NUMPY") == "1":
        import numpy

        numpy.ones((64, 64), numpy.float32) @ numpy.ones((64, 64), numpy.float32)
    from attack_inside import every, kernel
    from attack_inside.table import ROWS, refused

    every.load()
    kernel.GATES["int80"] = _old_gate()
    report = {}
    if walls:
        from app.sandbox.inside import enter_last

        report = enter_last()
    channel, inputs, _, outputs = map(int, arguments[:4])
    os.write(channel, json.dumps(report).encode())
    while request := os.read(channel, 16384):
        order = json.loads(request)
        bait = {**order["bait"], "channel": channel, "input_fd": inputs, "output_fd": outputs}
        try:
            outcome = ROWS[order["attack"]].run(bait)
        except OSError as error:
            outcome = refused(error.errno or 0)
        os.write(channel, json.dumps(dataclasses.asdict(outcome)).encode())
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)
