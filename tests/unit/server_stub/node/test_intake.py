"""Input arrays: files that are named, bytes that are sent."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gpugoblin.wire.messages.job import (
    ArrayCreate,
    ArrayInfo,
)
from tests.helpers.lab import (
    Lab,
    fresh_hex,
    refused,
    row_sums,
)

__all__: list[str] = []


def test_files_that_are_not_what_was_said(lab: Lab, tmp_path: Path) -> None:
    def create(path: Path, shape: tuple[int, ...] = (4, 4)) -> ArrayInfo:
        message = ArrayCreate("npy", "float32", shape, fresh_hex(), str(path))
        return lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)

    refused("array_unreadable", lambda: create(tmp_path / "missing.npy"))
    np.save(tmp_path / "v.npy", np.ones((4, 4), np.float32))
    refused("array_differs", lambda: create(tmp_path / "v.npy", (4, 5)))
    array = create(tmp_path / "v.npy")
    whole = (tmp_path / "v.npy").read_bytes()
    (tmp_path / "v.npy").write_bytes(whole[:-8])
    refused("array_truncated", lambda: create(tmp_path / "v.npy"))
    refused("array_truncated", lambda: lab.submit(row_sums((4, 4)), array))


def test_an_array_is_sent_in_pieces_and_goes_on_where_it_stopped(lab: Lab) -> None:
    values = np.arange(1000, dtype=np.float32)
    message = ArrayCreate("upload", "float32", (10, 100), fresh_hex())
    info = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)
    data = values.tobytes()
    path = f"/v1/arrays/{info.array}/bytes"
    half = lab.client.upload(path, data[:1500], ArrayInfo, query={"offset": 0})
    assert (half.stored_bytes, half.complete) == (1500, False)
    refused("array_incomplete", lambda: lab.submit(row_sums((10, 100)), info))
    wrong = refused(
        "upload_offset",
        lambda: lab.client.upload(path, data[9:20], ArrayInfo, query={"offset": 9}),
    )
    assert wrong.fields["stored_bytes"] == "1500"
    again = lab.client.call("POST", "/v1/arrays", ArrayInfo, body=message)
    assert (again.array, again.stored_bytes) == (info.array, 1500)
    whole = lab.client.upload(path, data[1500:], ArrayInfo, query={"offset": 1500})
    assert whole.complete
    refused(
        "upload_too_long",
        lambda: lab.client.upload(path, b"x", ArrayInfo, query={"offset": len(data)}),
    )
    job = lab.wait(lab.submit(row_sums((10, 100)), whole))
    expected = values.reshape(10, 100).sum(1)
    np.testing.assert_allclose(lab.result(job.outputs[0]), expected, rtol=1e-5)
