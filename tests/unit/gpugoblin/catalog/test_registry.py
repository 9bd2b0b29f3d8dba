from __future__ import annotations

import json
import subprocess
import sys

import pytest

from gpugoblin.catalog.registry import OPERATORS, catalog_hash, get, operator_versions
from gpugoblin.errors import GraphError

NAMES = {
    "adaptive_pool",
    "attention",
    "average_pool",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_logits",
    "broadcast",
    "cast",
    "cholesky",
    "compact",
    "concat",
    "cond",
    "conv",
    "conv_transposed",
    "cross_entropy",
    "ctc",
    "custom_gradient",
    "det",
    "eigh",
    "fft",
    "flip",
    "fold",
    "formula",
    "gather",
    "gelu",
    "grid_sample",
    "group_norm",
    "grouped_matmul",
    "grouped_outer",
    "histogram",
    "huber",
    "inverse",
    "iota",
    "kl_divergence",
    "layer_norm",
    "log_softmax",
    "lstsq",
    "lu",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "mse",
    "nll",
    "no_gradient",
    "nonzero",
    "pad",
    "permute",
    "pool",
    "qr",
    "random",
    "reduce",
    "reduce_arg",
    "reshape",
    "resize",
    "rms_norm",
    "scan",
    "scan_reduce",
    "scatter",
    "searchsorted",
    "silu",
    "slice",
    "slogdet",
    "smooth_l1",
    "softmax",
    "solve",
    "sort",
    "svd",
    "take_along",
    "topk",
    "triangular_solve",
    "update_slice",
    "vector_norm",
    "while_loop",
    "window",
}


def test_the_operators() -> None:
    assert operator_versions() == dict.fromkeys(sorted(NAMES), 1)
    assert set(OPERATORS) == {f"{name}@1" for name in NAMES}


def test_get_finds_the_newest_and_a_given_version() -> None:
    assert get("matmul") is get("matmul", 1) is OPERATORS["matmul@1"]


@pytest.mark.parametrize(
    ("name", "version"), [("matmul", 2), ("nothing", None), ("", 1), ("matmul@1", None)]
)
def test_unknown_operators_are_refused(name: str, version: int | None) -> None:
    with pytest.raises(GraphError) as raised:
        get(name, version)
    assert raised.value.code == "unknown_operator"


def test_the_registry_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        OPERATORS["evil@1"] = OPERATORS["cast@1"]  # type: ignore[index]


def test_the_hash_names_this_catalog() -> None:
    # Changes only when a declaration does: then devices and lab nodes must tell the two apart.
    expected = "54014434cd6d2e41cdf5257b88c45b9fd50ed026d384e8c326c444651d58d0ac"
    assert catalog_hash() == expected


def test_importing_the_catalog_and_the_graph_is_light() -> None:
    program = (
        "import json, sys, numpy, blake3\n"
        "before = set(sys.modules)\n"
        "from gpugoblin.graph import builder, interpret, memory, numeric, serialize\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "print(json.dumps([sorted(new), 'numpy.random' in sys.modules]))\n"
    )
    shown = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True
    ).stdout
    packages, random_loaded = json.loads(shown)
    assert not random_loaded
    foreign = set(packages) - set(sys.stdlib_module_names) - {"gpugoblin", "numpy", "org"}
    assert not foreign
    assert not {"socket", "ssl"} & set(packages)
