"""HTTP of the lab node: who is calling, what they may send, and the routes."""
