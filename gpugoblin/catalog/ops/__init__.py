"""The operators, one family a file. The registry in `gpugoblin.catalog.registry` lists them."""
