# SPDX-License-Identifier: Apache-2.0
"""LSTMs: one op for each layer."""
from __future__ import annotations

from typing import Any

import torch

from partita.torch.aten.shapes import joined, reshape, sliced, transposed
from partita.torch.aten.table import aten, row
from partita.torch.builder import Builder, Part, Value


@row(aten.lstm.input)
def _lstm(b: Builder, x: Value, states: list[Value], weights: list[Value], has_biases: bool,
          layers: int, dropout: float, train: bool, bidirectional: bool,
          batch_first: bool) -> list[Value]:
    if bidirectional or not has_biases or (dropout != 0 and train):
        raise b.fail("LSTMs of two directions, without biases or with dropout are not applied by "
                     "parts. Write them as layers of one direction.")
    y = transposed(b, x, [1, 0, 2]) if batch_first else x
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
        return state if layers == 1 else sliced(b, state, 0, layer, layer + 1, 1)

    last: list[list[Value]] = [[], []]
    for layer in range(layers):
        w, r, b_w, b_r = weights[4 * layer:4 * layer + 4]
        bias = b.emit("Concat", [b_w, b_r], lambda part, *tensors: joined(tensors, 0),
                      [(8 * size,)], [x.dtype], attributes={"axis": 0})[0]
        length, batch = y.shape[:2]
        operands = [y, reshape(b, w, (1, *w.shape)), reshape(b, r, (1, *r.shape)),
                    reshape(b, bias, (1, 8 * size)), None, of_layer(states[0], layer),
                    of_layer(states[1], layer)]
        found, h, c = b.emit("LSTM", operands, run,
                             [(length, 1, batch, size), (1, batch, size), (1, batch, size)],
                             [x.dtype] * 3, attributes={"hidden_size": size},
                             whole=[(0, 0), (0, 3)])
        y = reshape(b, found, (length, batch, size))
        last[0].append(h)
        last[1].append(c)
    y = transposed(b, y, [1, 0, 2]) if batch_first else y
    h, c = (each[0] if layers == 1 else
            b.emit("Concat", each, lambda part, *tensors: joined(tensors, 0),
                   [(layers, *each[0].shape[1:])], [x.dtype], attributes={"axis": 0})[0]
            for each in last)
    return [y, h, c]
