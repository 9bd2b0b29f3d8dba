"""When a card may work: pure rules over a snapshot. No clock, no I/O, no window."""
