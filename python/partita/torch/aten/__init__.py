# SPDX-License-Identifier: Apache-2.0
"""ATen calls as operators of ONNX: what a call is called there, and what it does to local parts.

A row of TABLE takes the builder and the call's arguments, tensors as Value, and returns the call's
results. What it emits runs on parts as the rule of the ONNX operator cuts them (graph/operators): a
MatMul on rows, columns, or a share of the sum; a Reshape on what its result's part is made of.
"""
from partita.torch.aten import (  # noqa: F401  their rows are the table
    elementwise,
    losses,
    normalization,
    products,
    recurrent,
    shapes,
    windows,
)
from partita.torch.aten.table import TABLE

__all__ = ["TABLE"]
