"""The lab node's database: a protocol, the schema, and SQLite behind it."""

from server_stub.node.store.protocol import Row, Store, Tx, Value
from server_stub.node.store.sqlite import SqliteStore

__all__ = ["Row", "SqliteStore", "Store", "Tx", "Value"]
