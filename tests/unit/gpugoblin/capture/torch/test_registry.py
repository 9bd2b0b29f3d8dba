"""The table of lowerings: no operator twice, and all of them are operators of torch."""

from __future__ import annotations

import pytest

from gpugoblin.capture.torch.families import TABLE, lookup
from gpugoblin.capture.torch.registry import register
from tests.helpers.torch_programs import torch_or_skip


def test_an_operator_has_one_rule() -> None:
    with pytest.raises(LookupError, match="two lowerings"):
        register("add", lambda c: None)


def test_overloads_share_the_rule_of_the_name_unless_they_have_their_own() -> None:
    assert lookup("add.Tensor") is TABLE["add"]
    assert lookup("max.dim") is TABLE["max.dim"]
    assert lookup("max.default") is TABLE["max"]
    assert lookup("select_copy.int") is TABLE["select"]
    assert lookup("no_such_thing.default") is None


def test_every_name_is_an_operator_of_torch() -> None:
    torch = torch_or_skip()
    known = {name.partition("::")[2] for name in torch._C._dispatch_get_all_op_names()}
    known |= {name.partition(".")[0] for name in known}
    loops = {"scan", "while_loop", "cond", "map_impl"}
    unknown = {name for name in TABLE if name not in known and "." not in name} - loops
    assert not unknown
