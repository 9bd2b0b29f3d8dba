"""The composite operators, one file a family."""
