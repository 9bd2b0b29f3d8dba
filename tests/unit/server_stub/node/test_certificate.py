"""The certificate of a finished job."""

from __future__ import annotations

import numpy as np

from gpugoblin.wire.messages.job import (
    Certificate,
)
from gpugoblin.wire.signing import public_key_bytes, verify_json
from tests.helpers.lab import (
    Lab,
    row_sums,
)

__all__: list[str] = []


def test_the_certificate_is_signed_by_the_node(lab: Lab) -> None:
    array = lab.file(np.ones((4, 4), np.float32), "v.npy")
    job = lab.wait(lab.submit(row_sums((4, 4)), array))
    found = lab.client.call("GET", f"/v1/jobs/{job.job}/certificate", Certificate)
    verify_json(found.body.node_key, found.body, found.signature)
    assert found.body.node_key == public_key_bytes(lab.node.node.key)
    assert found.body.verified_by == job.verified_by
    assert found.body.engine_builds == ("test-engine",)
