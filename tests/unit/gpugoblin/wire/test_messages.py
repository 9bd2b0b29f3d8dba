"""All messages, through their registry: golden bytes, round trips, mutations, no free text."""

from __future__ import annotations

import base64
import random
import re

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from gpugoblin.errors import WireError
from gpugoblin.wire.codec import decode, encode
from gpugoblin.wire.messages.contact import Grant
from gpugoblin.wire.registry import MESSAGES, MessageType
from gpugoblin.wire.tickets import BlobTicket, RevocationList
from tests.golden.wire.make import DIRECTORY, golden_bytes, golden_path
from tests.helpers.messages import SAMPLES, example, json_paths, strategy, text_fields, walk

ENTRIES = [MESSAGES[key] for key in sorted(MESSAGES)]
ids = [entry.key for entry in ENTRIES]
every_message = pytest.mark.parametrize("entry", ENTRIES, ids=ids)
quick = settings(
    max_examples=8,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TICKETS = (Grant, BlobTicket, RevocationList)
TOWARD_CLIENTS = frozenset({"client", "node"})


def leaves_the_lab(entry: MessageType) -> bool:
    """Whether a device or the coordinator sends or gets this message."""
    return not {entry.sender, entry.receiver} <= TOWARD_CLIENTS


@every_message
def test_golden_bytes(entry: MessageType) -> None:
    stored = golden_path(entry).read_bytes()
    assert stored == golden_bytes(entry), "a released message changes only as a new version"
    full, bare = stored.splitlines()
    assert decode(entry.struct, full) == example(entry.struct, bare=False)
    assert decode(entry.struct, bare) == example(entry.struct, bare=True)


def test_golden_files_and_messages_are_the_same_set() -> None:
    assert {path.name for path in DIRECTORY.glob("*.json")} == {f"{key}.json" for key in MESSAGES}


@every_message
@quick
@given(data=st.data())
def test_round_trip(entry: MessageType, data: st.DataObject) -> None:
    value = data.draw(strategy(entry.struct))
    try:
        encoded = encode(value)
    except WireError as error:
        refused = error.code
    else:
        refused = ""
    assert refused in ("", "message_too_large")
    if refused:
        return
    assert decode(entry.struct, encoded) == value
    assert encode(decode(entry.struct, encoded)) == encoded


@every_message
@quick
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_mutated_bytes_give_a_wire_error_or_a_value(
    entry: MessageType, data: st.DataObject, seed: int
) -> None:
    rng = random.Random(seed)
    encoded = bytearray(encode(example(entry.struct, bare=data.draw(st.booleans()))))
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(encoded) + 1)
        match rng.randrange(4):
            case 0:
                encoded[place:place] = bytes([rng.randrange(256)])
            case 1:
                del encoded[place : place + rng.randint(1, 9)]
            case 2:
                encoded[place : place + 1] = bytes([rng.randrange(256)])
            case _:
                encoded[place:place] = encoded[: rng.randint(0, 20)]
    accepted_means_equal(entry, bytes(encoded))


JSON_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(2**70),
    st.just([]), st.just({}), st.just({"a": [1]}), st.just("\x00"), st.just("a b"),
)  # fmt: skip


@every_message
@quick
@given(data=st.data())
def test_mutated_structure_gives_a_wire_error_or_a_value(
    entry: MessageType, data: st.DataObject
) -> None:
    tree = msgspec.json.decode(encode(example(entry.struct, bare=data.draw(st.booleans()))))
    path = data.draw(st.sampled_from(json_paths(tree)))
    leaf = data.draw(JSON_LEAVES)
    if not path:
        tree = leaf
    else:
        place = tree
        for step in path[:-1]:
            place = place[step]
        action = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "replace":
            place[path[-1]] = leaf
        elif action == "remove":
            del place[path[-1]]
        elif isinstance(place, dict):
            place[data.draw(st.text(max_size=8))] = leaf
        else:
            place.append(leaf)
    accepted_means_equal(entry, msgspec.json.encode(tree))


def accepted_means_equal(entry: MessageType, encoded: bytes) -> None:
    try:
        value = decode(entry.struct, encoded)
    except WireError as error:
        refused = error.code
    else:
        refused = ""
        assert decode(entry.struct, encode(value)) == value
    assert refused in ("", "message_malformed", "message_too_large")


@every_message
def test_unknown_fields_are_refused_everywhere(entry: MessageType) -> None:
    encoded = encode(example(entry.struct, bare=False))
    tree = msgspec.json.decode(encoded)
    refused = 0
    mappings = {re.sub(r"\.values$", "", p) for p, t in walk(entry.struct) if is_mapping(t)}
    for path in json_paths(tree):
        fresh = msgspec.json.decode(encoded)
        node = fresh
        for step in path:
            node = node[step]
        name = entry.struct.__name__ + "".join(
            "[]" if isinstance(step, int) else f".{step}" for step in path
        )
        if not isinstance(node, dict) or name in mappings:
            continue
        node["canary"] = 1
        with pytest.raises(WireError, match="unknown field") as caught:
            decode(entry.struct, msgspec.json.encode(fresh))
        assert caught.value.code == "message_malformed"
        refused += 1
    assert refused >= 1


def is_mapping(kind: object) -> bool:
    return isinstance(kind, inspect.DictType)


@every_message
def test_size_is_bounded_before_decoding(entry: MessageType) -> None:
    # Not JSON at all: had it been decoded, the error would be another one.
    with pytest.raises(WireError) as caught:
        decode(entry.struct, b"{" * (entry.max_bytes + 1))
    assert caught.value.code == "message_too_large"
    assert caught.value.fields["limit"] == entry.max_bytes


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"[" * 3000, b"{", b"\xff\xfe"])
@every_message
def test_other_json_is_refused(entry: MessageType, body: bytes) -> None:
    with pytest.raises(WireError) as caught:
        decode(entry.struct, body)
    assert caught.value.code in ("message_malformed", "message_too_large")


CANARIES = (
    "my secret project",
    "Grüße",
    "/home/ann/data.npy",
    "a\nb",
    "x\ty",
    " ",
    "",
    "名前",
    "{}",
)


def outgoing_structs() -> list[tuple[str, type[msgspec.Struct]]]:
    found = [(entry.key, entry.struct) for entry in ENTRIES if leaves_the_lab(entry)]
    return found + [(kind.__name__, kind) for kind in TICKETS]


PUBLIC = frozenset({"ContactReply.grants[].lab_words"})
"""What a lab wrote for everybody when it applied; the coordinator has it from its own form."""


@pytest.mark.parametrize(("key", "struct"), outgoing_structs(), ids=lambda v: str(v)[:40])
def test_no_text_field_outside_the_lab_admits_a_name(
    key: str, struct: type[msgspec.Struct]
) -> None:
    for path, kind in text_fields(struct):
        if path in PUBLIC:
            assert (MESSAGES[key].sender, MESSAGES[key].receiver) == ("coordinator", "device")
            continue
        assert kind.pattern is not None, f"{path} of {key} is free text"
        assert kind.pattern.startswith(r"\A"), f"{path} of {key} matches anywhere"
        assert kind.pattern.endswith(r"\Z"), f"{path} of {key} allows a tail"
        for canary in CANARIES:
            assert re.search(kind.pattern, canary) is None, f"{path} of {key} admits {canary!r}"
        sample = SAMPLES[kind.pattern]
        for place in range(len(sample) + 1):
            for foreign in " \n\t\x00é":
                with_foreign = sample[:place] + foreign + sample[place:]
                assert re.search(kind.pattern, with_foreign) is None, (path, with_foreign)


def test_the_walk_finds_text_that_is_free() -> None:
    free = {path for path, kind in text_fields(MESSAGES["job.info@1"].struct) if not kind.pattern}
    assert {"JobInfo.name", "JobInfo.error_text"} <= free


OPAQUE_TOWARD_DEVICES = frozenset({"Task.graph", "Task.seed_key"})


@pytest.mark.parametrize(("key", "struct"), outgoing_structs(), ids=lambda v: str(v)[:40])
def test_bytes_outside_the_lab_are_keys_and_signatures(
    key: str, struct: type[msgspec.Struct]
) -> None:
    for path, kind in walk(struct):
        assert not isinstance(kind, (inspect.AnyType, inspect.RawType)), path
        if isinstance(kind, inspect.BytesType) and not any(
            path.endswith(name.partition(".")[2]) for name in OPAQUE_TOWARD_DEVICES
        ):
            assert kind.min_length == kind.max_length, f"{path} of {key} could hold anything"
            assert kind.min_length in (32, 64), path


HASHES_THE_COORDINATOR_MAY_SEE = frozenset({"catalog_hash", "certificate_sha256"})


def test_no_message_of_the_coordinator_can_hold_a_hash_or_a_shape_of_data() -> None:
    hex64 = r"\A[0-9a-f]{64}\Z"
    checked = 0
    for entry in ENTRIES:
        if "coordinator" not in (entry.sender, entry.receiver):
            continue
        for path, kind in walk(entry.struct):
            name = path.rpartition(".")[2].removesuffix("[]")
            checked += 1
            if isinstance(kind, inspect.StrType) and kind.pattern == hex64:
                assert name in HASHES_THE_COORDINATOR_MAY_SEE, path
            assert not re.search("shape|dtype|graph|blob|operator|tensor|task|slot", name), path
    assert checked > 40


def test_encoding_an_integer_in_a_float_field_gives_one_spelling() -> None:
    entry = MESSAGES["blob.upload_state@1"]
    with pytest.raises(WireError):
        decode(entry.struct, b'{"stored_bytes":5.0,"complete":true}')
    reply = MESSAGES["node.demand_reply@1"].struct
    key = base64.b64encode(bytes(32)).decode()
    value = decode(reply, f'{{"coordinator_key":"{key}","next_poll_s":5}}'.encode())
    assert b'"next_poll_s":5.0' in encode(value)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "null", "-1"])
def test_numbers_that_are_none_are_refused(number: str) -> None:
    reply = MESSAGES["node.demand_reply@1"].struct
    key = base64.b64encode(bytes(32)).decode()
    with pytest.raises(WireError):
        decode(reply, f'{{"coordinator_key":"{key}","next_poll_s":{number}}}'.encode())
