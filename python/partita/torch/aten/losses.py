# SPDX-License-Identifier: Apache-2.0
"""Reductions and losses. A part of a reduction is a summand: means divide by the extents of the whole."""
from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from partita import _core
from partita.torch.aten.table import aten, cast, meta, row
from partita.torch.builder import Builder, Part, Value


def _reduced(b: Builder, x: Value, dims: list[int] | None, keep: bool, mean: bool,
             shape: tuple[int, ...]) -> Value:
    dims = [dim % len(x.shape) for dim in dims] if dims else list(range(len(x.shape)))
    total = math.prod(x.shape[dim] for dim in dims) if mean else 1
    if not shape and b.reduces_to_loss(1 / total):
        return x

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        summed = x.sum(dims, keepdim=keep)
        return summed / total if mean else summed

    return b.emit("ReduceMean" if mean else "ReduceSum", [x], run, [shape], [x.dtype],
                  attributes={"keepdims": int(keep)}, hidden=[b.integers(dims)])[0]


@row(aten.mean.dim)
def _mean(b: Builder, x: Value, dims: list[int] | None, keep: bool = False, **kwargs: Any) -> Value:
    return _reduced(b, cast(b, x, meta(b).dtype), dims, keep, True, tuple(meta(b).shape))


@row(aten.mean.default)
def _mean_all(b: Builder, x: Value, **kwargs: Any) -> Value:
    return _reduced(b, cast(b, x, meta(b).dtype), None, False, True, ())


@row(aten.sum.dim_IntList)
def _sum(b: Builder, x: Value, dims: list[int] | None, keep: bool = False, **kwargs: Any) -> Value:
    return _reduced(b, cast(b, x, meta(b).dtype), dims, keep, False, tuple(meta(b).shape))


@row(aten.sum.default)
def _sum_all(b: Builder, x: Value, **kwargs: Any) -> Value:
    return _reduced(b, cast(b, x, meta(b).dtype), None, False, False, ())


_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


@row(aten.mse_loss.default)
def _mse_loss(b: Builder, x: Value, y: Value, reduction: int = 1) -> Value:
    shape = tuple(torch.broadcast_shapes(x.shape, y.shape))
    difference = b.emit("Sub", [x, y], lambda part, x, y: x - y, [shape], [x.dtype])[0]
    square = b.emit("Mul", [difference, difference], lambda part, x, y: x * y, [shape],
                    [x.dtype])[0]
    if reduction == 0:
        return square
    return _reduced(b, square, None, False, reduction == 1, ())


@row(aten.cross_entropy_loss.default)
def _cross_entropy(b: Builder, scores: Value, labels: Value, weight: Value | None = None,
                   reduction: int = 1, ignore: int = -100, smoothing: float = 0.0) -> Value:
    if weight is not None or smoothing != 0 or labels.dtype.is_floating_point:
        raise b.fail("cross-entropy with class weights, label smoothing or probabilities is not "
                     "applied by parts. Write it with log_softmax.")
    samples = math.prod(labels.shape)
    counts_all = reduction == 1
    if reduction != 0 and b.reduces_to_loss(1 / samples if reduction == 1 else 1):
        reduction = 0

    where = b.node.name

    def run(part: Part, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if counts_all and bool((labels == ignore).any()):
            raise _core.InputError(
                f"{where}: some labels are {ignore}, which a mean does not count, and parts do not know "
                "how many there are. Use reduction='sum', and divide by their number.")
        if reduction == 0:
            return F.cross_entropy(scores, labels, ignore_index=ignore, reduction="none")
        loss = F.cross_entropy(scores, labels, ignore_index=ignore, reduction="sum")
        return loss / samples if reduction == 1 else loss

    return b.emit("SoftmaxCrossEntropyLoss", [scores, labels], run,
                  [labels.shape if reduction == 0 else ()], [scores.dtype],
                  attributes={"reduction": _REDUCTIONS[reduction]})[0]
