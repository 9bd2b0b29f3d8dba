"""The certificate of a finished job: what was computed, from what, verified how, by which builds.

Owns: what its hashes cover. An array's hash is BLAKE3 over the boxes that tasks read or wrote, in
order, each with the hash of its bytes, so anyone who has the arrays and the plan can check it.
"""

from __future__ import annotations

from typing import cast

from gpugoblin.errors import NodeError
from gpugoblin.hashing import JOB, Hasher, digest
from gpugoblin.ids import GraphHash, JobId
from gpugoblin.wire.bounds import NumericClass
from gpugoblin.wire.messages.job import Certificate, CertificateBody, VerifiedBy
from gpugoblin.wire.signing import public_key_bytes, sign_json
from server_stub.node.node import Node
from server_stub.node.state import jobs
from server_stub.node.store.protocol import Tx
from server_stub.node.training import rows

__all__ = ["certify"]


async def certify(node: Node, job: str) -> Certificate:
    """Makes and signs the certificate.

    Raises:
        NodeError: `job_not_done`.
    """
    public = public_key_bytes(node.key)
    body = await node.store.read(lambda tx: _body(tx, job, public, node.rules.catalog_hash))
    return Certificate(body, sign_json(node.key, body))


def _body(tx: Tx, job: str, public: bytes, catalog_hash: str) -> CertificateBody:
    info = jobs.info(tx, job)
    row = jobs.load(tx, job)
    if info.state != "done" or row is None or info.finished_s is None:
        raise NodeError("job_not_done", job=job, state=info.state)
    masks = list(rows.records(tx, job).values())
    builds = tx.rows("select build from builds where job = ? order by build limit 256", (job,))
    return CertificateBody(
        node_key=public,
        job=JobId(job),
        graph=GraphHash(info.graph),
        inputs=tuple(_hash(tx, "region", job, number) for number in range(len(row.inputs))),
        outputs=tuple(_hash(tx, "fold", job, number) for number in range(len(info.outputs))),
        numeric_class=cast(NumericClass, row.numeric_class),
        assurance="full",
        tasks=info.tasks,
        verified_by=VerifiedBy(
            info.verified_by.product,
            info.verified_by.recompute,
            info.verified_by.equality,
            info.verified_by.agreement,
        ),
        engine_builds=tuple(build for (build,) in builds),
        catalog_hash=catalog_hash,
        finished_s=info.finished_s,
        tolerances=info.tolerances,
        arrivals=digest(JOB, [f"{mask}\n".encode() for mask in masks]) if masks else "",
        rounds_short=sum("0" in mask for mask in masks),
    )


def _hash(tx: Tx, table: str, job: str, number: int) -> str:
    hasher = Hasher(JOB)
    for box, blob in tx.rows(
        f"select box, blob from {table} where job = ? and array = ?"  # noqa: S608 - two constants
        " and blob is not null order by box",
        (job, number),
    ):
        hasher.update(f"{box}={blob}\n".encode())
    return hasher.hexdigest()
