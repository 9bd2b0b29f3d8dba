"""What a card's engine needs beside the processor's: the loader, one driver, its libraries.

Owns: finding the files behind one driver's registration, as further files of a runtime. Must not:
load one, or open a device node. Everything is copied into the runtime, as all else: nothing of the
host's /usr is shown to an engine, and the runtime is named by what is in it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from app.sandbox.runtime_files import SourceFile
from gpugoblin.errors import EngineError, SandboxError

__all__ = ["REGISTRATION", "card_environment", "driver_files"]

REGISTRATION: Final = "system/driver.json"
"""The driver's registration inside a runtime."""

LOADER: Final = "libvulkan.so.1"
LDCONFIG: Final = "/sbin/ldconfig"
_PLACES: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_MOST_BYTES: Final = 64 * 1024

DISPATCHER: Final = "libEGL.so.1"
"""NVIDIA's Vulkan driver opens it by name, without a display too, and has no card without it."""

VENDOR: Final = "system/vendor.json"
"""What the dispatcher reads to find NVIDIA's own library inside a runtime."""

_VENDOR_LIBRARY: Final = "libEGL_nvidia.so.0"

# NVIDIA's driver opens these by name; the rest of its libraries draw, encode or talk to a display.
_NVIDIA: Final = re.compile(
    r"lib(GLX_nvidia|EGL_nvidia|nvidia-(glcore|eglcore|tls|glsi|glvkspirv|gpucomp|rtcore"
    r"|allocator|ptxjitcompiler))\.so\.[0-9.]+"
)


def card_environment(root: str, policy: str, threads: int) -> dict[str, str]:
    """The variables of a walled engine on a card: one driver, no layer, no cache.

    Args:
        root: the runtime's directory as the engine sees it.
        threads: of a driver that computes on the processor.
    """
    registration = f"{root}/{REGISTRATION}"
    variables = {
        "VK_DRIVER_FILES": registration,
        "VK_ICD_FILENAMES": registration,  # loaders before 1.3.207
        "VK_LOADER_LAYERS_DISABLE": "*",
        "NODEVICE_SELECT": "1",
        "MESA_SHADER_CACHE_DISABLE": "true",
        "__GL_SHADER_DISK_CACHE": "0",
    }
    if policy == "nvidia":
        variables["__EGL_VENDOR_LIBRARY_FILENAMES"] = f"{root}/{VENDOR}"
    if policy == "software":
        variables["LP_NUM_THREADS"] = str(max(1, min(threads, 16)))
    return variables


def driver_files(registration: Path) -> tuple[SourceFile, ...]:
    """Everything that the engine of a card of this driver needs beside the processor's files.

    Libraries that these link against are found by `runtime_files.system_libraries`.

    Args:
        registration: the driver's JSON file, as in /usr/share/vulkan/icd.d.

    Raises:
        EngineError: `card_driver_missing`.
        SandboxError: `runtime_package_missing`.
    """
    text, library = _registered(registration)
    files = [*_binding(), SourceFile(f"system/{LOADER}", _found(registration, LOADER))]
    files.append(SourceFile(f"system/{library.name}", Path(os.path.realpath(library))))
    files += _companions(registration, library)
    files.append(SourceFile(REGISTRATION, registration, text=text))
    return tuple(files)


def _binding() -> Iterator[SourceFile]:
    """The Python package of Vulkan's definitions and the C module under it."""
    for name in ("vulkan", "_cffi_backend"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None:
            raise SandboxError("runtime_package_missing", package=name)
        origin = Path(found.origin)
        if name == "_cffi_backend":
            yield SourceFile(f"app/{origin.name}", origin)
            bundled = origin.parent / "cffi.libs"
            for path in sorted(bundled.iterdir()) if bundled.is_dir() else ():
                yield SourceFile(f"app/cffi.libs/{path.name}", path)
        else:
            for part in ("__init__.py", "_vulkan.py", "_vulkancache.py"):
                yield SourceFile(f"app/{name}/{part}", origin.parent / part)


def _registered(registration: Path) -> tuple[bytes, Path]:
    """The registration with the library's bare name, and where the library lies."""
    try:
        with registration.open("rb") as file:
            told = json.loads(file.read(_MOST_BYTES))
        named = told["ICD"]["library_path"]
        version = str(told["ICD"].get("api_version", "1.2.0"))
        if not isinstance(named, str) or not named:
            raise ValueError("no library is named")
    except OSError as cause:
        reason = f"{registration} cannot be read ({cause.strerror})"
        raise _missing(registration, reason) from cause
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise _missing(registration, f"{registration} is no registration of a driver") from cause
    library = Path(named)
    if "/" not in named:
        library = _found(registration, named)
    elif not library.is_absolute():
        library = registration.parent / library
    if not library.is_file():
        raise _missing(registration, f"{library} is not there")
    plain = {
        "file_format_version": "1.0.0",
        "ICD": {"library_path": library.name, "api_version": version},
    }
    return json.dumps(plain).encode("ascii"), library


def _missing(registration: Path, reason: str) -> EngineError:
    return EngineError("card_driver_missing", driver=registration.name, reason=reason)


def _found(registration: Path, name: str) -> Path:
    """A shared library by its name, as the system's loader would find it."""
    for place in (*_cached(name), *(Path(place, name) for place in _PLACES)):
        if place.is_file():
            return Path(os.path.realpath(place))
    raise _missing(registration, f"the library {name} is not installed")


def _cached(name: str) -> list[Path]:
    try:
        listed = subprocess.run(
            [LDCONFIG, "-p"],
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return []
    found = []
    for line in listed.stdout.splitlines():
        left, arrow, path = line.strip().partition(" => ")
        if arrow and left.split(" ")[0] == name and "x86-64" in left:
            found.append(Path(path))
    return found


def _companions(registration: Path, library: Path) -> Iterator[SourceFile]:
    """What NVIDIA's driver opens beside itself: files of the very same version, and one of GLVND's.

    Raises:
        EngineError: `card_driver_missing`.
    """
    real = Path(os.path.realpath(library))
    version = real.name.partition(".so.")[2]
    if not real.name.startswith("libGLX_nvidia") or not version:
        return
    yield SourceFile(f"system/{DISPATCHER}", _found(registration, DISPATCHER))
    vendor = {"file_format_version": "1.0.0", "ICD": {"library_path": _VENDOR_LIBRARY}}
    yield SourceFile(VENDOR, registration, text=json.dumps(vendor).encode("ascii"))
    own = real.parent / f"libEGL_nvidia.so.{version}"
    if not own.is_file():
        raise _missing(registration, f"{own} is not there")
    yield SourceFile(f"system/{_VENDOR_LIBRARY}", own)
    for path in sorted(real.parent.iterdir()):
        if path.name.endswith(f".so.{version}") and _NVIDIA.fullmatch(path.name):
            yield SourceFile(f"system/{path.name}", path)
