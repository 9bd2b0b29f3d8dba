"""Front ends: how a researcher's program becomes a graph of the catalog.

`gg.capture(module, args)` captures a PyTorch program (`gpugoblin.capture.torch.capturing`). The
public function has the name of this package, so the package itself can be called. Nothing is
imported before that.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """This package, callable as the function that it is named after."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gpugoblin.capture.torch.capturing import capture

        return capture(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
