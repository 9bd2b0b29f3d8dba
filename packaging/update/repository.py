"""The repository that the update check asks: its keys, its root of trust, its announcements.

    python packaging/update/repository.py keys KEYS
    python packaging/update/repository.py begin KEYS FOLDER ADDRESS
    python packaging/update/repository.py announce KEYS FOLDER VERSION [PAGE]
    python packaging/update/repository.py refresh KEYS FOLDER

Owns: the ceremony (docs/operator/updates.md). FOLDER is what a web server serves at ADDRESS; in
FOLDER/trust are the two files that packages ship. Keys are made here and never leave KEYS; those of
root and targets belong on paper or on a device that is off, those of snapshot and timestamp on the
machine that refreshes. The passphrase comes from `GPUGOBLIN_KEY_PASSPHRASE`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import (
    Metadata,
    MetaFile,
    Root,
    Signed,
    Snapshot,
    TargetFile,
    Targets,
    Timestamp,
)
from tuf.api.serialization.json import JSONSerializer

T = TypeVar("T", bound=Signed)

TARGET = "gpugoblin.json"
ROOT_KEYS = ("root-1", "root-2", "root-3")
ROOT_THRESHOLD = 2
"""Two of three: one lost key loses nothing, one stolen key gives nothing."""

DAYS = {"root": 365, "targets": 180, "snapshot": 30, "timestamp": 14}


class Repository:
    """One repository on disk.

    Args:
        keys: the folder of the private keys.
        folder: what is served.
        passphrase: of the keys.
        now: what the dates of expiry count from.
    """

    def __init__(
        self, keys: Path, folder: Path, passphrase: bytes, now: datetime | None = None
    ) -> None:
        self.keys = keys
        self.folder = folder
        self._passphrase = passphrase
        self.now = now or datetime.now(UTC)

    @property
    def metadata(self) -> Path:
        return self.folder / "metadata"

    def make_keys(self) -> None:
        """Makes every key, in files that only their owner reads.

        Raises:
            FileExistsError: there are keys already; none is ever replaced.
        """
        self.keys.mkdir(mode=0o700)
        for name in (*ROOT_KEYS, "targets", "snapshot", "timestamp"):
            signer = CryptoSigner.generate_ed25519()
            text = signer._private_key.private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(self._passphrase)
            )
            descriptor = os.open(self.keys / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)

    def begin(self, address: str) -> None:
        """Signs the root and an empty repository, and puts the trust for packages together."""
        self.metadata.mkdir(parents=True)
        (self.folder / "targets").mkdir()
        root = Root(expires=self._expiry("root"), consistent_snapshot=True)
        for name in ROOT_KEYS:
            root.add_key(self._signer(name).public_key, "root")
        for role in ("targets", "snapshot", "timestamp"):
            root.add_key(self._signer(role).public_key, role)
        root.roles["root"].threshold = ROOT_THRESHOLD
        self._write(root, "1.root.json", *ROOT_KEYS[:ROOT_THRESHOLD])
        self._write(Targets(expires=self._expiry("targets")), "1.targets.json", "targets")
        snapshot = Snapshot(expires=self._expiry("snapshot"))
        self._write(snapshot, "1.snapshot.json", "snapshot")
        self._write(Timestamp(expires=self._expiry("timestamp")), "timestamp.json", "timestamp")
        trust = self.folder / "trust"
        trust.mkdir()
        shutil.copy(self.metadata / "1.root.json", trust / "root.json")
        (trust / "source.json").write_text(json.dumps({"address": address}) + "\n")

    def announce(self, version: str, page: str = "") -> None:
        """Says that this is the newest version."""
        self.announce_bytes(json.dumps({"version": version, "page": page}).encode() + b"\n")

    def announce_bytes(self, data: bytes) -> None:
        """Signs these bytes as the announcement."""
        target = TargetFile.from_data(TARGET, data, ["sha256"])
        (self.folder / "targets" / f"{target.hashes['sha256']}.{TARGET}").write_bytes(data)
        targets = self._newest("targets", Targets)
        targets.version += 1
        targets.expires = self._expiry("targets")
        targets.targets = {TARGET: target}
        self._write(targets, f"{targets.version}.targets.json", "targets")
        self.refresh(targets.version)

    def refresh(self, targets_version: int | None = None) -> None:
        """Signs snapshot and timestamp anew: to be done every week."""
        snapshot = self._newest("snapshot", Snapshot)
        snapshot.version += 1
        snapshot.expires = self._expiry("snapshot")
        if targets_version is not None:
            snapshot.meta["targets.json"] = MetaFile(targets_version)
        self._write(snapshot, f"{snapshot.version}.snapshot.json", "snapshot")
        timestamp = self._load("timestamp.json", Timestamp)
        timestamp.version += 1
        timestamp.expires = self._expiry("timestamp")
        timestamp.snapshot_meta = MetaFile(snapshot.version)
        self._write(timestamp, "timestamp.json", "timestamp")

    def _expiry(self, role: str) -> datetime:
        return self.now.replace(microsecond=0) + timedelta(days=DAYS[role])

    def _signer(self, name: str) -> CryptoSigner:
        key = load_pem_private_key((self.keys / name).read_bytes(), self._passphrase)
        return CryptoSigner(key)  # type: ignore[arg-type]  # every key here is an Ed25519 key

    def _write(self, signed: Signed, name: str, *keys: str) -> None:
        metadata = Metadata(signed)
        for key in keys:
            metadata.sign(self._signer(key), append=True)
        metadata.to_file(str(self.metadata / name), JSONSerializer(compact=True))

    def _newest(self, role: str, kind: type[T]) -> T:
        found = self.metadata.glob(f"*.{role}.json")
        last = max(int(path.name.partition(".")[0]) for path in found)
        return self._load(f"{last}.{role}.json", kind)

    def _load(self, name: str, kind: type[T]) -> T:
        signed = Metadata.from_file(str(self.metadata / name)).signed
        if not isinstance(signed, kind):
            raise TypeError(f"{name} is no {kind.__name__}")
        return signed


def main(words: Sequence[str]) -> int:
    """Does one step of the ceremony."""
    passphrase = os.environ.get("GPUGOBLIN_KEY_PASSPHRASE", "").encode()
    if len(words) < 2 or not passphrase:
        print(__doc__, file=sys.stderr)
        return 2
    verb, keys, *rest = words
    repository = Repository(Path(keys), Path(rest[0]) if rest else Path(), passphrase)
    if verb == "keys":
        repository.make_keys()
    elif verb == "begin" and len(rest) == 2:
        repository.begin(rest[1])
    elif verb == "announce" and len(rest) in (2, 3):
        repository.announce(*rest[1:])
    elif verb == "refresh" and len(rest) == 1:
        repository.refresh()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
