"""The lab node's state machine: handlers `f(step, message) -> replies`, without clock or network.

A `Step` carries the transaction, the time, the random source and what is to be done once the
transaction is durable. The service, the tests and the simulator drive the same functions.
"""
