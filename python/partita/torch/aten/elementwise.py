# SPDX-License-Identifier: Apache-2.0
"""Calls that take each element by itself."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from partita.torch.aten.table import aten, cast, meta, one, row, scalar
from partita.torch.builder import Builder, Part, Value


def _operands(b: Builder, x: Any, y: Any, dtype: torch.dtype) -> list[Value]:
    """Both of that type, numbers as scalars."""
    return [cast(b, each, dtype) if isinstance(each, Value) else scalar(each, dtype)
            for each in (x, y)]


def _binary(type: str, function: Callable) -> Callable:
    def lower(b: Builder, x: Value, y: Any) -> Value:
        operands = _operands(b, x, y, meta(b).dtype)
        return one(b, type, operands, lambda part, x, y: function(x, y))
    return lower


def _compare(type: str, function: Callable) -> Callable:
    def lower(b: Builder, x: Value, y: Any) -> Value:
        y_type = y.dtype if isinstance(y, Value) else (
            torch.float32 if isinstance(y, float) and not x.dtype.is_floating_point else x.dtype)
        operands = _operands(b, x, y, torch.promote_types(x.dtype, y_type))
        return one(b, type, operands, lambda part, x, y: function(x, y))
    return lower


for _targets, _type, _function in [
        ((aten.mul.Tensor, aten.mul.Scalar), "Mul", torch.mul),
        ((aten.div.Tensor, aten.div.Scalar), "Div", torch.div),
        ((aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor), "Pow", torch.pow),
        ((aten.maximum.default,), "Max", torch.maximum),
        ((aten.minimum.default,), "Min", torch.minimum)]:
    row(*_targets)(_binary(_type, _function))


def _logical(type: str, function: Callable) -> Callable:
    def lower(b: Builder, x: Value, y: Value) -> Value:
        if meta(b).dtype != torch.bool or x.dtype != torch.bool or y.dtype != torch.bool:
            raise b.fail("of integers it is not planned, of truth values alone. Compare first.")
        return one(b, type, [x, y], lambda part, x, y: function(x, y))
    return lower


row(aten.logical_and.default, aten.bitwise_and.Tensor, aten.__and__.Tensor)(
    _logical("And", torch.logical_and))
row(aten.logical_or.default, aten.bitwise_or.Tensor, aten.__or__.Tensor)(
    _logical("Or", torch.logical_or))


for _targets, _type, _function in [
        ((aten.eq.Tensor, aten.eq.Scalar), "Equal", torch.eq),
        ((aten.gt.Tensor, aten.gt.Scalar), "Greater", torch.gt),
        ((aten.ge.Tensor, aten.ge.Scalar), "GreaterOrEqual", torch.ge),
        ((aten.lt.Tensor, aten.lt.Scalar), "Less", torch.lt),
        ((aten.le.Tensor, aten.le.Scalar), "LessOrEqual", torch.le)]:
    row(*_targets)(_compare(_type, _function))


def scaled(b: Builder, y: Any, alpha: float) -> Any:
    if alpha == 1:
        return y
    if not isinstance(y, Value):
        return y * alpha
    return b.emit("Mul", [y, scalar(alpha, y.dtype)], lambda part, y, c: y * c, [y.shape],
                  [y.dtype])[0]


@row(aten.add.Tensor, aten.add.Scalar)
def _add(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, x, scaled(b, y, alpha), meta(b).dtype)
    return one(b, "Add", operands, lambda part, x, y: x + y)


@row(aten.sub.Tensor, aten.sub.Scalar)
def _sub(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, x, scaled(b, y, alpha), meta(b).dtype)
    return one(b, "Sub", operands, lambda part, x, y: x - y)


@row(aten.rsub.Scalar, aten.rsub.Tensor)
def _rsub(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, y, scaled(b, x, alpha), meta(b).dtype)
    return one(b, "Sub", operands, lambda part, x, y: x - y)


def _unary(type: str, function: Callable, **attributes: Any) -> Callable:
    def lower(b: Builder, x: Value) -> Value:
        x = cast(b, x, meta(b).dtype)
        return one(b, type, [x], lambda part, x: function(x), attributes=attributes)
    return lower


for _target, _type, _function in [
        (aten.relu.default, "Relu", torch.relu),
        (aten.sigmoid.default, "Sigmoid", torch.sigmoid), (aten.tanh.default, "Tanh", torch.tanh),
        (aten.exp.default, "Exp", torch.exp), (aten.log.default, "Log", torch.log),
        (aten.sqrt.default, "Sqrt", torch.sqrt), (aten.neg.default, "Neg", torch.neg),
        (aten.abs.default, "Abs", torch.abs), (aten.erf.default, "Erf", torch.erf),
        (aten.sin.default, "Sin", torch.sin), (aten.cos.default, "Cos", torch.cos),
        (aten.reciprocal.default, "Reciprocal", torch.reciprocal),
        (aten.softplus.default, "Softplus", F.softplus), (aten.floor.default, "Floor", torch.floor)]:
    row(_target)(_unary(_type, _function))


@row(aten.logical_not.default, aten.bitwise_not.default)
def _not(b: Builder, x: Value) -> Value:
    if x.dtype != torch.bool:
        raise b.fail("of integers it is not planned, of truth values alone. Compare first.")
    return one(b, "Not", [x], lambda part, x: torch.logical_not(x))


@row(aten.rsqrt.default)
def _rsqrt(b: Builder, x: Value) -> Value:
    root = b.emit("Sqrt", [x], lambda part, x: torch.sqrt(x), [x.shape], [x.dtype])[0]
    return one(b, "Reciprocal", [root], lambda part, x: torch.reciprocal(x))


@row(aten.gelu.default)
def _gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    return one(b, "Gelu", [x], lambda part, x: F.gelu(x, approximate=approximate),
                attributes={"approximate": approximate})


@row(aten.silu.default)
def _silu(b: Builder, x: Value) -> Value:
    gate = b.emit("Sigmoid", [x], lambda part, x: torch.sigmoid(x), [x.shape], [x.dtype])[0]
    return one(b, "Mul", [x, gate], lambda part, x, gate: x * gate)


@row(aten.leaky_relu.default)
def _leaky_relu(b: Builder, x: Value, slope: float = 0.01) -> Value:
    return one(b, "LeakyRelu", [x], lambda part, x: F.leaky_relu(x, slope),
                attributes={"alpha": float(slope)})


@row(aten.where.self)
def _where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    dtype = meta(b).dtype
    return one(b, "Where", [condition, cast(b, x, dtype), cast(b, y, dtype)],
                lambda part, condition, x, y: torch.where(condition, x, y))


@row(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def _masked_fill(b: Builder, x: Value, mask: Value, value: Any) -> Value:
    other = value if isinstance(value, Value) else scalar(value, x.dtype)
    return one(b, "Where", [mask, other, x],
                lambda part, mask, other, x: torch.where(mask, other, x))


@row(aten.to.dtype, aten.to.dtype_layout, aten.type_as.default)
def _to(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    return cast(b, x, meta(b).dtype)


@row(aten._to_copy.default, aten.contiguous.default, aten.clone.default, aten.alias.default,
     aten.lift_fresh_copy.default)
def _copy(b: Builder, x: Value, **kwargs: Any) -> Value:
    """Another one, which may be changed by itself."""
    return replace(cast(b, x, meta(b).dtype))


@row(aten.dropout.default)
def _dropout(b: Builder, x: Value, p: float, train: bool) -> Value:
    if p == 0 or not train:
        return x
    numbers, draw = b.numbers, b.next_draw()

    shape = x.shape

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        kept = numbers.uniform(draw, part.results[0], shape).to(x.device) >= p
        return x * (kept.to(x.dtype) / (1 - p))

    ratio = Value("", (), x.dtype, torch.tensor(p, dtype=x.dtype))
    training = Value("", (), torch.bool, torch.tensor(True))
    return one(b, "Dropout", [x], run,
                hidden=[b.named(ratio), b.named(training)])
