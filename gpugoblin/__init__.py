"""gpugoblin: verified computation on lent graphics cards.

Public names only, resolved on first use; importing the package loads neither NumPy nor any server.
"""

__version__ = "0.1.0"
