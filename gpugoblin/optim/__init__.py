"""Optimizers and schedules of their rates, as graphs of the catalog.

Owns: what a step of training does to parameters. An optimizer is numbers; its step is a graph like
any other, so every backend has it, and it is cut and verified as everything is.
"""
