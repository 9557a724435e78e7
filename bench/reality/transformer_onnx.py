#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX file of a decoder-only transformer of any size, without weights.

Weights are named as external data that is not there.

    transformer_onnx.py gpt   --layers 24 --hidden 2048 --heads 16 --vocab 51200 -o gpt.onnx
    transformer_onnx.py llama --layers 80 --hidden 8192 --heads 64 --kv-heads 8 --ffn 28672 \\
        --vocab 128256 -o llama.onnx

gpt: LayerNormalization, learned positions, biases, fused QKV projection, Gelu, output tied to the
embedding (--untied: not).
llama: RMSNormalization, RotaryEmbedding, grouped queries, SwiGLU, untied.
--attention op: one Attention node (operator set 23); products: the MatMul, Softmax, MatMul that
older exporters write.
Dims batch and sequence stay symbolic. Needs the packages onnx and numpy.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper

TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16,
         "bfloat16": TensorProto.BFLOAT16}


class Writer:
    """Collects nodes and weights."""

    def __init__(self, options):
        self.options, self.nodes, self.weights, self.inline = options, [], [], []
        self.offset = 0
        self.dtype = TYPES[options.dtype]
        self.size = 4 if options.dtype == "float32" else 2

    def weight(self, name, *shape):
        """The name of a new weight, whose bytes begin at a multiple of 4096."""
        tensor = TensorProto(name=name, data_type=self.dtype, dims=shape,
                             data_location=TensorProto.EXTERNAL)
        length = int(np.prod(shape)) * self.size
        for key, value in (("location", self.options.name + ".weights"),
                           ("offset", self.offset), ("length", length)):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        self.offset += -(-length // 4096) * 4096
        self.weights.append(tensor)
        return name

    def integers(self, name, values):
        """The name of a new constant."""
        self.inline.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def op(self, kind, inputs, name, outputs=1, **attributes):
        """The output of a new node, or a list of them."""
        out = [name + (f"_{i}" if outputs > 1 else "") for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, out, name=name, **attributes))
        return out[0] if outputs == 1 else out


def linear(w, x, name, n_in, n_out, bias):
    """A product with a weight, and a bias."""
    y = w.op("MatMul", [x, w.weight(name + ".weight", n_in, n_out)], name + "/MatMul")
    return w.op("Add", [y, w.weight(name + ".bias", n_out)], name + "/Add") if bias else y


def split_heads(w, x, prefix, name, heads, dim):
    """[batch, sequence, heads x dim] as heads, keys transposed."""
    shape = w.integers(f"{prefix}/{name}_shape", [0, 0, heads, dim])
    y = w.op("Reshape", [x, shape], f"{prefix}/{name}_heads")
    order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
    return w.op("Transpose", [y], f"{prefix}/{name}_transposed", perm=order)


def attention(w, q, k, v, prefix, heads, kv_heads, dim):
    """Causal attention, one node or its products."""
    if w.options.attention == "op":
        return w.op("Attention", [q, k, v], prefix + "/Attention", is_causal=1, q_num_heads=heads,
                    kv_num_heads=kv_heads, scale=dim ** -0.5)
    if kv_heads != heads:
        raise SystemExit("--attention products needs as many kv heads as heads")
    q, k, v = (split_heads(w, x, prefix, n, heads, dim) for x, n in ((q, "q"), (k, "k"), (v, "v")))
    s = w.op("MatMul", [q, k], prefix + "/scores")
    s = w.op("Mul", [s, "scale"], prefix + "/scaled")
    s = w.op("Add", [s, "mask"], prefix + "/masked")
    s = w.op("Softmax", [s], prefix + "/Softmax", axis=-1)
    c = w.op("MatMul", [s, v], prefix + "/context")
    c = w.op("Transpose", [c], prefix + "/context_transposed", perm=[0, 2, 1, 3])
    shape = w.integers(prefix + "/context_shape", [0, 0, heads * dim])
    return w.op("Reshape", [c, shape], prefix + "/merged")


def norm(w, x, name):
    """The family's norm."""
    weight = w.weight(name + ".weight", w.options.hidden)
    if w.options.family == "llama":
        return w.op("RMSNormalization", [x, weight], name, axis=-1, epsilon=1e-5)
    bias = w.weight(name + ".bias", w.options.hidden)
    return w.op("LayerNormalization", [x, weight, bias], name, axis=-1)


def embedding(w):
    """Rows of the embedding, and of positions."""
    a = w.options
    x = w.op("Gather", [w.weight("embedding.weight", a.vocab, a.hidden), "tokens"],
             "embedding/Gather", axis=0)
    if a.family == "llama":
        return x
    positions = w.weight("position.weight", a.positions, a.hidden)
    y = w.op("Gather", [positions, "positions"], "position/Gather", axis=0)
    return w.op("Add", [x, y], "embedding/Add")


def queries_keys_values(w, x, prefix):
    """The inputs of attention."""
    a = w.options
    dim = a.hidden // a.heads
    if a.family == "gpt":
        qkv = linear(w, x, prefix + "/attention.qkv", a.hidden, 3 * a.hidden, True)
        return w.op("Split", [qkv], prefix + "/qkv_split", 3, axis=-1, num_outputs=3)
    sizes = (("q", a.heads), ("k", a.kv_heads), ("v", a.kv_heads))
    q, k, v = (linear(w, x, f"{prefix}/attention.{n}", a.hidden, m * dim, False) for n, m in sizes)
    q, k = (w.op("RotaryEmbedding", [t, "cos", "sin"], f"{prefix}/rotary_{n}", num_heads=m)
            for t, n, m in ((q, "q", a.heads), (k, "k", a.kv_heads)))
    return q, k, v


def feed_forward(w, x, prefix):
    """GELU between two products, or SwiGLU."""
    a = w.options
    if a.family == "gpt":
        y = linear(w, x, prefix + "/mlp.up", a.hidden, a.ffn, True)
        y = w.op("Gelu", [y], prefix + "/mlp/Gelu", approximate="tanh")
        return linear(w, y, prefix + "/mlp.down", a.ffn, a.hidden, True)
    g = linear(w, x, prefix + "/mlp.gate", a.hidden, a.ffn, False)
    g = w.op("Mul", [g, w.op("Sigmoid", [g], prefix + "/mlp/Sigmoid")], prefix + "/mlp/silu")
    up = linear(w, x, prefix + "/mlp.up", a.hidden, a.ffn, False)
    y = w.op("Mul", [g, up], prefix + "/mlp/Mul")
    return linear(w, y, prefix + "/mlp.down", a.ffn, a.hidden, False)


def layer(w, x, prefix):
    """One layer."""
    a = w.options
    q, k, v = queries_keys_values(w, norm(w, x, prefix + "/attention_norm"), prefix)
    y = attention(w, q, k, v, prefix + "/attention", a.heads, a.kv_heads, a.hidden // a.heads)
    y = linear(w, y, prefix + "/attention.out", a.hidden, a.hidden, a.family == "gpt")
    x = w.op("Add", [x, y], prefix + "/attention_residual")
    y = feed_forward(w, norm(w, x, prefix + "/mlp_norm"), prefix)
    return w.op("Add", [x, y], prefix + "/mlp_residual")


def inputs_of(w):
    """Inputs of the graph."""
    a, info = w.options, helper.make_tensor_value_info
    inputs = [info("tokens", TensorProto.INT64, ["batch", "sequence"])]
    if a.family == "llama":
        half = a.hidden // a.heads // 2
        return inputs + [info(n, w.dtype, ["batch", "sequence", half]) for n in ("cos", "sin")]
    inputs.append(info("positions", TensorProto.INT64, ["sequence"]))
    if a.attention == "products":
        inputs.append(info("mask", w.dtype, ["sequence", "sequence"]))
        scale = (a.hidden // a.heads) ** -0.5
        w.inline.append(helper.make_tensor("scale", w.dtype, [], [scale]))
    return inputs


def build(a):
    """The model."""
    w = Writer(a)
    x = embedding(w)
    for i in range(a.layers):
        x = layer(w, x, f"layers.{i}")
    x = norm(w, x, "final_norm")
    if a.family == "llama" or a.untied:
        head = w.weight("head.weight", a.hidden, a.vocab)
    else:
        head = w.op("Transpose", ["embedding.weight"], "head/Transpose", perm=[1, 0])
    w.op("MatMul", [x, head], "logits")
    logits = helper.make_tensor_value_info("logits", w.dtype, ["batch", "sequence", a.vocab])
    graph = helper.make_graph(w.nodes, a.name, inputs_of(w), [logits], w.weights + w.inline)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11,
                             producer_name="transformer_onnx")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("family", choices=["gpt", "llama"])
    for name, default in (("layers", 2), ("hidden", 256), ("heads", 4), ("kv-heads", 0),
                          ("ffn", 0), ("vocab", 1024), ("positions", 2048)):
        p.add_argument("--" + name, type=int, default=default)
    p.add_argument("--attention", choices=["op", "products"], default="op")
    p.add_argument("--dtype", choices=list(TYPES), default="float32")
    p.add_argument("--untied", action="store_true")
    p.add_argument("-o", required=True)
    a = p.parse_args()
    a.name = a.o.split("/")[-1].removesuffix(".onnx")
    a.kv_heads, a.ffn = a.kv_heads or a.heads, a.ffn or 4 * a.hidden
    onnx.save_model(build(a), a.o)


if __name__ == "__main__":
    main()
