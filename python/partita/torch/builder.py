# SPDX-License-Identifier: Apache-2.0
"""A graph that is being written, op by op, each with what it does to local parts."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from partita import _core
from partita.torch.regions import Region, shape_of

# Element types that graphs have, by ONNX's numbers; their names are torch's.
DTYPES = {
    torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6, torch.int64: 7,
    torch.bool: 9, torch.float16: 10, torch.float64: 11, torch.bfloat16: 16,
}


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Part:
    """Where a rank's part of an op lies: regions of operands (None: it holds nothing of that one) and
    of results."""

    operands: tuple[Region | None, ...]
    results: tuple[Region, ...]

    def shape(self, result: int = 0) -> tuple[int, ...]:
        return shape_of(self.results[result])


Run = Callable[..., Any]  # (part, *operands) -> a tensor, or one for each result


@dataclass(frozen=True)
class Value:
    """A tensor of the graph."""

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    constant: torch.Tensor | None = None  # known when the module was captured


@dataclass(frozen=True)
class LocalOp:
    """An op of the graph, and what it does to parts."""

    name: str
    operands: tuple[str, ...]  # tensors; "": left out
    results: tuple[str, ...]
    run: Run
    whole: tuple[tuple[int, int], ...] = ()  # (result, dim): run() needs all of that dim
    node: str = ""                           # the call of the module that it is part of


def unsupported(node: fx.Node, why: str) -> _core.InputError:
    path = _path(node)
    where = f"{path}: {node.name}" if path else node.name
    return _core.InputError(f"{where} ({node.target}): {why}")


def _path(node: fx.Node) -> str:
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return stack[-1][0] if stack else ""


class Numbers:
    """Random numbers of elements, the same however a tensor is cut: each is made of the number of the
    element, the call, the micro-batch and the iteration."""

    def __init__(self) -> None:
        self.seed = 0
        self.turn = 0  # counts forward passes of micro-batches

    def uniform(self, draw: int, region: Region, shape: tuple[int, ...]) -> torch.Tensor:
        """In [0, 1), for the elements of a region."""
        number = torch.zeros((), dtype=torch.int64)
        for dim, ranges in enumerate(region):
            places = torch.cat([torch.arange(*each) for each in ranges])
            number = number.unsqueeze(-1) * shape[dim] + places
        mixed = _mix(number + _mix(torch.tensor(self.seed * 1000003 + draw) + _mix(
            torch.tensor(self.turn))))
        return (mixed & ((1 << 24) - 1)).to(torch.float32) / (1 << 24)


def _mix(x: torch.Tensor) -> torch.Tensor:
    """SplitMix64's finalizer (Steele et al., OOPSLA 2014), in wrapping 64-bit integers."""
    x = (x ^ ((x >> 30) & ((1 << 34) - 1))) * -4658895280553007687
    x = (x ^ ((x >> 27) & ((1 << 37) - 1))) * -7723592293110705685
    return x ^ ((x >> 31) & ((1 << 33) - 1))


class Builder:
    """What the rows of aten/ write to."""

    def __init__(self, name: str) -> None:
        self.numbers = Numbers()
        self._draws = 0
        self.turned: frozenset[str] = frozenset()
        self.buffers: set[str] = set()
        self.updates: list[tuple[str, Value]] = []  # buffers, and what they become
        self.graph = _core.Graph(name)
        self.ops: list[LocalOp] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.node: fx.Node | None = None
        self.loss: fx.Node | None = None    # the call that reduces all to the module's one result
        self.loss_scale: float | None = None  # what its sum is multiplied by
        self._names: set[str] = set()

    def fail(self, why: str) -> _core.InputError:
        return unsupported(self.node, why)

    @property
    def is_random(self) -> bool:
        return self._draws > 0

    def next_draw(self) -> int:
        self._draws += 1
        return self._draws

    def reduces_to_loss(self, scale: float) -> bool:
        """Is this call the loss? Then it is left unreduced in the graph, whose losses add up: so
        micro-batches pass one by one, and devices hold parts of it."""
        if self.node is not self.loss:
            return False
        self.loss_scale = scale
        return True

    def claim(self, name: str) -> None:
        """Nothing else is called so."""
        self._names.add(name)

    def _unique(self, name: str) -> str:
        unique, number = name, 1
        while unique in self._names:
            number += 1
            unique = f"{name}_{number}"
        self._names.add(unique)
        return unique

    def _base(self) -> str:
        path = _path(self.node).replace(".", "/")
        return f"{path}/{self.node.name}" if path else self.node.name

    def integers(self, values: Sequence[int]) -> Value:
        name = self.graph.integers(self._unique(self._base() + "/sizes"), list(values))
        return Value(name, (len(values),), torch.int64)

    def constant(self, tensor: torch.Tensor) -> Value:
        """One that each rank has."""
        name = self._unique(self._base() + "/constant")
        self.graph.constant(name, list(tensor.shape), self.dtype_name(tensor.dtype))
        self.constants[name] = tensor
        return Value(name, tuple(tensor.shape), tensor.dtype, tensor)

    def dtype_name(self, dtype: torch.dtype) -> str:
        if dtype in DTYPES:
            return _name_of(dtype)
        raise self.fail(f"elements of type {dtype} cannot be planned. Use "
                        f"{', '.join(map(_name_of, DTYPES))}.")

    def named(self, value: Value) -> Value:
        """A constant as a tensor of the graph."""
        return value if value.name else self.constant(value.constant)

    def emit(self, type: str, operands: Sequence[Value | None], run: Run,
             shapes: Sequence[tuple[int, ...]], dtypes: Sequence[torch.dtype], *,
             attributes: dict[str, Any] | None = None, hidden: Sequence[Value] = (),
             whole: Sequence[tuple[int, int]] = ()) -> list[Value]:
        """One op. `hidden`: operands behind the others that run() does without, such as a shape."""
        named = [self.named(value) if value is not None else None for value in operands]
        names = [value.name if value is not None else "" for value in named]
        name = self._unique(self._base())
        results = [name if number == 0 else f"{name}:{number}" for number in range(len(shapes))]
        self.graph.add(type, names + [value.name for value in hidden],
                       list((attributes or {}).items()), name, results)
        self.ops.append(LocalOp(name, tuple(names), tuple(results), run, tuple(whole),
                                self.node.name))
        return [Value(result, tuple(shape), dtype)
                for result, shape, dtype in zip(results, shapes, dtypes, strict=True)]
