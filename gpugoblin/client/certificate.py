"""The certificate of a job: what was computed, on what, checked how, signed by the node.

Owns: checking the signature, and the JSON that can be kept, cited and checked again anywhere. Must
not: trust a key for being in the certificate, when another one is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gpugoblin.client.views import html_table
from gpugoblin.errors import ClientError, WireError
from gpugoblin.shown.summary import tolerance_text
from gpugoblin.wire.codec import decode
from gpugoblin.wire.messages.job import Certificate, CertificateBody

__all__ = ["JobCertificate"]


@dataclass(frozen=True, slots=True)
class JobCertificate:
    """A certificate whose signature has been checked. Made by `job.certificate()`.

    Attributes:
        body: the statement: graph, inputs and outputs by hash, numeric class, assurance, number of
            tasks by method of verification, engine builds.
        signature: Ed25519 of the node.
        name: the job's name, for messages.
    """

    body: CertificateBody
    signature: bytes
    name: str

    @property
    def node_key(self) -> str:
        """The node's public key, 64 hexadecimal digits."""
        return self.body.node_key.hex()

    def to_json(self) -> str:
        """The whole certificate as JSON, bytes as base64; `from_json` checks it again."""
        message = Certificate(body=self.body, signature=self.signature)
        return msgspec.json.format(msgspec.json.encode(message), indent=2).decode()

    @classmethod
    def from_json(cls, text: str, *, node_key: str = "", name: str = "") -> JobCertificate:
        """Reads and checks a kept certificate.

        Args:
            node_key: the key of the node that you know, 64 hexadecimal digits; empty: the one in
                the certificate, which then says only that nothing was changed since.

        Raises:
            WireError: `message_malformed`.
            ClientError: `certificate_invalid`, `package_missing`.
        """
        message = decode(Certificate, text.encode())
        return cls.checked(message, name or message.body.job, node_key)

    @classmethod
    def checked(cls, message: Certificate, name: str, node_key: str) -> JobCertificate:
        """The certificate in `message`, once its signature holds. Raises as `from_json`."""
        try:
            from gpugoblin.wire.signing import verify_json
        except ImportError as cause:
            raise ClientError(
                "package_missing", purpose="Checking a certificate", package="cryptography"
            ) from cause
        if node_key and message.body.node_key.hex() != node_key:
            raise ClientError(
                "certificate_invalid",
                name=name,
                reason=f"it is signed by the key {message.body.node_key.hex()}, not {node_key}",
            )
        try:
            verify_json(message.body.node_key, message.body, message.signature)
        except WireError as cause:
            raise ClientError(
                "certificate_invalid", name=name, reason="its signature is wrong"
            ) from cause
        return cls(message.body, message.signature, name)

    def rows(self) -> list[tuple[str, str]]:
        """Label and text of each line."""
        body = self.body
        by = body.verified_by
        tolerances = body.tolerances
        return [
            ("job", f"{self.name} ({body.job})"),
            ("graph", body.graph),
            ("inputs", ", ".join(body.inputs)),
            ("outputs", ", ".join(body.outputs)),
            ("class, assurance", f"{body.numeric_class}, {body.assurance}"),
            (
                "verified",
                f"{body.tasks} tasks: {by.product} product check, {by.recompute} recomputed, "
                f"{by.equality} equal hashes, {by.agreement} agreement",
            ),
            *([("tolerance", tolerance_text(tolerances))] if tolerances else []),
            *(
                [("late shards", f"{body.rounds_short} rounds ended without some; {body.arrivals}")]
                if body.arrivals
                else []
            ),
            ("engines", ", ".join(body.engine_builds)),
            ("signed by", self.node_key),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in self.rows())

    def _repr_html_(self) -> str:
        return html_table("certificate", self.rows())
