"""Prints a requirements file with hashes for the wheels in a folder.

Owns: that format. Used by `packaging/lock`.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

HEAD = "# Written by packaging/lock: the wheels in the packages for contributors.\n"


def requirements(folder: Path) -> str:
    """One entry for each project, sorted, with the hashes of all its wheels.

    Raises:
        ValueError: two versions of one project.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for wheel in sorted(folder.glob("*.whl")):
        name, version = wheel.name.split("-")[:2]
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        project = re.sub(r"[-_.]+", "-", name).lower()
        found.setdefault(project, {}).setdefault(version, []).append(digest)
    lines = []
    for project, versions in sorted(found.items()):
        if len(versions) > 1:
            raise ValueError(f"{project} comes in the versions {', '.join(sorted(versions))}")
        for version, digests in versions.items():
            hashes = "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(set(digests)))
            lines.append(f"{project}=={version}{hashes}\n")
    return HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(requirements(Path(sys.argv[1])))
