# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pooling. A part of the result reads a window of the operand, halo included; what the
window lacks at the border is padding."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from partita.torch.aten.table import aten, meta, one, row
from partita.torch.builder import Builder, Part, Value


def _window(part: Part, x: torch.Tensor, kernel: Sequence[int], strides: Sequence[int],
            pads: Sequence[int], dilations: Sequence[int],
            fill: float) -> tuple[torch.Tensor, list[int]]:
    """What the part reads, and by how much the kernel has to pad it at both ends of each dim. What is to
    be padded at one end alone is padded here, which takes a copy."""
    padding: list[int] = []
    of_kernel = []
    for axis, (k, s, p, d) in enumerate(zip(kernel, strides, pads, dilations, strict=True)):
        dim = axis + 2
        (begin, end), = part.results[0][dim]
        (held, held_end), = part.operands[0][dim]
        first, last = begin * s - p, (end - 1) * s - p + (k - 1) * d + 1
        low, high = max(first, held), min(last, held_end)
        x = x.narrow(dim, low - held, high - low)
        both = low - first if low - first == last - high else 0
        of_kernel.append(both)
        padding = [low - first - both, last - high - both, *padding]
    return (F.pad(x, padding, value=fill) if any(padding) else x), of_kernel


def _spread(values: Sequence[int] | int, count: int) -> list[int]:
    values = [values] if isinstance(values, int) else list(values)
    return values * count if len(values) == 1 else values


_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@row(aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.conv1d.padding,
      aten.conv2d.padding)
def _conv(b: Builder, x: Value, weight: Value, bias: Value | None = None, stride: Any = 1,
          padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Value:
    dims = len(x.shape) - 2
    kernel = list(weight.shape[2:])
    strides, dilations = _spread(stride, dims), _spread(dilation, dims)
    if padding == "valid":
        padding = 0
    elif padding == "same":
        if any((k - 1) * d % 2 for k, d in zip(kernel, dilations, strict=True)):
            raise b.fail("padding that differs at both ends is not applied by parts. Pad explicitly.")
        padding = [(k - 1) * d // 2 for k, d in zip(kernel, dilations, strict=True)]
    pads = _spread(padding, dims)
    function = _CONV[dims]

    def run(part: Part, x: torch.Tensor, weight: torch.Tensor,
            bias: torch.Tensor | None = None) -> torch.Tensor:
        x, left = _window(part, x, kernel, strides, pads, dilations, 0)
        local_groups = 1 if groups == 1 else x.shape[1] // weight.shape[1]
        return function(x, weight, bias, strides, left, dilations, local_groups)

    operands = [x, weight] + ([bias] if bias is not None else [])
    return one(b, "Conv", operands, run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "dilations": dilations, "group": groups})


@row(aten.conv_transpose2d.input)
def _conv_transpose(b: Builder, x: Value, weight: Value, bias: Value | None = None, stride: Any = 1,
                    padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                    dilation: Any = 1) -> Value:
    if groups != 1 or any(_spread(output_padding, 2)):
        raise b.fail("transposed convolutions in groups, or with output padding, are not applied by "
                     "parts. Write it with another layer.")
    strides, pads, dilations = (_spread(each, 2) for each in (stride, padding, dilation))

    def run(part: Part, x: torch.Tensor, weight: torch.Tensor,
            bias: torch.Tensor | None = None) -> torch.Tensor:
        # Whatever of the result the held rows reach, of which the part is a window.
        y = F.conv_transpose2d(x, weight, bias, strides, 0, 0, 1, dilations)
        for axis in range(2):
            dim = axis + 2
            (begin, end), = part.results[0][dim]
            held = part.operands[0][dim][0][0]
            first = begin + pads[axis] - held * strides[axis]
            y = y.narrow(dim, first, end - begin)
        return y

    operands = [x, weight] + ([bias] if bias is not None else [])
    return one(b, "ConvTranspose", operands, run,
                attributes={"kernel_shape": list(weight.shape[2:]), "strides": strides,
                            "pads": pads * 2, "dilations": dilations})


@row(aten.max_pool2d.default)
def _max_pool(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0,
              dilation: Any = 1, ceil_mode: bool = False) -> Value:
    if ceil_mode:
        raise b.fail("ceil_mode is not applied by parts. Pad the input instead.")
    kernel, pads, dilations = _spread(kernel, 2), _spread(padding, 2), _spread(dilation, 2)
    strides = _spread(stride, 2) if stride else kernel

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        x, left = _window(part, x, kernel, strides, pads, dilations, -math.inf)
        return F.max_pool2d(x, kernel, strides, left, dilations)

    return one(b, "MaxPool", [x], run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "dilations": dilations})


def _average(b: Builder, x: Value, kernel: list[int], strides: list[int], pads: list[int]) -> Value:
    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        x, left = _window(part, x, kernel, strides, pads, [1, 1], 0)
        return F.avg_pool2d(x, kernel, strides, left)

    return one(b, "AveragePool", [x], run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "count_include_pad": 1})


@row(aten.avg_pool2d.default)
def _avg_pool(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0,
              ceil_mode: bool = False, count_padding: bool = True, divisor: int | None = None) -> Value:
    kernel, pads = _spread(kernel, 2), _spread(padding, 2)
    if ceil_mode or divisor is not None or (any(pads) and not count_padding):
        raise b.fail("ceil_mode, divisors and uncounted padding are not applied by parts. Leave them "
                     "out.")
    return _average(b, x, kernel, _spread(stride, 2) if stride else kernel, pads)


@row(aten.adaptive_avg_pool2d.default)
def _adaptive_pool(b: Builder, x: Value, size: Any) -> Value:
    wanted, held = _spread(size, 2), list(x.shape[2:])
    if wanted == [1, 1]:
        total = math.prod(held)
        return one(b, "GlobalAveragePool", [x],
                    lambda part, x: x.sum(dim=(2, 3), keepdim=True) / total)
    if any(have % want for have, want in zip(held, wanted, strict=True)):
        raise b.fail(f"pooling of {held} into {wanted} windows of several sizes is not applied by "
                     "parts. Use sizes that divide.")
    kernel = [have // want for have, want in zip(held, wanted, strict=True)]
    return _average(b, x, kernel, kernel, [0, 0])


@row(aten.upsample_nearest2d.vec)
def _upsample(b: Builder, x: Value, size: Any, factors: Any = None) -> Value:
    shape = tuple(meta(b).shape)
    if any(new % old for new, old in zip(shape[2:], x.shape[2:], strict=True)):
        raise b.fail("nearest neighbours at fractions are not applied by parts. Use whole factors.")
    times = [new // old for new, old in zip(shape[2:], x.shape[2:], strict=True)]

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        for axis, factor in enumerate(times):
            dim = axis + 2
            (begin, end), = part.results[0][dim]
            held = part.operands[0][dim][0][0]
            x = x.index_select(dim, torch.arange(begin, end, device=x.device) // factor - held)
        return x

    return one(b, "Resize", [x, None, None], lambda part, x, roi, scales: run(part, x),
                hidden=[b.integers(shape)],
                attributes={"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                    "nearest_mode": "floor"})
