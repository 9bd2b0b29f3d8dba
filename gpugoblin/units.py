"""Units: named sizes, and figures written for people. Owns no state."""

from __future__ import annotations

__all__ = ["GIB", "KIB", "MIB", "format_bytes", "format_flops", "format_ratio", "format_seconds"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def format_bytes(count_bytes: float) -> str:
    """`1536` -> `1.5 KiB`. Binary units, three significant digits."""
    size = float(count_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:.3g} TiB"


def format_flops(count_flops: float) -> str:
    """`2.5e9` -> `2.5 Gflop`. Decimal units, three significant digits."""
    size = float(count_flops)
    for unit in ("flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"):
        if abs(size) < 1000 or unit == "Pflop":
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} Pflop"


def format_seconds(duration_s: float) -> str:
    """`75` -> `1 min 15 s`; under a minute three significant digits."""
    if duration_s < 60:
        return f"{duration_s:.3g} s"
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def format_ratio(ratio: float) -> str:
    """`0.51234` -> `0.512`; what is below a thousandth is said to be so."""
    if 0 < ratio < 0.001:
        return "under 0.001"
    return f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
