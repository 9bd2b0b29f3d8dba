"""What the processor says of itself, and which operands its kernels read."""

from __future__ import annotations

import numpy as np

from app.engine.backends.cpu.backend import CpuBackend


def test_the_driver_is_one_word() -> None:
    driver = CpuBackend().driver()
    assert driver.startswith(f"numpy-{np.__version__}:")
    assert len(driver) <= 64
    assert " " not in driver


def test_readable_operands() -> None:
    backend = CpuBackend()
    sparse = np.zeros((8, 8), np.float32)[:, ::2]
    assert not backend.readable("matmul@1", sparse)
    assert backend.readable("matmul@1", sparse.astype(np.int32)[:, ::2])
    assert not backend.readable("gather@1", sparse)
    assert not backend.readable("reshape@1", sparse)
    assert backend.readable("formula@1", sparse)
    assert backend.readable("reduce@1", sparse)
