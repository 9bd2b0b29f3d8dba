"""The root of all errors: codes, fields, sentences, pickling across processes."""

from __future__ import annotations

import pickle
import string

import pytest

from gpugoblin import errors
from gpugoblin.error_codes import ALL_CODES, FAMILIES


def test_message_says_what_next_and_code() -> None:
    error = errors.WireError("message_too_large", message="contact@1", size=9, limit=4)
    assert str(error) == (
        "The message contact@1 has 9 bytes; at most 4 are accepted. "
        "Send less in one message, or upload the data as a blob. [message_too_large]"
    )
    assert error.fields == {"message": "contact@1", "size": 9, "limit": 4}


def test_undeclared_code_is_a_programming_error() -> None:
    with pytest.raises(LookupError, match="no_such_code"):
        errors.GoblinError("no_such_code")


def test_missing_field_is_a_programming_error() -> None:
    with pytest.raises(LookupError, match="limit"):
        errors.WireError("message_too_large", message="contact@1", size=9)


def test_survives_pickling_between_test_processes() -> None:
    error = errors.WireError("message_too_large", message="contact@1", size=9, limit=4)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(again) is errors.WireError
    assert str(again) == str(error)


@pytest.mark.parametrize("code", sorted(ALL_CODES))
def test_every_code_is_snake_case_and_speaks_in_sentences(code: str) -> None:
    declared = ALL_CODES[code]
    assert code == code.lower()
    assert code.replace("_", "").isalnum()
    for sentence in (declared.what, declared.next_step):
        assert sentence.strip() == sentence
        assert sentence
        assert sentence[0].isupper() or sentence[0] in "{`/"
        assert not sentence.endswith((",", ";", " "))
        names = [field for _, field, _, _ in string.Formatter().parse(sentence) if field]
        assert all(name.isidentifier() for name in names)


def test_families_share_no_code() -> None:
    assert sum(len(codes) for codes in FAMILIES.values()) == len(ALL_CODES)


def test_families_keep_their_builtin_kind() -> None:
    assert issubclass(errors.GraphError, ValueError)
    assert issubclass(errors.StoreError, OSError)
    assert issubclass(errors.WireError, errors.GoblinError)
