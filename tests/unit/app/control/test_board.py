"""Deltas carry exactly the difference, whatever happens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.control.board import Board, follow
from app.control.messages import Item, LeaseItem

items = st.dictionaries(
    st.sampled_from("abcdef"), st.sampled_from(["fetching", "ready", "submitted"])
)


@given(st.lists(items, min_size=1))
def test_following_deltas_gives_what_is_shown(history: list[dict[str, str]]) -> None:
    board = Board()
    followed: dict[str, Item] = {}
    number = 0
    for shown in history:
        delta = board.show(LeaseItem(key, 0, stage) for key, stage in shown.items())
        if delta is not None:
            number += 1
            assert delta.number == number
            followed = follow(followed, delta)
        assert {key: item.stage for key, item in followed.items()} == shown  # type: ignore[union-attr]
        assert board.snapshot(5).items == tuple(board.items.values())


def test_no_difference_no_delta() -> None:
    board = Board()
    assert board.show([LeaseItem("a", 0, "ready")]) is not None
    assert board.show([LeaseItem("a", 0, "ready")]) is None
    assert board.snapshot(1).number == 1
