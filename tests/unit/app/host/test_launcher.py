"""Which launcher serves which level."""

from __future__ import annotations

from dataclasses import replace

from app.host.engine import Engine
from app.host.spec import HostSpec
from app.sandbox.plain import PlainProcess


def test_level_none_is_a_plain_child(host_spec: HostSpec) -> None:
    with Engine.start(replace(host_spec, level="none")) as engine:
        assert isinstance(engine._process, PlainProcess)
        assert engine.wait_ready().level == "none"
