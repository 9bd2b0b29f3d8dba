"""The engine's private runtime: a copy of interpreter, libraries and engine in one directory.

Owns: making it, finding it again, removing old ones. Must not: choose its files
(`runtime_files.py`), nor start anything from it.

A runtime is named by the hash of its content and never changes: it is built beside its final place
and renamed. What was built from which sources stands in an index beside it, so finding it again
takes milliseconds. It is owned by whoever runs this (root, where root does) and closed for writing
to everybody else. Users of a runtime hold a shared lock on its directory; only a runtime that
nobody holds, and that was not asked for within a day, is removed.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.sandbox.bytecode import compiled
from app.sandbox.runtime_files import PYTHON, SourceFile, chosen_files, system_libraries
from app.sandbox.spec import Runtime
from gpugoblin import __version__
from gpugoblin.errors import SandboxError
from gpugoblin.hashing import Hasher, digest

__all__ = ["SHARED_HOME", "hold", "stage", "stage_files"]

SHARED_HOME: Final = Path("/var/cache/gpugoblin")
"""Where root stages when the state directory is closed to the engine's own user."""

DOMAIN: Final = "gpugoblin 2026-11 runtime"
FORMAT: Final = 3
"""Part of every fingerprint: counts up when the layout of a runtime changes."""

KEPT_S: Final = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class _Entry:
    """One file of a finished runtime: what it was made from, and what it holds."""

    origin: str
    digest: str
    size_bytes: int
    executable: bool


def _open_to_all(path: Path) -> bool:
    """Can any user walk down to `path`? Parts that do not exist yet will be made open."""
    for part in (path, *path.parents):
        try:
            if not part.stat().st_mode & stat.S_IXOTH:
                return False
        except FileNotFoundError:
            continue
        except PermissionError:
            return False
    return True


def _home(state_dir: Path) -> Path:
    if os.geteuid() == 0 and not _open_to_all(state_dir.resolve()):
        return SHARED_HOME / "runtime"
    return state_dir.resolve() / "runtime"


def _origin(file: SourceFile) -> str:
    status = file.source.stat()
    return f"{file.source}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}"


def _read_index(path: Path) -> dict[str, _Entry] | None:
    try:
        stored = json.loads(path.read_bytes())
        return {target: _Entry(*fields) for target, fields in stored.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # written by another version, or cut short by a power loss: build anew


class _Home:
    """The directory of all runtimes of one owner."""

    def __init__(self, path: Path) -> None:
        self.path = path
        made = [part for part in (path, *path.parents) if not part.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
            # Whatever the umask: where root stages, another user has to get through.
            for part in made if os.geteuid() == 0 else ():
                part.chmod(0o755)
            path.chmod(0o755)
            (path / "index").mkdir(exist_ok=True)
        except OSError as cause:
            raise _unwritable(path, cause) from cause
        if path.stat().st_uid != os.geteuid():
            raise _unwritable(path, "it belongs to somebody else")

    def find(self, fingerprint: str) -> Path | None:
        """A whole runtime that was built from exactly these sources."""
        pointer = self.path / "index" / f"{fingerprint}.from"
        try:
            name = pointer.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        root = self.path / name
        index = _read_index(self.path / "index" / f"{name}.json")
        if index is None or not self._whole(root, index) or not _libraries_unchanged(index):
            return None
        os.utime(root)
        return root

    def _whole(self, root: Path, index: dict[str, _Entry]) -> bool:
        try:
            return all(
                (root / target).stat().st_size == e.size_bytes for target, e in index.items()
            )
        except OSError:
            return False

    def newest(self) -> tuple[Path, dict[str, _Entry]] | None:
        """The last runtime that was used, whose unchanged files a new one may share."""
        found = sorted(
            (p for p in self.path.glob("rt-*") if p.is_dir()), key=lambda p: p.stat().st_mtime
        )
        for root in reversed(found):
            index = _read_index(self.path / "index" / f"{root.name}.json")
            if index is not None and self._whole(root, index):
                return root, index
        return None

    def build(self, files: list[SourceFile], fingerprint: str) -> Path:
        """Makes a runtime beside its place, names it by its content, puts it there."""
        workplace = self.path / f".staging-{secrets.token_hex(8)}"
        workplace.mkdir()
        try:
            index = _fill(workplace, files, self.newest())
            name = _name(index)
            root = self.path / name
            content = json.dumps(
                {t: (e.origin, e.digest, e.size_bytes, e.executable) for t, e in index.items()}
            )
            self._write(f"{name}.json", content)
            try:
                workplace.rename(root)
            except OSError:
                if not self._whole(root, index):
                    raise
            self._write(f"{fingerprint}.from", name)
        except OSError as cause:
            raise _unwritable(self.path, cause) from cause
        finally:
            shutil.rmtree(workplace, ignore_errors=True)
        return root

    def _write(self, name: str, content: str) -> None:
        draft = self.path / "index" / f".{secrets.token_hex(8)}"
        draft.write_text(content, encoding="ascii")
        draft.rename(self.path / "index" / name)

    def remove_old(self, kept: Path) -> None:
        """Removes what nobody holds and nobody asked for within a day, half-built ones too."""
        now_s = time.time()
        for root in [*self.path.glob("rt-*"), *self.path.glob(".staging-*")]:
            if root != kept:
                _remove_if_idle(root, now_s)
        for pointer in (self.path / "index").glob("*.from"):
            if not (self.path / pointer.read_text(encoding="ascii").strip()).is_dir():
                pointer.unlink(missing_ok=True)
        for index in (self.path / "index").glob("rt-*.json"):
            if not (self.path / index.stem).is_dir() and now_s - index.stat().st_mtime > KEPT_S:
                index.unlink(missing_ok=True)


def _libraries_unchanged(index: dict[str, _Entry]) -> bool:
    """False after an upgrade of the system: its libraries are no part of the fingerprint."""
    for target, entry in index.items():
        if target.startswith("system/"):
            source = Path(entry.origin.partition("|")[0])
            if not source.exists() or _origin(SourceFile(target, source)) != entry.origin:
                return False
    return True


def _unwritable(path: Path, cause: OSError | str) -> SandboxError:
    reason = cause if isinstance(cause, str) else cause.strerror or str(cause)
    return SandboxError("runtime_unwritable", path=path, reason=reason)


def _remove_if_idle(root: Path, now_s: float) -> None:
    try:
        if now_s - root.stat().st_mtime < KEPT_S:
            return
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Renamed first: whoever looks for it from now on finds nothing rather than a part.
        doomed = root.with_name(f".removing-{secrets.token_hex(8)}")
        root.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    except OSError:
        return
    finally:
        os.close(descriptor)


def _name(index: dict[str, _Entry]) -> str:
    hasher = Hasher(DOMAIN)
    for target, entry in sorted(index.items()):
        hasher.update(f"{target}\0{entry.digest}\0{entry.executable:d}\n".encode())
    return f"rt-{hasher.hexdigest()[:32]}"


def _fill(
    workplace: Path, files: list[SourceFile], earlier: tuple[Path, dict[str, _Entry]] | None
) -> dict[str, _Entry]:
    root, known = earlier or (workplace, {})
    index: dict[str, _Entry] = {}
    for file in files:
        if file.target in index:
            continue  # two ways led to it
        origin = _origin(file)
        targets = [file.target]
        if file.target.endswith(".py"):
            targets.append(_cached(file.target))
        if all(t in known and known[t].origin == origin for t in targets):
            for target in targets:
                _make_parent(workplace, target)
                os.link(root / target, workplace / target)
                index[target] = known[target]
            continue
        text = file.source.read_bytes() if file.text is None else file.text
        index[file.target] = _put(workplace, file.target, text, origin, file.executable)
        if file.target.endswith(".py"):
            code = compiled(file.source, text, f"/runtime/{file.target}")
            if code is not None:
                target = _cached(file.target)
                index[target] = _put(workplace, target, code, origin, executable=False)
    return index


def _cached(target: str) -> str:
    directory, _, name = target.rpartition("/")
    tag = f"cpython-{PYTHON.removeprefix('python').replace('.', '')}"
    return f"{directory}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc"


def _make_parent(workplace: Path, target: str) -> None:
    parent = (workplace / target).parent
    if not parent.is_dir():
        parent.mkdir(parents=True)
        while parent != workplace:
            parent.chmod(0o755)
            parent = parent.parent
        workplace.chmod(0o755)


def _put(workplace: Path, target: str, data: bytes, origin: str, executable: bool) -> _Entry:
    _make_parent(workplace, target)
    path = workplace / target
    executable = executable or target.rpartition("/")[2].startswith("ld-linux")
    path.write_bytes(data)
    path.chmod(0o755 if executable else 0o644)
    return _Entry(origin, digest(DOMAIN, data), len(data), executable)


def _runtime(root: Path) -> Runtime:
    return Runtime(
        root=root,
        python=root / "bin" / PYTHON,
        app=root / "app",
        build=f"cpu-{__version__}-{root.name.removeprefix('rt-')[:16]}",
    )


def stage_files(home: Path, extra: tuple[SourceFile, ...] = ()) -> Runtime:
    """As `stage`, into exactly this directory, with further files."""
    files = [*chosen_files(), *extra]
    hasher = Hasher(DOMAIN)
    hasher.update(f"{FORMAT} {__version__} {PYTHON}\n".encode())
    for file in files:
        hasher.update(f"{file.target}\0{_origin(file)}\n".encode())
    fingerprint = hasher.hexdigest()
    place = _Home(home)
    root = place.find(fingerprint)
    if root is None:
        root = place.build([*files, *system_libraries(files)], fingerprint)
        place.remove_old(kept=root)
    return _runtime(root)


def stage(state_dir: Path, extra: tuple[SourceFile, ...] = ()) -> Runtime:
    """The runtime for engines of this installation, made when it is not there yet.

    Args:
        extra: further files, as a card's driver (`driver.driver_files`).

    Takes about a second when it is made and milliseconds when it is there. When root asks and
    `state_dir` is closed to other users, it lies in `SHARED_HOME`, since the engine's own user
    must be able to read it.

    Raises:
        SandboxError: `runtime_unwritable`, `runtime_package_missing`.
    """
    return stage_files(_home(state_dir), extra)


def hold(runtime: Runtime) -> int:
    """A descriptor that keeps the runtime from being removed until it is closed.

    Raises:
        OSError: the runtime is gone.
    """
    descriptor = os.open(runtime.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
