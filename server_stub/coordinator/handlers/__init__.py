"""What the coordinator does: pure handlers `f(house, tx, now_s, rng, caller, message) -> reply`.

No clock, socket or generator of its own; a refusal is a CoordinatorError.
"""
