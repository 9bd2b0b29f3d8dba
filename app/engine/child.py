"""The engine process: what runs inside the sandbox.

Owns: its argument list, the search path, and the order of its start: outer walls, imports, arenas,
threads, inner walls, ready. Must not: import socket, ssl, requests or Qt, or read any file beside
its own code.

    PYTHON -I -S -B <app>/app/engine/child.py CONTROL_FD INPUT_FD INPUT_BYTES OUTPUT_FD
        OUTPUT_BYTES THREADS MEMORY_BYTES BACKEND

Environment: `GPUGOBLIN_WALLS=1` puts up the walls of `app.sandbox.inside`;
`GPUGOBLIN_PACKAGES` names one more directory for imports, where the runtime has no NumPy itself.
"""

import gc
import os
import sys

USAGE = 64  # sysexits: command line usage error


def _search_path() -> None:
    # Not resolved: a runtime may be a directory of links.
    here = os.path.abspath(__file__)
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(here))))
    packages = os.environ.get("GPUGOBLIN_PACKAGES")
    if packages:
        sys.path.append(packages)
    # msgspec takes it where it finds it, and it would load the C module of `socket`.
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]


def _start_lean() -> None:
    """What only start-up time is spent on: NumPy's texts for `help`, and looking for garbage."""
    for name in ("_add_newdocs", "_add_newdocs_scalars"):
        sys.modules[f"numpy._core.{name}"] = type(sys)(f"numpy._core.{name}")
    gc.disable()


def main(arguments: list[str]) -> int:
    """Serves until the parent closes the channel."""
    _search_path()
    walls = os.environ.get("GPUGOBLIN_WALLS") == "1"
    if walls:
        from app.sandbox.inside import enter_first

        enter_first()
    if len(arguments) != 8:
        sys.stderr.write(f"child.py takes 8 arguments, not {len(arguments)}\n")
        return USAGE
    *numbers, backend = arguments
    try:
        control, input_fd, input_bytes, output_fd, output_bytes, threads, memory_bytes = map(
            int, numbers
        )
    except ValueError as cause:
        sys.stderr.write(f"child.py: {cause}\n")
        return USAGE
    _start_lean()
    from app.engine.session import Arenas, Session

    arenas = Arenas.map(input_fd, input_bytes, output_fd, output_bytes)
    session = Session(control, arenas, threads, memory_bytes, backend)
    report: dict[str, bool | int | str] = {}
    if walls:
        from app.engine.identity import kernel_set
        from app.sandbox.inside import enter_last

        kernel_set(backend)  # from its own sources, which nothing lists behind the inner walls
        report = enter_last()
    gc.freeze()  # what was imported stays: it is never looked at again
    gc.enable()
    return session.serve(report)


if __name__ == "__main__":
    # No teardown: nothing here outlives the process, and worker threads may sit in a kernel.
    status = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(status)
