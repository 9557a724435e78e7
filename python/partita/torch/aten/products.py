# SPDX-License-Identifier: Apache-2.0
"""Matrix products and embeddings."""
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from partita.torch.aten.elementwise import scaled
from partita.torch.aten.shapes import reshape
from partita.torch.aten.table import aten, meta, one, row
from partita.torch.builder import Builder, Part, Value


def _matmul(b: Builder, x: Value, y: Value, shape: tuple[int, ...]) -> Value:
    return b.emit("MatMul", [x, y], lambda part, x, y: torch.matmul(x, y), [shape], [x.dtype])[0]


def _plus(b: Builder, x: Value, bias: Value | None) -> Value:
    if bias is None:
        return x
    # Of a sum that is kept in parts one alone adds the bias.
    return b.emit("Add", [x, bias], lambda part, x, bias: x if bias is None else x + bias,
                  [x.shape], [x.dtype])[0]


@row(aten.linear.default)
def _linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    shape = tuple(meta(b).shape)
    if weight.name in b.turned:
        return _plus(b, _matmul(b, x, weight, shape), bias)
    # A weight that others read as it is, such as a tied embedding: gradients of all of them then add up
    # where they arise.
    rows = reshape(b, x, (math.prod(x.shape[:-1]), x.shape[-1]))
    product = b.emit("Gemm", [rows, weight, bias], lambda part, x, w, bias: F.linear(x, w, bias),
                     [(rows.shape[0], shape[-1])], [x.dtype], attributes={"transB": 1})[0]
    return reshape(b, product, shape)


@row(aten.matmul.default, aten.mm.default, aten.bmm.default)
def _mm(b: Builder, x: Value, y: Value) -> Value:
    return _matmul(b, x, y, tuple(meta(b).shape))


@row(aten.addmm.default)
def _addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1,
           alpha: float = 1) -> Value:
    product = scaled(b, _matmul(b, x, y, tuple(meta(b).shape)), alpha)
    return _plus(b, product, scaled(b, bias, beta))


@row(aten.einsum.default)
def _einsum(b: Builder, equation: str, tensors: list[Value], path: Any = None) -> Value:
    return one(b, "Einsum", tensors, lambda part, *tensors: torch.einsum(equation, *tensors),
                attributes={"equation": equation})


@row(aten.embedding.default)
def _embedding(b: Builder, weight: Value, indices: Value, padding: int = -1,
               scale_by_frequency: bool = False, sparse: bool = False) -> Value:
    if scale_by_frequency or sparse:
        raise b.fail("embeddings with sparse gradients, or scaled by frequency, are not applied by "
                     "parts. Leave these options out.")
    rows = weight.shape[0]

    def run(part: Part, weight: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        (begin, end), = part.operands[0][0]
        if (begin, end) == (0, rows):
            return F.embedding(indices, weight, padding if padding >= 0 else None)
        # Rows of others give zeros, which the sum over the parts leaves as they are.
        local = indices - begin
        known = (local >= 0) & (local < end - begin)
        found = F.embedding(local.clamp(0, end - begin - 1), weight)
        if padding >= 0:
            found = torch.where((indices == padding).unsqueeze(-1), found.detach(), found)
        return found * known.unsqueeze(-1).to(found.dtype)

    return one(b, "Gather", [weight, indices], run, attributes={"axis": 0})
