"""The demonstration: the whole network on one machine, on data that ships in a package."""
