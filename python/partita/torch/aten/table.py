# SPDX-License-Identifier: Apache-2.0
"""The table of rows, and what most of them need."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from partita.torch.builder import DTYPES, Builder, Value

TABLE: dict[Any, Callable[..., Any]] = {}
aten = torch.ops.aten


def row(*targets: Any) -> Callable:
    def register(lower: Callable) -> Callable:
        for target in targets:
            TABLE[target] = lower
        return lower
    return register


def meta(b: Builder) -> torch.Tensor:
    return b.node.meta["val"]


def one(b: Builder, type: str, operands: Sequence[Value | None], run: Callable, **more: Any) -> Value:
    """One op with the shape and type of the call's result."""
    result = meta(b)
    return b.emit(type, operands, run, [tuple(result.shape)], [result.dtype], **more)[0]


def cast(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    if x.dtype == dtype:
        return x
    if x.constant is not None and not x.name:
        return Value("", x.shape, dtype, x.constant.to(dtype))
    result = b.emit("Cast", [x], lambda part, x: x.to(dtype), [x.shape], [dtype],
                    attributes={"to": DTYPES[dtype]})[0]
    if x.name in b.turned:
        b.turned |= {result.name}
    return result


def scalar(value: float | int | bool, dtype: torch.dtype) -> Value:
    return Value("", (), dtype, torch.tensor(value, dtype=dtype))
