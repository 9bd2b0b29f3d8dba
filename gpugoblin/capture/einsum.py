"""`gg.einsum`: sums of products by the names of axes.

Owns: the reading of NumPy's notation, and its steps: diagonals, sums over what stands in one
operand alone, and one contraction after the other from the left. Must not: search for a better
order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpugoblin.capture import products, reducing, shaping
from gpugoblin.capture.applying import refused
from gpugoblin.capture.array import Array, ArrayLike, as_value
from gpugoblin.capture.caller import Place, caller
from gpugoblin.capture.expression import Value
from gpugoblin.capture.picking import iota, pick

__all__ = ["einsum"]

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(equation: str, *operands: ArrayLike) -> Array:
    """`einsum("bik,bkj->bij", x, y)`: products of the operands, summed over every letter that the
    result does not have. `...` stands for the leading axes of all; without `->` the result has the
    letters that occur once, in the order of the alphabet.

    Raises:
        CaptureError: `argument_refused`, `shapes_differ`.
    """
    place = caller()
    values = [as_value(operand, place) for operand in operands]
    terms, result = _parsed(equation, values, place)
    parts = [_unrepeated(value, term, place) for value, term in zip(values, terms, strict=True)]
    found, named = parts[0]
    for number, (value, term) in enumerate(parts[1:], 1):
        needed = set(result).union(*(later for _, later in parts[number + 1 :]))
        found, named = _joined((found, named), (value, term), needed, place)
    found, named = _summed(found, named, set(result), place)
    return Array(shaping.permute(found, tuple(named.index(letter) for letter in result), place))


def _parsed(equation: str, values: Sequence[Value], place: Place) -> tuple[list[str], str]:
    text = equation.replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    free = [letter for letter in _LETTERS if letter not in text]
    if len(terms) != len(values):
        raise _wrong(equation, values, f"it names {len(terms)} operands", place)
    named = [sum(letter != "." for letter in term) for term in terms]
    spare = max((v.spec.rank - n for v, n in zip(values, named, strict=True)), default=0)
    leading = "".join(free[:spare])
    if not arrow:
        counts = Counter(letter for letter in left if letter.isalpha())
        once = sorted(letter for letter, count in counts.items() if count == 1)
        result = ("..." if "..." in left else "") + "".join(once)
    whole = []
    for value, term, count in zip(values, terms, named, strict=True):
        own = leading[len(leading) - (value.spec.rank - count) :] if "..." in term else ""
        whole.append(term.replace("...", own))
        if len(whole[-1]) != value.spec.rank or not all(c in _LETTERS for c in whole[-1]):
            raise _wrong(equation, values, f"{term!r} does not fit {value.spec}", place)
    result = result.replace("...", leading)
    known = set("".join(whole))
    if len(set(result)) != len(result) or not known.issuperset(result):
        raise _wrong(equation, values, "the result has a letter twice, or a new one", place)
    return whole, result


def _unrepeated(value: Value, term: str, place: Place) -> tuple[Value, str]:
    """The diagonal over letters that stand twice in one operand."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            axis, second = term.index(letter), term.rindex(letter)
            order = [one for one in range(len(term)) if one not in (axis, second)]
            turned = shaping.permute(value, (axis, second, *order), place)
            line = iota(turned.spec.shape[0], place)
            value = pick(turned, 0, [line, line], place)
            term = letter + "".join(term[one] for one in order)
    return value, term


def _joined(
    one: tuple[Value, str], other: tuple[Value, str], needed: set[str], place: Place
) -> tuple[Value, str]:
    """The product of two operands, summed over the letters that nothing needs any more."""
    (a, left), (b, right) = one, other
    a, left = _summed(a, left, needed | set(right), place)
    b, right = _summed(b, right, needed | set(left), place)
    a, b = _stretched(a, left, b, right, place)
    common = [letter for letter in left if letter in right]
    batch = [letter for letter in common if letter in needed]
    over = [letter for letter in common if letter not in needed]

    def axes(letters: Sequence[str]) -> tuple[list[int], list[int]]:
        return [left.index(x) for x in letters], [right.index(x) for x in letters]

    found = products.contract(a, b, axes(over), axes(batch), place)
    rest = [letter for letter in left + right if letter not in common]
    return found, "".join([*batch, *rest])


def _stretched(a: Value, left: str, b: Value, right: str, place: Place) -> tuple[Value, Value]:
    """Axes of extent 1 beside longer ones of the same letter are repeated."""
    extents: dict[str, int] = {}
    for value, term in ((a, left), (b, right)):
        for letter, extent in zip(term, value.spec.shape, strict=True):
            extents[letter] = extent if extents.get(letter, 1) == 1 else extents[letter]
    return tuple(  # type: ignore[return-value]
        shaping.broadcast_to(
            value,
            tuple(
                extents[letter] if extent == 1 else extent
                for letter, extent in zip(term, value.spec.shape, strict=True)
            ),
            place,
        )
        for value, term in ((a, left), (b, right))
    )


def _summed(value: Value, term: str, needed: set[str], place: Place) -> tuple[Value, str]:
    gone = tuple(axis for axis, letter in enumerate(term) if letter not in needed)
    if not gone:
        return value, term
    found = reducing.reduce("sum", value, gone, False, place)
    return found, "".join(letter for letter in term if letter in needed)


def _wrong(equation: str, values: Sequence[Value], cause: str, place: Place) -> Exception:
    return refused(
        f"einsum {equation!r}", values, cause, "Write one letter an axis: 'ij,jk->ik'.", place
    )
