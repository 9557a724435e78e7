#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX file of a mixture-of-experts transformer of any size (DeepSeek-V2 and V3), without
weights: they are named as external data that is not there. Dims batch and sequence stay symbolic.

    moe_transformer.py --layers 4 -o deepseek-v2-4-layers.onnx

README.md beside it has the lines that wrote the files here; dims that are not said are DeepSeek-V2's.
Attention is multi-head latent attention (DeepSeek-V2, section 2.1). Experts: the router takes the
best --experts-per-token of each token; a sequence's tokens are sorted by expert and cut into equal
parts, one for each expert (the last one is filled up): routing is taken to be even. The weight of an
expert is applied between its two products. Needs the package onnx.
"""
import argparse
import math
import pathlib

import onnx
from onnx import TensorProto, helper


class Writer:
    """Nodes and weights of a graph, in order."""

    def __init__(self, name, dtype):
        self.name = name
        self.dtype = getattr(TensorProto, dtype.upper())
        self.nodes = []
        self.weights = []
        self.constants = {}
        self.offset = 0

    def weight(self, name, *shape):
        bytes_of_one = 4 if self.dtype == TensorProto.FLOAT else 2
        length = math.prod(shape) * bytes_of_one
        tensor = TensorProto(
            name=name, data_type=self.dtype, dims=shape, data_location=TensorProto.EXTERNAL
        )
        for key, value in (
            ("location", self.name + ".weights"),
            ("offset", str(self.offset)),
            ("length", str(length)),
        ):
            tensor.external_data.add(key=key, value=value)
        self.offset += -(-length // 4096) * 4096
        self.weights.append(tensor)
        return name

    def integers(self, *values):
        """A constant of one dim."""
        name = "integers." + ".".join(str(value) for value in values)
        self.constants[name] = helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
        return name

    def length(self, name, x):
        """Of dim 1, as a tensor of one number."""
        return self.op("Gather", name, self.op("Shape", name + "/shape", x), self.integers(1))

    def filled_up(self, name, x, multiple):
        """Zeros behind [b n], so that n is a multiple of that."""
        rest = self.op("Mod", name + "/over", self.length(name + "/length", x), self.integers(multiple))
        rest = self.op("Sub", name + "/lacks", self.integers(multiple), rest)
        rest = self.op("Mod", name + "/rest", rest, self.integers(multiple))
        pads = self.op("Concat", name + "/pads", self.integers(0, 0, 0), rest, axis=0)
        return self.op("Pad", name, x, pads)

    def op(self, kind, name, *inputs, outputs=1, **attributes):
        names = [name] if outputs == 1 else [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, name=name, **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, name, x, size, result):
        return self.op("MatMul", name + "/MatMul", x, self.weight(name + ".weight", size, result))

    def norm(self, name, x, size):
        weight = self.weight(name + ".weight", size)
        return self.op("RMSNormalization", name, x, weight, axis=-1, epsilon=1e-6)

    def heads(self, name, x, count, size):
        """[b s (count size)] -> [b count s size]"""
        split = self.op("Reshape", name + "/split", x, self.integers(0, 0, count, size))
        return self.op("Transpose", name + "/by_head", split, perm=[0, 2, 1, 3])


def latent_attention(w, a, p, x):
    both = a.head_size + a.rotary_size
    q = w.norm(p + ".query_norm", w.linear(p + ".query_down", x, a.hidden, a.query_rank), a.query_rank)
    q = w.heads(p + "/query", w.linear(p + ".query_up", q, a.query_rank, a.heads * both), a.heads, both)
    sizes = w.integers(a.head_size, a.rotary_size)
    plain, turned = w.op("Split", p + "/query_parts", q, sizes, outputs=2, axis=-1)
    turned = w.op("RotaryEmbedding", p + "/query_rotary", turned, "cos", "sin")
    q = w.op("Concat", p + "/queries", plain, turned, axis=-1)

    down = w.linear(p + ".key_value_down", x, a.hidden, a.key_value_rank + a.rotary_size)
    sizes = w.integers(a.key_value_rank, a.rotary_size)
    latent, turned = w.op("Split", p + "/latent_parts", down, sizes, outputs=2, axis=-1)
    turned = w.heads(p + "/key_rotary", turned, 1, a.rotary_size)
    turned = w.op("RotaryEmbedding", p + "/key_rotary", turned, "cos", "sin")
    turned = w.op("Expand", p + "/key_rotary/all_heads", turned, w.integers(1, a.heads, 1, 1))
    latent = w.norm(p + ".key_value_norm", latent, a.key_value_rank)
    up = w.linear(p + ".key_value_up", latent, a.key_value_rank, a.heads * 2 * a.head_size)
    up = w.heads(p + "/key_value", up, a.heads, 2 * a.head_size)
    sizes = w.integers(a.head_size, a.head_size)
    plain, v = w.op("Split", p + "/key_value_parts", up, sizes, outputs=2, axis=-1)
    k = w.op("Concat", p + "/keys", plain, turned, axis=-1)

    y = w.op("Attention", p + "/Attention", q, k, v, is_causal=1, scale=both**-0.5)
    y = w.op("Transpose", p + "/by_position", y, perm=[0, 2, 1, 3])
    y = w.op("Reshape", p + "/merged", y, w.integers(0, 0, a.heads * a.head_size))
    return w.linear(p + ".out", y, a.heads * a.head_size, a.hidden)


def gated(w, p, x, gate, up):
    """Silu(x gate) * (x up)"""
    g = w.op("MatMul", p + ".gate/MatMul", x, gate)
    u = w.op("MatMul", p + ".up/MatMul", x, up)
    silu = w.op("Mul", p + "/silu", g, w.op("Sigmoid", p + "/Sigmoid", g))
    return w.op("Mul", p + "/Mul", silu, u)


def dense(w, a, p, x, ffn):
    gate = w.weight(p + ".gate.weight", a.hidden, ffn)
    up = w.weight(p + ".up.weight", a.hidden, ffn)
    return w.linear(p + ".down", gated(w, p, x, gate, up), ffn, a.hidden)


def argsort(w, name, x):
    """Of the rows of [b n], of equal values the first one first."""
    return w.op("TopK", name, x, w.length(name + "/length", x), outputs=2, axis=1, largest=0)[1]


def experts(w, a, p, x):
    scores = w.linear(p + ".router", x, a.hidden, a.experts)
    scores = w.op("Softmax", p + ".router/Softmax", scores, axis=-1)
    best = w.op("TopK", p + ".router/TopK", scores, w.integers(a.experts_per_token), outputs=2, axis=-1)
    share, expert = (
        w.op("Reshape", f"{p}/{name}", of, w.integers(0, -1)) for name, of in zip(("share", "expert"), best)
    )
    # Places [b n] of n = sequence * experts_per_token by expert; each is of one token.
    place = argsort(w, p + "/order", expert)
    column = w.integers(-1)
    token = w.op("Div", p + "/token", place, w.integers(a.experts_per_token))

    def gather(name, of, index):
        return w.op("GatherND", f"{p}/{name}", of, w.op("Unsqueeze", f"{p}/{name}/index", index, column), batch_dims=1)

    def by_expert(name, of, size):  # [b n size] -> [e b n/e size]
        parts = w.op("Reshape", f"{p}/{name}/parts", of, w.integers(0, a.experts, -1, size))
        return w.op("Transpose", f"{p}/{name}/by_expert", parts, perm=[1, 0, 2, 3])

    token = w.filled_up(p + "/tokens/filled_up", token, a.experts)
    shares = w.filled_up(p + "/shares/filled_up", gather("shares", share, place), a.experts)
    tokens = by_expert("tokens", gather("dispatch", x, token), a.hidden)
    shares = by_expert("shares", shares, 1)
    gate = w.weight(p + ".experts.gate.weight", a.experts, 1, a.hidden, a.expert_ffn)
    up = w.weight(p + ".experts.up.weight", a.experts, 1, a.hidden, a.expert_ffn)
    down = w.weight(p + ".experts.down.weight", a.experts, 1, a.expert_ffn, a.hidden)
    y = w.op("Mul", p + ".experts/weighted", gated(w, p + ".experts", tokens, gate, up), shares)
    y = w.op("MatMul", p + ".experts.down/MatMul", y, down)
    y = w.op("Transpose", p + "/results/by_sequence", y, perm=[1, 0, 2, 3])
    y = w.op("Reshape", p + "/results", y, w.integers(0, -1, a.hidden))
    y = gather("combine", y, argsort(w, p + "/inverse", place))
    y = w.op("Reshape", p + "/of_tokens", y, w.integers(0, -1, a.experts_per_token, a.hidden))
    y = w.op("ReduceSum", p + "/sum", y, w.integers(2), keepdims=0)
    return w.op("Add", p + "/with_shared", y, dense(w, a, p + ".shared", x, a.shared_ffn))


def build(a, name):
    w = Writer(name, a.dtype)
    x = w.op("Gather", "embedding/Gather", w.weight("embedding.weight", a.vocabulary, a.hidden), "tokens")
    for i in range(a.layers):
        p = f"layers.{i}"
        y = latent_attention(w, a, p + "/attention", w.norm(p + "/attention_norm", x, a.hidden))
        x = w.op("Add", p + "/attention_residual", x, y)
        y = w.norm(p + "/mlp_norm", x, a.hidden)
        if i < a.dense_layers:
            y = dense(w, a, p + "/mlp", y, a.dense_ffn)
        else:
            y = experts(w, a, p + "/moe", y)
        x = w.op("Add", p + "/mlp_residual", x, y)
    head = w.weight("head.weight", a.hidden, a.vocabulary)
    x = w.op("MatMul", "logits", w.norm("final_norm", x, a.hidden), head)

    def value(of, dtype, *dims):
        return helper.make_tensor_value_info(of, dtype, ["batch", "sequence", *dims])

    inputs = [value("tokens", TensorProto.INT64)]
    inputs += [value(of, w.dtype, a.rotary_size // 2) for of in ("cos", "sin")]
    outputs = [value(x, w.dtype, a.vocabulary)]
    graph = helper.make_graph(w.nodes, name, inputs, outputs, w.weights + list(w.constants.values()))
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 23)],
        ir_version=11,
        producer_name="moe_transformer",
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = {  # of DeepSeek-V2
        "layers": 60,
        "dense-layers": 1,
        "hidden": 5120,
        "heads": 128,
        "head-size": 128,
        "rotary-size": 64,
        "query-rank": 1536,
        "key-value-rank": 512,
        "dense-ffn": 12288,
        "experts": 160,
        "experts-per-token": 6,
        "expert-ffn": 1536,
        "shared-ffn": 3072,
        "vocabulary": 102400,
    }
    for name, default in numbers.items():
        parser.add_argument("--" + name, type=int, default=default, help=f"default {default}")
    parser.add_argument("--dtype", choices=["float", "bfloat16", "float16"], default="float")
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    a = parser.parse_args()
    model = build(a, a.output.stem)
    a.output.write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
