"""What runs inside the walls in the attack suite: staged into a runtime made for these tests.

Owns: the attacks and the program that carries them out by name. Must not: be shipped; the engine
that contributors run has no way to receive code, and these files are in no package.
"""
