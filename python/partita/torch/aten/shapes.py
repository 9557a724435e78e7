# SPDX-License-Identifier: Apache-2.0
"""Calls that move elements: views, concatenations, slices, the largest ones."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from partita.torch.aten.table import aten, cast, meta, one, row
from partita.torch.builder import Builder, Part, Value


def reshape(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    if x.shape == shape:
        return x
    return b.emit("Reshape", [x], lambda part, x: x.reshape(part.shape()), [shape], [x.dtype],
                  hidden=[b.integers(shape)])[0]


@row(aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.flatten.using_ints,
      aten.unflatten.int, aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default,
      aten.unsqueeze.default)
def _view(b: Builder, x: Value, *args: Any) -> Value:
    return reshape(b, x, tuple(meta(b).shape))


def _expanded(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    if x.shape == shape:
        return x
    return b.emit("Expand", [x], lambda part, x: x.expand(part.shape()), [shape], [x.dtype],
                  hidden=[b.integers(shape)])[0]


@row(aten.broadcast_tensors.default)
def _broadcast(b: Builder, tensors: list[Value]) -> list[Value]:
    return [_expanded(b, each, tuple(result.shape))
            for each, result in zip(tensors, b.node.meta["val"], strict=True)]


@row(aten.expand.default)
def _expand(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    return _expanded(b, x, tuple(meta(b).shape))


def transposed(b: Builder, x: Value, order: list[int]) -> Value:
    shape = tuple(x.shape[dim] for dim in order)
    return b.emit("Transpose", [x], lambda part, x: x.permute(order), [shape], [x.dtype],
                  attributes={"perm": order})[0]


@row(aten.permute.default)
def _permute(b: Builder, x: Value, dims: list[int]) -> Value:
    return transposed(b, x, [dim % len(x.shape) for dim in dims])


@row(aten.transpose.int)
def _transpose(b: Builder, x: Value, first: int, second: int) -> Value:
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return transposed(b, x, order)


@row(aten.t.default, aten.numpy_T.default)
def _t(b: Builder, x: Value) -> Value:
    return transposed(b, x, list(range(len(x.shape)))[::-1])


def joined(tensors: Sequence[torch.Tensor | None], dim: int) -> torch.Tensor:
    """Of each what the part of the result has of it."""
    held = [each for each in tensors if each is not None and each.shape[dim] > 0]
    return torch.cat(held, dim)


@row(aten.cat.default)
def _cat(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    dtype = meta(b).dtype
    dim %= len(meta(b).shape)
    return one(b, "Concat", [cast(b, each, dtype) for each in tensors],
                lambda part, *tensors: joined(tensors, dim), attributes={"axis": dim})


@row(aten.stack.default)
def _stack(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    shape = tuple(meta(b).shape)
    dim %= len(shape)
    slim = tuple(1 if d == dim else extent for d, extent in enumerate(shape))
    rows = [reshape(b, each, slim) for each in tensors]
    return one(b, "Concat", rows, lambda part, *tensors: joined(tensors, dim),
                attributes={"axis": dim})


def _split(b: Builder, x: Value, sizes: list[int], dim: int) -> list[Value]:
    dim %= len(x.shape)
    if len(sizes) == 1:
        return [x]
    shapes = [x.shape[:dim] + (size,) + x.shape[dim + 1:] for size in sizes]

    def run(part: Part, x: torch.Tensor) -> Sequence[torch.Tensor]:
        return torch.split(x, [part.shape(i)[dim] for i in range(len(sizes))], dim)

    return b.emit("Split", [x], run, shapes, [x.dtype] * len(sizes), attributes={"axis": dim},
                  hidden=[b.integers(sizes)])


@row(aten.split.Tensor)
def _split_tensor(b: Builder, x: Value, size: int, dim: int = 0) -> list[Value]:
    extent = x.shape[dim]
    return _split(b, x, [min(size, extent - begin) for begin in range(0, extent, size)], dim)


@row(aten.chunk.default)
def _chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return _split_tensor(b, x, -(-x.shape[dim] // chunks), dim)


@row(aten.split_with_sizes.default, aten.split.sizes)
def _split_sizes(b: Builder, x: Value, sizes: list[int], dim: int = 0) -> list[Value]:
    return _split(b, x, list(sizes), dim)


def sliced(b: Builder, x: Value, dim: int, start: int, stop: int, step: int) -> Value:
    length = max(0, -(-(stop - start) // step))
    shape = x.shape[:dim] + (length,) + x.shape[dim + 1:]

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        (begin, end), = part.results[0][dim]
        held = part.operands[0][dim][0][0]
        first = start + step * begin - held
        picked = [slice(None)] * x.dim()
        picked[dim] = slice(first, first + step * (end - begin - 1) + 1, step)
        return x[tuple(picked)]

    return b.emit("Slice", [x], run, [shape], [x.dtype],
                  hidden=[b.integers([start]), b.integers([stop]), b.integers([dim]),
                          b.integers([step])])[0]


@row(aten.slice.Tensor)
def _slice(b: Builder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None,
           step: int = 1) -> Value:
    dim %= len(x.shape)
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    if (first, last, step) == (0, x.shape[dim], 1):
        return x
    return sliced(b, x, dim, first, last, step)


@row(aten.select.int)
def _select(b: Builder, x: Value, dim: int, index: int) -> Value:
    dim %= len(x.shape)
    index %= x.shape[dim]
    row = x if x.shape[dim] == 1 else sliced(b, x, dim, index, index + 1, 1)
    return reshape(b, row, tuple(meta(b).shape))


@row(aten.topk.default)
def _topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True,
          ordered: bool = True) -> list[Value]:
    dim %= len(x.shape)
    values, indices = b.node.meta["val"]
    return b.emit("TopK", [x], lambda part, x: torch.topk(x, k, dim, largest, ordered),
                  [tuple(values.shape), tuple(indices.shape)], [x.dtype, torch.int64],
                  hidden=[b.integers([k])], whole=[(0, dim)],
                  attributes={"axis": dim, "largest": int(largest), "sorted": int(ordered)})


@row(aten._assert_tensor_metadata.default, aten._assert_scalar.default)
def _assert(b: Builder, *args: Any, **kwargs: Any) -> None:
    return None
