# SPDX-License-Identifier: Apache-2.0
"""Normalization, softmax, attention."""
from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from partita.torch.aten.table import aten, cast, meta, one, row
from partita.torch.builder import Builder, Part, Value
from partita.torch.regions import count


@row(aten.batch_norm.default)
def _batch_norm(b: Builder, x: Value, weight: Value | None, bias: Value | None, mean: Value,
                variance: Value, training: bool, momentum: float, epsilon: float,
                *args: Any) -> Value:
    if weight is None or bias is None or mean is None:
        raise b.fail("batch normalization without scale and running statistics is not applied by "
                     "parts. Use affine=True, track_running_stats=True.")
    whole = [(0, dim) for dim in range(len(x.shape)) if dim != 1] if training else []

    def run(part: Part, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor,
            mean: torch.Tensor, variance: torch.Tensor) -> Any:
        if not training:
            return F.batch_norm(x, mean, variance, weight, bias, False, momentum, epsilon)
        mean, variance = mean.clone(), variance.clone()
        y = F.batch_norm(x, mean, variance, weight, bias, True, momentum, epsilon)
        return y, mean, variance

    results = b.emit("BatchNormalization", [x, weight, bias, mean, variance], run,
                     [x.shape] + [mean.shape] * (2 * training), [x.dtype] + [mean.dtype] * (2 * training),
                     attributes={"epsilon": float(epsilon), "momentum": 1 - float(momentum),
                                 "training_mode": int(training)}, whole=whole)
    if training:
        b.updates += [(mean.name, results[1]), (variance.name, results[2])]
    return results[0]

@row(aten.softmax.int, aten._softmax.default)
def _softmax(b: Builder, x: Value, dim: int, *args: Any) -> Value:
    x = cast(b, x, meta(b).dtype)
    return one(b, "Softmax", [x], lambda part, x: torch.softmax(x, dim),
                attributes={"axis": dim % len(x.shape)}, whole=[(0, dim % len(x.shape))])


@row(aten.log_softmax.int, aten._log_softmax.default)
def _log_softmax(b: Builder, x: Value, dim: int, *args: Any) -> Value:
    x = cast(b, x, meta(b).dtype)
    return one(b, "LogSoftmax", [x], lambda part, x: torch.log_softmax(x, dim),
                attributes={"axis": dim % len(x.shape)}, whole=[(0, dim % len(x.shape))])


@row(aten.layer_norm.default)
def _layer_norm(b: Builder, x: Value, shape: list[int], weight: Value | None = None,
                bias: Value | None = None, epsilon: float = 1e-5, *args: Any) -> Value:
    dims = len(shape)
    rank = len(x.shape)
    scale = weight or Value("", tuple(shape), x.dtype, torch.ones(tuple(shape), dtype=x.dtype))
    return one(b, "LayerNormalization", [x, scale, bias],
                lambda part, x, weight, bias: F.layer_norm(x, x.shape[-dims:], weight, bias, epsilon),
                attributes={"axis": -dims, "epsilon": float(epsilon)},
                whole=[(0, dim) for dim in range(rank - dims, rank)])


@row(aten.rms_norm.default)
def _rms_norm(b: Builder, x: Value, shape: list[int], weight: Value | None = None,
              epsilon: float | None = None) -> Value:
    dims = len(shape)
    rank = len(x.shape)
    scale = weight or Value("", tuple(shape), x.dtype, torch.ones(tuple(shape), dtype=x.dtype))
    epsilon = torch.finfo(x.dtype).eps if epsilon is None else epsilon
    return one(b, "RMSNormalization", [x, scale],
                lambda part, x, weight: F.rms_norm(x, x.shape[-dims:], weight, epsilon),
                attributes={"axis": -dims, "epsilon": float(epsilon)},
                whole=[(0, dim) for dim in range(rank - dims, rank)])


@row(aten.scaled_dot_product_attention.default)
def _attention(b: Builder, q: Value, k: Value, v: Value, mask: Value | None = None,
               dropout: float = 0.0, causal: bool = False, scale: float | None = None,
               enable_gqa: bool = False) -> Value:
    if dropout != 0:
        raise b.fail("dropout is not applied by parts yet. Set its probability to 0.")
    if len(q.shape) != 4:
        raise b.fail("attention of [batch, heads, positions, size] alone is planned, not of "
                     f"{list(q.shape)}. Add the dim of heads.")
    queries, keys = q.shape[2], k.shape[2]
    attributes: dict[str, Any] = {"is_causal": int(causal)}
    if scale is not None:
        attributes["scale"] = float(scale)

    def run(part: Part, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
            mask: torch.Tensor | None = None) -> torch.Tensor:
        grouped = q.shape[1] != k.shape[1]
        is_whole = count(part.results[0][2]) == queries
        if not causal or is_whole:
            return F.scaled_dot_product_attention(q, k, v, mask, 0.0, causal, scale=scale,
                                                  enable_gqa=grouped)
        rows = torch.cat([torch.arange(*each) for each in part.results[0][2]])
        allowed = rows.unsqueeze(1) >= torch.arange(keys).unsqueeze(0)
        return F.scaled_dot_product_attention(q, k, v, allowed.to(q.device), 0.0, scale=scale,
                                              enable_gqa=grouped)

    operands = [q, k, v] + ([mask] if mask is not None else [])
    return one(b, "Attention", operands, run, attributes=attributes)
