"""A seal is of one key and of these facts."""

from __future__ import annotations

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gpugoblin.errors import WireError
from gpugoblin.wire.credits import Certificate, SealedCertificate, check
from gpugoblin.wire.signing import public_key_bytes, sign_json

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = public_key_bytes(KEY).hex()
FACTS = Certificate("BCDF-GHJK-LMNP-QRST", "ann", "lab-a", 20_700, 20_710, 2_500_000, 3, 20_711)
SEALED = SealedCertificate(FACTS, sign_json(KEY, FACTS).hex(), PUBLIC)


def test_papers_of_earlier_days_are_checked_as_before() -> None:
    """The seal of one that was given out: the name of the type and its fields are signed."""
    assert SEALED.seal.startswith(GOLDEN)
    check(SEALED, PUBLIC)
    assert FACTS.units == 2.5


GOLDEN = "248c44bcde40bcdaffce4aabf2e93661"


@pytest.mark.parametrize("field", Certificate.__struct_fields__)
def test_any_change_breaks_it(field: str) -> None:
    value = getattr(FACTS, field)
    changed = msgspec.structs.replace(FACTS, **{field: value + (1 if type(value) is int else "x")})
    with pytest.raises(WireError, match="document_signature_wrong"):
        check(msgspec.structs.replace(SEALED, certificate=changed))


def test_another_key_did_not_make_it() -> None:
    other = public_key_bytes(Ed25519PrivateKey.generate()).hex()
    with pytest.raises(WireError, match="document_signature_wrong"):
        check(SEALED, other)
    with pytest.raises(WireError, match="document_signature_wrong"):
        check(msgspec.structs.replace(SEALED, coordinator_key=other))
