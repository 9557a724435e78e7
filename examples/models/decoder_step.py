#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes an ONNX file of the step in which a Llama-like decoder makes one token from its cache of keys
and values, without weights: they are named as external data that is not there. Dims batch and past
stay symbolic; the caches are inputs and, one token longer, outputs.

    decoder_step.py -o llama-3-8b-decode.onnx

Dims that are not said are Llama 3 8B's. Needs the package onnx.
"""
import argparse
import pathlib

import onnx
from moe_transformer import Writer, gated
from onnx import TensorProto, helper


def attention(w, a, p, x, i):
    head = a.hidden // a.heads

    def turned(name, of, heads):
        by_head = w.heads(f"{p}/{name}", of, heads, head)
        return w.op("RotaryEmbedding", f"{p}/{name}/rotary", by_head, "cos", "sin")

    q = turned("query", w.linear(p + ".query", x, a.hidden, a.hidden), a.heads)
    k = turned("key", w.linear(p + ".key", x, a.hidden, a.kv_heads * head), a.kv_heads)
    v = w.heads(p + "/value", w.linear(p + ".value", x, a.hidden, a.kv_heads * head), a.kv_heads, head)
    y = f"{p}/Attention"
    w.nodes.append(helper.make_node(
        "Attention", [q, k, v, "", f"past_key.{i}", f"past_value.{i}"],
        [y, f"key.{i}", f"value.{i}"], name=y, scale=head**-0.5))
    y = w.op("Transpose", p + "/by_position", y, perm=[0, 2, 1, 3])
    y = w.op("Reshape", p + "/merged", y, w.integers(0, 0, a.hidden))
    return w.linear(p + ".out", y, a.hidden, a.hidden)


def build(a, name):
    w = Writer(name, "bfloat16")
    head = a.hidden // a.heads
    x = w.op("Gather", "embedding/Gather", w.weight("embedding.weight", a.vocabulary, a.hidden), "token")
    inputs = [helper.make_tensor_value_info("token", TensorProto.INT64, ["batch", 1])]
    inputs += [helper.make_tensor_value_info(of, w.dtype, ["batch", 1, head // 2]) for of in ("cos", "sin")]
    outputs = []
    for i in range(a.layers):
        p = f"layers.{i}"
        for of in ("key", "value"):
            inputs.append(helper.make_tensor_value_info(
                f"past_{of}.{i}", w.dtype, ["batch", a.kv_heads, "past", head]))
            outputs.append(helper.make_tensor_value_info(
                f"{of}.{i}", w.dtype, ["batch", a.kv_heads, None, head]))
        y = attention(w, a, p + "/attention", w.norm(p + "/attention_norm", x, a.hidden), i)
        x = w.op("Add", p + "/attention_residual", x, y)
        y = w.norm(p + "/mlp_norm", x, a.hidden)
        gate = w.weight(p + "/mlp.gate.weight", a.hidden, a.ffn)
        up = w.weight(p + "/mlp.up.weight", a.hidden, a.ffn)
        y = w.linear(p + "/mlp.down", gated(w, p + "/mlp", y, gate, up), a.ffn, a.hidden)
        x = w.op("Add", p + "/mlp_residual", x, y)
    x = w.op("MatMul", "logits", w.norm("final_norm", x, a.hidden), w.weight("head.weight", a.hidden, a.vocabulary))
    outputs.insert(0, helper.make_tensor_value_info(x, w.dtype, ["batch", 1, a.vocabulary]))
    graph = helper.make_graph(w.nodes, name, inputs, outputs, w.weights + list(w.constants.values()))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11,
                             producer_name="decoder_step")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("layers", 32), ("hidden", 4096), ("heads", 32), ("kv-heads", 8), ("ffn", 14336),
                          ("vocabulary", 128256)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    a = parser.parse_args()
    onnx.save(build(a, a.output.stem), a.output)


if __name__ == "__main__":
    main()
