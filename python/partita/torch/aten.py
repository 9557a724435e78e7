# SPDX-License-Identifier: Apache-2.0
"""ATen calls as operators of ONNX: what a call is called there, and what it does to local parts.

A row of TABLE takes the builder and the call's arguments, tensors as Value, and returns the call's
results. What it emits runs on parts as the rule of the ONNX operator cuts them (graph/operators): a
MatMul on rows, columns, or a share of the sum; a Reshape on what its result's part is made of.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from partita.torch.capture import Builder, Part, Value
from partita.torch.regions import count

TABLE: dict[Any, Callable[..., Any]] = {}
_ops = torch.ops.aten


def _row(*targets: Any) -> Callable:
    def register(lower: Callable) -> Callable:
        for target in targets:
            TABLE[target] = lower
        return lower
    return register


def _meta(b: Builder) -> torch.Tensor:
    return b.node.meta["val"]


def _one(b: Builder, type: str, operands: Sequence[Value | None], run: Callable, **more: Any) -> Value:
    """One op with the shape and type of the call's result."""
    meta = _meta(b)
    return b.emit(type, operands, run, [tuple(meta.shape)], [meta.dtype], **more)[0]


def _cast(b: Builder, x: Value, dtype: torch.dtype) -> Value:
    if x.dtype == dtype:
        return x
    if x.constant is not None and not x.name:
        return Value("", x.shape, dtype, x.constant.to(dtype))
    number = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int16: 5, torch.int32: 6,
              torch.int64: 7, torch.bool: 9, torch.float16: 10, torch.float64: 11,
              torch.bfloat16: 16}[dtype]
    return b.emit("Cast", [x], lambda part, x: x.to(dtype), [x.shape], [dtype],
                  attributes={"to": number})[0]


def _scalar(value: float | int | bool, dtype: torch.dtype) -> Value:
    return Value("", (), dtype, torch.tensor(value, dtype=dtype))


# Elementwise.

def _operands(b: Builder, x: Any, y: Any, dtype: torch.dtype) -> list[Value]:
    """Both of that type, numbers as scalars."""
    return [_cast(b, each, dtype) if isinstance(each, Value) else _scalar(each, dtype)
            for each in (x, y)]


def _binary(type: str, function: Callable) -> Callable:
    def lower(b: Builder, x: Value, y: Any) -> Value:
        operands = _operands(b, x, y, _meta(b).dtype)
        return _one(b, type, operands, lambda part, x, y: function(x, y))
    return lower


def _compare(type: str, function: Callable) -> Callable:
    def lower(b: Builder, x: Value, y: Any) -> Value:
        y_type = y.dtype if isinstance(y, Value) else (
            torch.float32 if isinstance(y, float) and not x.dtype.is_floating_point else x.dtype)
        operands = _operands(b, x, y, torch.promote_types(x.dtype, y_type))
        return _one(b, type, operands, lambda part, x, y: function(x, y))
    return lower


for _targets, _type, _function in [
        ((_ops.mul.Tensor, _ops.mul.Scalar), "Mul", torch.mul),
        ((_ops.div.Tensor, _ops.div.Scalar), "Div", torch.div),
        ((_ops.pow.Tensor_Scalar, _ops.pow.Tensor_Tensor), "Pow", torch.pow),
        ((_ops.maximum.default,), "Max", torch.maximum),
        ((_ops.minimum.default,), "Min", torch.minimum),
        ((_ops.logical_and.default, _ops.bitwise_and.Tensor, _ops.__and__.Tensor), "And",
         torch.logical_and),
        ((_ops.logical_or.default, _ops.bitwise_or.Tensor, _ops.__or__.Tensor), "Or",
         torch.logical_or)]:
    _row(*_targets)(_binary(_type, _function))
for _targets, _type, _function in [
        ((_ops.eq.Tensor, _ops.eq.Scalar), "Equal", torch.eq),
        ((_ops.gt.Tensor, _ops.gt.Scalar), "Greater", torch.gt),
        ((_ops.ge.Tensor, _ops.ge.Scalar), "GreaterOrEqual", torch.ge),
        ((_ops.lt.Tensor, _ops.lt.Scalar), "Less", torch.lt),
        ((_ops.le.Tensor, _ops.le.Scalar), "LessOrEqual", torch.le)]:
    _row(*_targets)(_compare(_type, _function))


def _scaled(b: Builder, y: Any, alpha: float) -> Any:
    if alpha == 1:
        return y
    if not isinstance(y, Value):
        return y * alpha
    return b.emit("Mul", [y, _scalar(alpha, y.dtype)], lambda part, y, c: y * c, [y.shape],
                  [y.dtype])[0]


@_row(_ops.add_.Tensor)
def _count(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    if isinstance(y, Value) or x.name not in b.buffers:
        raise b.fail("a tensor is changed in place. Write x = x + y.")
    b.counters.append((x.name, y * alpha))
    return x


@_row(_ops.add.Tensor, _ops.add.Scalar)
def _add(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, x, _scaled(b, y, alpha), _meta(b).dtype)
    return _one(b, "Add", operands, lambda part, x, y: x + y)


@_row(_ops.sub.Tensor, _ops.sub.Scalar)
def _sub(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, x, _scaled(b, y, alpha), _meta(b).dtype)
    return _one(b, "Sub", operands, lambda part, x, y: x - y)


@_row(_ops.rsub.Scalar, _ops.rsub.Tensor)
def _rsub(b: Builder, x: Value, y: Any, alpha: float = 1) -> Value:
    operands = _operands(b, y, _scaled(b, x, alpha), _meta(b).dtype)
    return _one(b, "Sub", operands, lambda part, x, y: x - y)


def _unary(type: str, function: Callable, **attributes: Any) -> Callable:
    def lower(b: Builder, x: Value) -> Value:
        x = _cast(b, x, _meta(b).dtype)
        return _one(b, type, [x], lambda part, x: function(x), attributes=attributes)
    return lower


for _target, _type, _function in [
        (_ops.relu.default, "Relu", torch.relu), (_ops.relu_.default, "Relu", torch.relu),
        (_ops.sigmoid.default, "Sigmoid", torch.sigmoid), (_ops.tanh.default, "Tanh", torch.tanh),
        (_ops.exp.default, "Exp", torch.exp), (_ops.log.default, "Log", torch.log),
        (_ops.sqrt.default, "Sqrt", torch.sqrt), (_ops.neg.default, "Neg", torch.neg),
        (_ops.abs.default, "Abs", torch.abs), (_ops.erf.default, "Erf", torch.erf),
        (_ops.sin.default, "Sin", torch.sin), (_ops.cos.default, "Cos", torch.cos),
        (_ops.reciprocal.default, "Reciprocal", torch.reciprocal),
        (_ops.logical_not.default, "Not", torch.logical_not),
        (_ops.bitwise_not.default, "Not", torch.logical_not),
        (_ops.softplus.default, "Softplus", F.softplus), (_ops.floor.default, "Floor", torch.floor)]:
    _row(_target)(_unary(_type, _function))


@_row(_ops.rsqrt.default)
def _rsqrt(b: Builder, x: Value) -> Value:
    root = b.emit("Sqrt", [x], lambda part, x: torch.sqrt(x), [x.shape], [x.dtype])[0]
    return _one(b, "Reciprocal", [root], lambda part, x: torch.reciprocal(x))


@_row(_ops.gelu.default)
def _gelu(b: Builder, x: Value, approximate: str = "none") -> Value:
    return _one(b, "Gelu", [x], lambda part, x: F.gelu(x, approximate=approximate),
                attributes={"approximate": approximate})


@_row(_ops.silu.default, _ops.silu_.default)
def _silu(b: Builder, x: Value) -> Value:
    gate = b.emit("Sigmoid", [x], lambda part, x: torch.sigmoid(x), [x.shape], [x.dtype])[0]
    return _one(b, "Mul", [x, gate], lambda part, x, gate: x * gate)


@_row(_ops.leaky_relu.default)
def _leaky_relu(b: Builder, x: Value, slope: float = 0.01) -> Value:
    return _one(b, "LeakyRelu", [x], lambda part, x: F.leaky_relu(x, slope),
                attributes={"alpha": float(slope)})


@_row(_ops.where.self)
def _where(b: Builder, condition: Value, x: Value, y: Value) -> Value:
    dtype = _meta(b).dtype
    return _one(b, "Where", [condition, _cast(b, x, dtype), _cast(b, y, dtype)],
                lambda part, condition, x, y: torch.where(condition, x, y))


@_row(_ops.masked_fill.Scalar, _ops.masked_fill.Tensor)
def _masked_fill(b: Builder, x: Value, mask: Value, value: Any) -> Value:
    other = value if isinstance(value, Value) else _scalar(value, x.dtype)
    return _one(b, "Where", [mask, other, x],
                lambda part, mask, other, x: torch.where(mask, other, x))


@_row(_ops.to.dtype, _ops._to_copy.default, _ops.to.dtype_layout, _ops.type_as.default)
def _to(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    return _cast(b, x, _meta(b).dtype)


@_row(_ops.contiguous.default, _ops.clone.default, _ops.alias.default, _ops.lift_fresh_copy.default)
def _same(b: Builder, x: Value, **kwargs: Any) -> Value:
    return x


@_row(_ops.dropout.default)
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
    return _one(b, "Dropout", [x], run,
                hidden=[b.named(ratio), b.named(training)])


# Shapes.

def _reshape(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    if x.shape == shape:
        return x
    return b.emit("Reshape", [x], lambda part, x: x.reshape(part.shape()), [shape], [x.dtype],
                  hidden=[b.integers(shape)])[0]


@_row(_ops.view.default, _ops.reshape.default, _ops._unsafe_view.default, _ops.flatten.using_ints,
      _ops.unflatten.int, _ops.squeeze.dim, _ops.squeeze.dims, _ops.squeeze.default,
      _ops.unsqueeze.default)
def _view(b: Builder, x: Value, *args: Any) -> Value:
    return _reshape(b, x, tuple(_meta(b).shape))


def _expanded(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    if x.shape == shape:
        return x
    return b.emit("Expand", [x], lambda part, x: x.expand(part.shape()), [shape], [x.dtype],
                  hidden=[b.integers(shape)])[0]


@_row(_ops.broadcast_tensors.default)
def _broadcast(b: Builder, tensors: list[Value]) -> list[Value]:
    return [_expanded(b, each, tuple(meta.shape))
            for each, meta in zip(tensors, b.node.meta["val"], strict=True)]


@_row(_ops.expand.default)
def _expand(b: Builder, x: Value, *args: Any, **kwargs: Any) -> Value:
    return _expanded(b, x, tuple(_meta(b).shape))


def _transposed(b: Builder, x: Value, order: list[int]) -> Value:
    shape = tuple(x.shape[dim] for dim in order)
    return b.emit("Transpose", [x], lambda part, x: x.permute(order), [shape], [x.dtype],
                  attributes={"perm": order})[0]


@_row(_ops.permute.default)
def _permute(b: Builder, x: Value, dims: list[int]) -> Value:
    return _transposed(b, x, [dim % len(x.shape) for dim in dims])


@_row(_ops.transpose.int)
def _transpose(b: Builder, x: Value, first: int, second: int) -> Value:
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return _transposed(b, x, order)


@_row(_ops.t.default, _ops.numpy_T.default)
def _t(b: Builder, x: Value) -> Value:
    return _transposed(b, x, list(range(len(x.shape)))[::-1])


def _joined(tensors: Sequence[torch.Tensor | None], dim: int) -> torch.Tensor:
    """Of each what the part of the result has of it."""
    held = [each for each in tensors if each is not None and each.shape[dim] > 0]
    return torch.cat(held, dim)


@_row(_ops.cat.default)
def _cat(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    dtype = _meta(b).dtype
    dim %= len(_meta(b).shape)
    return _one(b, "Concat", [_cast(b, each, dtype) for each in tensors],
                lambda part, *tensors: _joined(tensors, dim), attributes={"axis": dim})


@_row(_ops.stack.default)
def _stack(b: Builder, tensors: list[Value], dim: int = 0) -> Value:
    shape = tuple(_meta(b).shape)
    dim %= len(shape)
    slim = tuple(1 if d == dim else extent for d, extent in enumerate(shape))
    rows = [_reshape(b, each, slim) for each in tensors]
    return _one(b, "Concat", rows, lambda part, *tensors: _joined(tensors, dim),
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


@_row(_ops.split.Tensor)
def _split_tensor(b: Builder, x: Value, size: int, dim: int = 0) -> list[Value]:
    extent = x.shape[dim]
    return _split(b, x, [min(size, extent - begin) for begin in range(0, extent, size)], dim)


@_row(_ops.chunk.default)
def _chunk(b: Builder, x: Value, chunks: int, dim: int = 0) -> list[Value]:
    return _split_tensor(b, x, -(-x.shape[dim] // chunks), dim)


@_row(_ops.split_with_sizes.default, _ops.split.sizes)
def _split_sizes(b: Builder, x: Value, sizes: list[int], dim: int = 0) -> list[Value]:
    return _split(b, x, list(sizes), dim)


def _sliced(b: Builder, x: Value, dim: int, start: int, stop: int, step: int) -> Value:
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


@_row(_ops.slice.Tensor)
def _slice(b: Builder, x: Value, dim: int = 0, start: int | None = None, end: int | None = None,
           step: int = 1) -> Value:
    dim %= len(x.shape)
    first, last, step = slice(start, end, step).indices(x.shape[dim])
    if (first, last, step) == (0, x.shape[dim], 1):
        return x
    return _sliced(b, x, dim, first, last, step)


@_row(_ops.select.int)
def _select(b: Builder, x: Value, dim: int, index: int) -> Value:
    dim %= len(x.shape)
    index %= x.shape[dim]
    row = x if x.shape[dim] == 1 else _sliced(b, x, dim, index, index + 1, 1)
    return _reshape(b, row, tuple(_meta(b).shape))


@_row(_ops.topk.default)
def _topk(b: Builder, x: Value, k: int, dim: int = -1, largest: bool = True,
          ordered: bool = True) -> list[Value]:
    dim %= len(x.shape)
    values, indices = b.node.meta["val"]
    return b.emit("TopK", [x], lambda part, x: torch.topk(x, k, dim, largest, ordered),
                  [tuple(values.shape), tuple(indices.shape)], [x.dtype, torch.int64],
                  hidden=[b.integers([k])], whole=[(0, dim)],
                  attributes={"axis": dim, "largest": int(largest), "sorted": int(ordered)})


@_row(_ops._assert_tensor_metadata.default, _ops._assert_scalar.default)
def _assert(b: Builder, *args: Any, **kwargs: Any) -> None:
    return None


@_row(_ops.lstm.input)
def _lstm(b: Builder, x: Value, states: list[Value], weights: list[Value], has_biases: bool,
          layers: int, dropout: float, train: bool, bidirectional: bool,
          batch_first: bool) -> list[Value]:
    if bidirectional or not has_biases or (dropout != 0 and train):
        raise b.fail("LSTMs of two directions, without biases or with dropout are not applied by "
                     "parts. Write them as layers of one direction.")
    y = _transposed(b, x, [1, 0, 2]) if batch_first else x
    size = weights[1].shape[1]

    def run(part: Part, x: torch.Tensor, w: torch.Tensor, r: torch.Tensor, bias: torch.Tensor,
            lengths: None, h: torch.Tensor, c: torch.Tensor) -> Any:
        b_w, b_r = bias[0].chunk(2)
        y, h, c = torch._VF.lstm(x, (h.contiguous(), c.contiguous()), [w[0], r[0], b_w, b_r], True, 1,
                                 0.0, False, False, False)
        return y.unsqueeze(1), h, c

    def of_layer(state: Value, layer: int) -> Value:
        if state.constant is not None and not state.name:
            rows = state.constant[layer:layer + 1].clone()
            return Value("", tuple(rows.shape), rows.dtype, rows)
        return state if layers == 1 else _sliced(b, state, 0, layer, layer + 1, 1)

    last: list[list[Value]] = [[], []]
    for layer in range(layers):
        w, r, b_w, b_r = weights[4 * layer:4 * layer + 4]
        bias = b.emit("Concat", [b_w, b_r], lambda part, *tensors: _joined(tensors, 0),
                      [(8 * size,)], [x.dtype], attributes={"axis": 0})[0]
        length, batch = y.shape[:2]
        operands = [y, _reshape(b, w, (1, *w.shape)), _reshape(b, r, (1, *r.shape)),
                    _reshape(b, bias, (1, 8 * size)), None, of_layer(states[0], layer),
                    of_layer(states[1], layer)]
        found, h, c = b.emit("LSTM", operands, run,
                             [(length, 1, batch, size), (1, batch, size), (1, batch, size)],
                             [x.dtype] * 3, attributes={"hidden_size": size},
                             whole=[(0, 0), (0, 3)])
        y = _reshape(b, found, (length, batch, size))
        last[0].append(h)
        last[1].append(c)
    y = _transposed(b, y, [1, 0, 2]) if batch_first else y
    h, c = (each[0] if layers == 1 else
            b.emit("Concat", each, lambda part, *tensors: _joined(tensors, 0),
                   [(layers, *each[0].shape[1:])], [x.dtype], attributes={"axis": 0})[0]
            for each in last)
    return [y, h, c]


# Products.

def _matmul(b: Builder, x: Value, y: Value, shape: tuple[int, ...]) -> Value:
    return b.emit("MatMul", [x, y], lambda part, x, y: torch.matmul(x, y), [shape], [x.dtype])[0]


def _plus(b: Builder, x: Value, bias: Value | None) -> Value:
    if bias is None:
        return x
    # Of a sum that is kept in parts one alone adds the bias.
    return b.emit("Add", [x, bias], lambda part, x, bias: x if bias is None else x + bias,
                  [x.shape], [x.dtype])[0]


@_row(_ops.linear.default)
def _linear(b: Builder, x: Value, weight: Value, bias: Value | None = None) -> Value:
    turned = weight if weight.name in b.turned else _transposed(b, weight, [1, 0])
    product = _matmul(b, x, turned, tuple(_meta(b).shape))
    return _plus(b, product, bias)


@_row(_ops.matmul.default, _ops.mm.default, _ops.bmm.default)
def _mm(b: Builder, x: Value, y: Value) -> Value:
    return _matmul(b, x, y, tuple(_meta(b).shape))


@_row(_ops.addmm.default)
def _addmm(b: Builder, bias: Value, x: Value, y: Value, *, beta: float = 1,
           alpha: float = 1) -> Value:
    product = _scaled(b, _matmul(b, x, y, tuple(_meta(b).shape)), alpha)
    return _plus(b, product, _scaled(b, bias, beta))


@_row(_ops.einsum.default)
def _einsum(b: Builder, equation: str, tensors: list[Value], path: Any = None) -> Value:
    return _one(b, "Einsum", tensors, lambda part, *tensors: torch.einsum(equation, *tensors),
                attributes={"equation": equation})


@_row(_ops.embedding.default)
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

    return _one(b, "Gather", [weight, indices], run, attributes={"axis": 0})


# Convolutions and pooling. A part of the result reads a window of the operand, halo included; what the
# window lacks at the border is padding.

def _window(part: Part, x: torch.Tensor, kernel: Sequence[int], strides: Sequence[int],
            pads: Sequence[int], dilations: Sequence[int], fill: float) -> torch.Tensor:
    """What the part reads, with its padding."""
    padding: list[int] = []
    for axis, (k, s, p, d) in enumerate(zip(kernel, strides, pads, dilations, strict=True)):
        dim = axis + 2
        (begin, end), = part.results[0][dim]
        (held, held_end), = part.operands[0][dim]
        first, last = begin * s - p, (end - 1) * s - p + (k - 1) * d + 1
        low, high = max(first, held), min(last, held_end)
        x = x.narrow(dim, low - held, high - low)
        padding = [low - first, last - high, *padding]
    return F.pad(x, padding, value=fill) if any(padding) else x


def _spread(values: Sequence[int] | int, count: int) -> list[int]:
    values = [values] if isinstance(values, int) else list(values)
    return values * count if len(values) == 1 else values


_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


@_row(_ops.conv1d.default, _ops.conv2d.default, _ops.conv3d.default, _ops.conv1d.padding,
      _ops.conv2d.padding)
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
        x = _window(part, x, kernel, strides, pads, dilations, 0)
        local_groups = 1 if groups == 1 else x.shape[1] // weight.shape[1]
        return function(x, weight, bias, strides, 0, dilations, local_groups)

    operands = [x, weight] + ([bias] if bias is not None else [])
    return _one(b, "Conv", operands, run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "dilations": dilations, "group": groups})


@_row(_ops.conv_transpose2d.input)
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
    return _one(b, "ConvTranspose", operands, run,
                attributes={"kernel_shape": list(weight.shape[2:]), "strides": strides,
                            "pads": pads * 2, "dilations": dilations})


@_row(_ops.max_pool2d.default)
def _max_pool(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0,
              dilation: Any = 1, ceil_mode: bool = False) -> Value:
    if ceil_mode:
        raise b.fail("ceil_mode is not applied by parts. Pad the input instead.")
    kernel, pads, dilations = _spread(kernel, 2), _spread(padding, 2), _spread(dilation, 2)
    strides = _spread(stride, 2) if stride else kernel

    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        x = _window(part, x, kernel, strides, pads, dilations, -math.inf)
        return F.max_pool2d(x, kernel, strides, 0, dilations)

    return _one(b, "MaxPool", [x], run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "dilations": dilations})


def _average(b: Builder, x: Value, kernel: list[int], strides: list[int], pads: list[int]) -> Value:
    def run(part: Part, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(_window(part, x, kernel, strides, pads, [1, 1], 0), kernel, strides)

    return _one(b, "AveragePool", [x], run,
                attributes={"kernel_shape": kernel, "strides": strides, "pads": pads * 2,
                            "count_include_pad": 1})


@_row(_ops.avg_pool2d.default)
def _avg_pool(b: Builder, x: Value, kernel: Any, stride: Any = (), padding: Any = 0,
              ceil_mode: bool = False, count_padding: bool = True, divisor: int | None = None) -> Value:
    kernel, pads = _spread(kernel, 2), _spread(padding, 2)
    if ceil_mode or divisor is not None or (any(pads) and not count_padding):
        raise b.fail("ceil_mode, divisors and uncounted padding are not applied by parts. Leave them "
                     "out.")
    return _average(b, x, kernel, _spread(stride, 2) if stride else kernel, pads)


@_row(_ops.adaptive_avg_pool2d.default)
def _adaptive_pool(b: Builder, x: Value, size: Any) -> Value:
    wanted, held = _spread(size, 2), list(x.shape[2:])
    if wanted == [1, 1]:
        total = math.prod(held)
        return _one(b, "GlobalAveragePool", [x],
                    lambda part, x: x.sum(dim=(2, 3), keepdim=True) / total)
    if any(have % want for have, want in zip(held, wanted, strict=True)):
        raise b.fail(f"pooling of {held} into {wanted} windows of several sizes is not applied by "
                     "parts. Use sizes that divide.")
    kernel = [have // want for have, want in zip(held, wanted, strict=True)]
    return _average(b, x, kernel, kernel, [0, 0])


@_row(_ops.upsample_nearest2d.vec)
def _upsample(b: Builder, x: Value, size: Any, factors: Any = None) -> Value:
    shape = tuple(_meta(b).shape)
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

    return _one(b, "Resize", [x, None, None], lambda part, x, roi, scales: run(part, x),
                hidden=[b.integers(shape)],
                attributes={"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                    "nearest_mode": "floor"})


# Normalization, softmax, attention.

@_row(_ops.batch_norm.default)
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

@_row(_ops.softmax.int, _ops._softmax.default)
def _softmax(b: Builder, x: Value, dim: int, *args: Any) -> Value:
    x = _cast(b, x, _meta(b).dtype)
    return _one(b, "Softmax", [x], lambda part, x: torch.softmax(x, dim),
                attributes={"axis": dim % len(x.shape)}, whole=[(0, dim % len(x.shape))])


@_row(_ops.log_softmax.int, _ops._log_softmax.default)
def _log_softmax(b: Builder, x: Value, dim: int, *args: Any) -> Value:
    x = _cast(b, x, _meta(b).dtype)
    return _one(b, "LogSoftmax", [x], lambda part, x: torch.log_softmax(x, dim),
                attributes={"axis": dim % len(x.shape)}, whole=[(0, dim % len(x.shape))])


@_row(_ops.layer_norm.default)
def _layer_norm(b: Builder, x: Value, shape: list[int], weight: Value | None = None,
                bias: Value | None = None, epsilon: float = 1e-5, *args: Any) -> Value:
    dims = len(shape)
    rank = len(x.shape)
    scale = weight or Value("", tuple(shape), x.dtype, torch.ones(tuple(shape), dtype=x.dtype))
    return _one(b, "LayerNormalization", [x, scale, bias],
                lambda part, x, weight, bias: F.layer_norm(x, x.shape[-dims:], weight, bias, epsilon),
                attributes={"axis": -dims, "epsilon": float(epsilon)},
                whole=[(0, dim) for dim in range(rank - dims, rank)])


@_row(_ops.rms_norm.default)
def _rms_norm(b: Builder, x: Value, shape: list[int], weight: Value | None = None,
              epsilon: float | None = None) -> Value:
    dims = len(shape)
    rank = len(x.shape)
    scale = weight or Value("", tuple(shape), x.dtype, torch.ones(tuple(shape), dtype=x.dtype))
    epsilon = torch.finfo(x.dtype).eps if epsilon is None else epsilon
    return _one(b, "RMSNormalization", [x, scale],
                lambda part, x, weight: F.rms_norm(x, x.shape[-dims:], weight, epsilon),
                attributes={"axis": -dims, "epsilon": float(epsilon)},
                whole=[(0, dim) for dim in range(rank - dims, rank)])


@_row(_ops.scaled_dot_product_attention.default)
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
    return _one(b, "Attention", operands, run, attributes=attributes)


# Reductions and losses. A part of a reduction is a summand: means divide by the extents of the whole.

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


@_row(_ops.mean.dim)
def _mean(b: Builder, x: Value, dims: list[int] | None, keep: bool = False, **kwargs: Any) -> Value:
    return _reduced(b, x, dims, keep, True, tuple(_meta(b).shape))


@_row(_ops.mean.default)
def _mean_all(b: Builder, x: Value, **kwargs: Any) -> Value:
    return _reduced(b, x, None, False, True, ())


@_row(_ops.sum.dim_IntList)
def _sum(b: Builder, x: Value, dims: list[int] | None, keep: bool = False, **kwargs: Any) -> Value:
    return _reduced(b, x, dims, keep, False, tuple(_meta(b).shape))


@_row(_ops.sum.default)
def _sum_all(b: Builder, x: Value, **kwargs: Any) -> Value:
    return _reduced(b, x, None, False, False, ())


_REDUCTIONS = {0: "none", 1: "mean", 2: "sum"}


@_row(_ops.mse_loss.default)
def _mse_loss(b: Builder, x: Value, y: Value, reduction: int = 1) -> Value:
    shape = tuple(torch.broadcast_shapes(x.shape, y.shape))
    difference = b.emit("Sub", [x, y], lambda part, x, y: x - y, [shape], [x.dtype])[0]
    square = b.emit("Mul", [difference, difference], lambda part, x, y: x * y, [shape],
                    [x.dtype])[0]
    if reduction == 0:
        return square
    return _reduced(b, square, None, False, reduction == 1, ())


@_row(_ops.cross_entropy_loss.default)
def _cross_entropy(b: Builder, scores: Value, labels: Value, weight: Value | None = None,
                   reduction: int = 1, ignore: int = -100, smoothing: float = 0.0) -> Value:
    if weight is not None or smoothing != 0 or labels.dtype.is_floating_point:
        raise b.fail("cross-entropy with class weights, label smoothing or probabilities is not "
                     "applied by parts. Write it with log_softmax.")
    samples = math.prod(labels.shape)
    if reduction != 0 and b.reduces_to_loss(1 / samples if reduction == 1 else 1):
        reduction = 0

    def run(part: Part, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if reduction == 0:
            return F.cross_entropy(scores, labels, ignore_index=ignore, reduction="none")
        loss = F.cross_entropy(scores, labels, ignore_index=ignore, reduction="sum")
        return loss / samples if reduction == 1 else loss

    return b.emit("SoftmaxCrossEntropyLoss", [scores, labels], run,
                  [labels.shape if reduction == 0 else ()], [scores.dtype],
                  attributes={"reduction": _REDUCTIONS[reduction]})[0]
