#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of PyTorch's operators on the GPU of this host, by shape, as CSV: what fitted kernel models are made of.

    bench/gpu/operators.py OUT                 all families, in under a minute on an H200
    bench/gpu/operators.py OUT products host   these

Every operator runs from a CUDA graph, so that times are the device's, on operands that are not in its cache.
"""
import argparse
import csv
import math
import pathlib
import random
import sys
import time

import torch

import timing

ATEN = torch.ops.aten
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
EPSILON = 1e-5
SEED = 1


class Table:
    """Rows of one family, on disk as they come; what the device cannot do is counted."""

    def __init__(self, folder, name, columns):
        self._file = (folder / f"{name}.csv").open("w", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow([*columns, "time_us"])
        self.name, self.rows, self.failed = name, 0, 0

    def add(self, key, make, turns, device):
        try:
            calls = [make() for _ in range(turns)]
            value = timing.microseconds(calls, device)
        except (RuntimeError, MemoryError, NotImplementedError) as error:
            self.failed += 1
            print(f"{self.name} {key}: {str(error).splitlines()[0][:160]}", file=sys.stderr)
            return
        self._writer.writerow([*key, f"{value:.3f}"])
        self._file.flush()
        self.rows += 1


def product_shapes(draw):
    """Rows x inner x columns: layers of transformers whole and in 2 to 8 parts, and drawn ones."""
    layers = [(768, 768), (768, 2304), (768, 3072), (3072, 768), (1024, 1024), (1024, 3072), (1024, 4096), (4096, 1024),
              (2048, 2048), (2048, 8192), (8192, 2048), (4096, 4096), (4096, 6144), (4096, 14336), (4096, 28672),
              (14336, 4096), (8192, 8192), (8192, 10240), (8192, 28672), (28672, 8192), (1024, 8192), (8192, 1280),
              (8192, 3584), (3584, 8192), (4096, 512), (512, 4096), (1024, 384), (384, 1024), (256, 2048), (2048, 256)]
    shapes = [(rows, k, n) for k, n in layers for rows in (512, 2048, 8192)]
    shapes += [(rows, 768, 50304) for rows in (512, 4096, 8192)] + [(rows, 4096, 128256) for rows in (512, 2048)]
    shapes += [(rows, 4096, 4096) for rows in (1, 8, 32, 64, 128, 256, 1024, 4096, 16384)]
    for _ in range(120):
        shapes.append(tuple(64 * round(2 ** draw.uniform(0, 7.6)) for _ in range(3)))
    for _ in range(30):
        shapes.append(tuple(8 * round(2 ** draw.uniform(2, 10.5)) for _ in range(3)))
    return list(dict.fromkeys(shapes))


def unaligned_shapes():
    """Rows of a matrix begin at multiples of 16 bytes where its columns are multiples of 8 (float32: of 4)."""
    shapes = [(8192, 768, n) for n in (50256, 50257, 50258, 50260, 30522)] + [(2048, 1024, 50257), (512, 4096, 32003)]
    shapes += [(2048, 4096, n) for n in (1000, 1001, 4092, 4094, 4095)]
    shapes += [(2048, k, 4096) for k in (1001, 4092, 4094, 4095)]
    shapes += [(m, 4096, 4096) for m in (2044, 2046, 2047)]
    return shapes + [(127, 768, 768), (1023, 1024, 1023), (255, 255, 255), (8192, 771, 3073), (4095, 77, 1025)]


def run_product(a, b, out, layout):
    """TN: y = x w^T, forward; NN: dx = dy w; NT: dw = dy^T x, as BLAS names what a framework asks for."""
    if layout == "TN":
        return lambda: torch.mm(a, b.t(), out=out)
    if layout == "NN":
        return lambda: torch.mm(a, b, out=out)
    return lambda: torch.mm(a.t(), b, out=out)


def measure_products(folder, pool, draw):
    return _products(folder, "products", product_shapes(draw), pool,
                     (("bfloat16", ("TN", "NN", "NT"), 1), ("tf32", ("TN", "NN", "NT"), 2), ("float32", ("TN", "NT"), 2),
                      ("float16", ("TN",), 3)))


def measure_linear(folder, pool, _):
    """A product with its bias: as one call (addmm, as F.linear has it), as an addition behind it, and without."""
    table = Table(folder, "linear", ("type", "bias", "m", "k", "n"))
    shapes = [(rows, k, n) for k, n in ((768, 768), (768, 2304), (768, 3072), (3072, 768), (1024, 4096), (4096, 1024),
                                        (4096, 4096), (4096, 16384)) for rows in (512, 2048, 8192, 16384)]
    for kind in ("bfloat16", "tf32", "float32"):
        torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
        dtype = TYPES.get(kind, torch.float32)
        for m, k, n in shapes:
            turns = timing.turns_for(dtype.itemsize * (m * k + k * n + m * n))
            for bias in ("none", "inside", "behind"):
                def make(bias=bias, m=m, k=k, n=n, dtype=dtype):
                    x, weight, row = pool.cut((m, k), dtype), pool.cut((n, k), dtype), pool.cut((n,), dtype)
                    if bias == "inside":
                        return lambda: torch.addmm(row, x, weight.t())
                    return (lambda: torch.mm(x, weight.t()) + row) if bias == "behind" else lambda: torch.mm(x, weight.t())

                table.add((kind, bias, m, k, n), make, turns, pool.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    return table


def measure_unaligned_products(folder, pool, _):
    return _products(folder, "unaligned_products", unaligned_shapes(), pool,
                     (("bfloat16", ("TN", "NN", "NT"), 1), ("tf32", ("TN", "NN", "NT"), 1), ("float32", ("TN",), 3)))


def _products(folder, name, shapes, pool, types):
    """`types`: which every so many shapes are measured in."""
    table = Table(folder, name, ("type", "layout", "m", "k", "n"))
    most_flops = {"bfloat16": 8e12, "tf32": 1.5e12, "float32": 2e11, "float16": 1e12}
    for product, layouts, step in types:
        most = most_flops[product]
        torch.backends.cuda.matmul.allow_tf32 = product == "tf32"
        dtype = TYPES.get(product, torch.float32)
        width = torch.empty(0, dtype=dtype).element_size()
        for m, k, n in shapes[::step]:
            if 2.0 * m * k * n > most:
                continue
            turns = timing.turns_for(width * (m * k + k * n + m * n))
            for layout in layouts:
                first, second = {"TN": ((m, k), (n, k)), "NN": ((m, k), (k, n)), "NT": ((k, m), (k, n))}[layout]

                def make(first=first, second=second, layout=layout, m=m, n=n, dtype=dtype):
                    return run_product(pool.cut(first, dtype), pool.cut(second, dtype), pool.cut((m, n), dtype), layout)

                table.add((product, layout, m, k, n), make, turns, pool.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    return table


def measure_batched_products(folder, pool, draw):
    table = Table(folder, "batched_products", ("type", "batch", "m", "k", "n"))
    shapes = []
    for batch in (12, 64, 192, 512):
        for length in (128, 512, 1024, 2048):
            for head in (64, 128):
                shapes += [(batch, length, head, length), (batch, length, length, head)]
    for _ in range(40):
        shapes.append((round(2 ** draw.uniform(1, 9)), *(32 * round(2 ** draw.uniform(0, 6)) for _ in range(3))))
    for product, most in (("bfloat16", 1e12), ("float32", 1e11)):
        dtype = TYPES[product]
        for batch, m, k, n in shapes:
            elements = batch * (m * k + k * n + m * n)
            if 2.0 * batch * m * k * n > most or elements > 4e8:
                continue

            def make(batch=batch, m=m, k=k, n=n, dtype=dtype):
                a, b = pool.cut((batch, m, k), dtype), pool.cut((batch, k, n), dtype)
                out = pool.cut((batch, m, n), dtype)
                return lambda: torch.bmm(a, b, out=out)

            table.add((product, batch, m, k, n), make, timing.turns_for(elements * 2), pool.device)
    return table


def measure_attention(folder, pool, _):
    """FlashAttention as PyTorch has it: batch x heads x length x head."""
    table = Table(folder, "attention", ("type", "phase", "causal", "batch", "heads", "length", "head"))
    for batch, heads, length in ((8, 12, 512), (8, 12, 1024), (2, 16, 1024), (8, 16, 2048), (4, 32, 2048), (1, 32, 4096),
                                 (2, 64, 4096), (1, 8, 8192), (1, 32, 8192), (1, 8, 16384), (32, 12, 128), (32, 16, 256)):
        for head in (64, 128):
            for causal in (False, True):
                _attention_rows(table, pool, (batch, heads, length, head), causal)
    return table


def _attention_rows(table, pool, shape, causal):
    dtype = torch.bfloat16

    def operands():
        batch, heads, length, head = shape
        return [pool.cut((batch, length, heads, head), dtype).transpose(1, 2) for _ in range(3)]

    def forward():
        q, k, v = operands()
        return lambda: ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)

    def backward():
        q, k, v = operands()
        out, logsumexp, _, _, most_q, most_k, seed, unused, _ = forward_of(q, k, v)
        gradient = torch.randn_like(out)
        return lambda: ATEN._scaled_dot_product_flash_attention_backward(
            gradient, q, k, v, out, logsumexp, None, None, most_q, most_k, 0.0, causal, seed, unused)

    def forward_of(q, k, v):
        return ATEN._scaled_dot_product_flash_attention(q, k, v, 0.0, causal)

    nbytes = 2 * 4 * math.prod(shape)
    for phase, make in (("forward", forward), ("backward", backward)):
        table.add(("bfloat16", phase, int(causal), *shape), make, timing.turns_for(nbytes), pool.device)


def row_operators():
    """Operators on rows x columns, which are bound by memory: name to a maker of the call."""
    def unary(function):
        return lambda t, shape: (lambda x=t(shape): function(x))

    def binary(function):
        return lambda t, shape: (lambda x=t(shape), y=t(shape): function(x, y))

    def layer_norm_backward(t, shape):
        x, weight, bias = t(shape), t(shape[1:]), t(shape[1:])
        _, mean, deviation = ATEN.native_layer_norm(x, shape[1:], weight, bias, EPSILON)
        gradient = t(shape)
        return lambda: ATEN.native_layer_norm_backward(gradient, x, shape[1:], mean, deviation, weight, bias,
                                                       [True, True, True])

    def rms_norm_backward(t, shape):
        x, weight = t(shape), t(shape[1:])
        _, deviation = ATEN._fused_rms_norm(x, shape[1:], weight, EPSILON)
        gradient = t(shape)
        return lambda: ATEN._fused_rms_norm_backward(gradient, x, shape[1:], deviation, weight, [True, True])

    def normalized(function):
        def make(t, shape):
            x, weight, bias = t(shape), t(shape[1:]), t(shape[1:])
            return lambda: function(x, shape[1:], weight, bias)
        return make

    return {
        "copy": unary(lambda x: x.clone()),
        "add": binary(torch.add),
        "mul": binary(torch.mul),
        "add_row": lambda t, shape: (lambda x=t(shape), y=t(shape[1:]): x + y),
        "scale": unary(lambda x: x * 0.5),
        "gelu": unary(torch.nn.functional.gelu),
        "gelu_backward": binary(ATEN.gelu_backward),
        "silu": unary(torch.nn.functional.silu),
        "tanh": unary(torch.tanh),
        "relu_backward": binary(lambda g, x: ATEN.threshold_backward(g, x, 0)),
        "dropout": unary(lambda x: ATEN.native_dropout(x, 0.1, True)),
        "softmax": unary(lambda x: ATEN._softmax(x, 1, False)),
        "softmax_backward": binary(lambda g, y: ATEN._softmax_backward_data(g, y, 1, g.dtype)),
        "log_softmax": unary(lambda x: ATEN._log_softmax(x, 1, False)),
        "layer_norm": normalized(lambda x, dims, w, b: ATEN.native_layer_norm(x, dims, w, b, EPSILON)),
        "layer_norm_backward": layer_norm_backward,
        "rms_norm": normalized(lambda x, dims, w, _: ATEN._fused_rms_norm(x, dims, w, EPSILON)),
        "rms_norm_backward": rms_norm_backward,
        "sum_rows": unary(lambda x: x.sum(0)),
        "sum_columns": unary(lambda x: x.sum(1)),
        "transpose": unary(lambda x: x.t().contiguous()),
        "to_float32": unary(lambda x: x.to(torch.float32)),
        "to_bfloat16": unary(lambda x: x.to(torch.bfloat16)),
    }


def measure_rows(folder, pool, draw):
    shapes = [(rows, columns) for columns in (768, 4096) for rows in (128, 2048, 16384)]
    shapes += [(4096, 50304), (24576, 1024)]
    shapes += [(round(2 ** draw.uniform(4, 17)), 8 * round(2 ** draw.uniform(3, 11))) for _ in range(22)]
    return _rows(folder, "rows", shapes, pool)


def measure_odd_rows(folder, pool, _):
    """Columns that are no multiples of 8, few of them, and few rows: logits, attention over images, classes."""
    return _rows(folder, "odd_rows", [(4096, 50257), (8192, 30522), (98304, 197), (12288, 577), (1024, 1000), (128, 1001),
                                      (32768, 77), (65536, 33), (1 << 20, 12), (8, 65537), (3, 1 << 22), (16384, 771)],
                 pool)


def _rows(folder, name, shapes, pool):
    table = Table(folder, name, ("operator", "type", "rows", "columns"))
    for kind in ("bfloat16", "float32"):
        dtype = TYPES[kind]
        for rows, columns in shapes:
            if rows * columns > 3e8:
                continue
            turns = timing.turns_for(rows * columns * 2)
            for name, maker in row_operators().items():
                if name == "to_" + kind:
                    continue

                def make(maker=maker, rows=rows, columns=columns, dtype=dtype):
                    return maker(lambda shape: pool.cut(shape, dtype), (rows, columns))

                table.add((name, kind, rows, columns), make, turns, pool.device)
    return table


def measure_tables(folder, pool, _):
    """Rows of a table by index, and the gradient of the table."""
    table = Table(folder, "embedding", ("operator", "type", "indices", "rows", "columns"))
    for kind in ("bfloat16", "float32"):
        for indices in (512, 4096, 16384):
            for rows, columns in ((50304, 768), (32000, 4096), (1024, 1024)):
                def make(backward, indices=indices, rows=rows, columns=columns, kind=kind):
                    weight, which = pool.cut((rows, columns), TYPES[kind]), torch.randint(
                        rows, (indices,), device=pool.device)
                    gradient = pool.cut((indices, columns), TYPES[kind])
                    if backward:
                        return lambda: ATEN.embedding_dense_backward(gradient, which, rows, -1, False)
                    return lambda: ATEN.embedding(weight, which)

                for name in ("embedding", "embedding_backward"):
                    table.add((name, kind, indices, rows, columns),
                              lambda name=name, make=make: make(name == "embedding_backward"), 4, pool.device)
    return table


def measure_updates(folder, pool, _):
    """AdamW on float32 in one kernel for all tensors of a list, and one kernel per operation for lists."""
    table = Table(folder, "update", ("operator", "tensors", "elements"))
    for tensors, elements in ((1, 1 << 14), (1, 1 << 20), (1, 1 << 24), (1, 1 << 27), (16, 768), (16, 1 << 20),
                              (148, 1 << 19), (148, 1 << 12), (16, 1 << 24)):
        def make(tensors=tensors, elements=elements):
            lists = [[pool.cut((elements,), torch.float32) for _ in range(tensors)] for _ in range(4)]
            lists[3] = [each.abs() for each in lists[3]]
            steps = [torch.ones((), device=pool.device) for _ in range(tensors)]
            return lambda: ATEN._fused_adamw_(lists[0], lists[1], lists[2], lists[3], [], steps, lr=0.0, beta1=0.9,
                                              beta2=0.95, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False)

        def make_sgd(tensors=tensors, elements=elements):
            lists = [[pool.cut((elements,), torch.float32) for _ in range(tensors)] for _ in range(2)]
            return lambda: torch._foreach_add_(lists[0], lists[1], alpha=0.0)

        table.add(("fused_adamw", tensors, elements), make, 2, pool.device)
        table.add(("foreach_sgd", tensors, elements), make_sgd, 2, pool.device)
    return table


def measure_convolutions(folder, pool, _):
    """Those of ResNet-50, as PyTorch lays them out by default and with channels last."""
    table = Table(folder, "convolution", ("type", "layout", "phase", "batch", "channels", "size", "kernel", "filters",
                                          "stride"))
    layers = [(3, 224, 7, 64, 2), (64, 56, 1, 64, 1), (64, 56, 3, 64, 1), (64, 56, 1, 256, 1), (256, 56, 1, 64, 1),
              (256, 56, 1, 128, 1), (128, 56, 3, 128, 2), (128, 28, 1, 512, 1), (256, 56, 1, 512, 2), (512, 28, 1, 128, 1),
              (128, 28, 3, 128, 1), (512, 28, 1, 256, 1), (256, 28, 3, 256, 2), (256, 14, 1, 1024, 1),
              (512, 28, 1, 1024, 2), (1024, 14, 1, 256, 1), (256, 14, 3, 256, 1), (1024, 14, 1, 512, 1),
              (512, 14, 3, 512, 2), (512, 7, 1, 2048, 1), (1024, 14, 1, 2048, 2), (2048, 7, 1, 512, 1), (512, 7, 3, 512, 1)]
    for kind, layout in (("bfloat16", "channels_last"), ("bfloat16", "channels_first"), ("tf32", "channels_first"),
                         ("float32", "channels_first")):
        torch.backends.cudnn.allow_tf32 = kind == "tf32"
        dtype = TYPES.get(kind, torch.float32)
        order = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        for batch in (32, 128) if kind == "bfloat16" else (32,):
            for layer in layers:
                for phase in ("forward", "backward_input", "backward_weight"):
                    table.add((kind, layout, phase, batch, *layer),
                              lambda phase=phase, batch=batch, layer=layer, dtype=dtype, order=order: _convolution(
                                  pool, phase, batch, layer, dtype, order), 3, pool.device)
    return table


def _convolution(pool, phase, batch, layer, dtype, order):
    channels, size, kernel, filters, stride = layer
    pad = kernel // 2
    out = (size + 2 * pad - kernel) // stride + 1
    x = pool.cut((batch, channels, size, size), dtype).to(memory_format=order)
    weight = pool.cut((filters, channels, kernel, kernel), dtype).to(memory_format=order)
    if phase == "forward":
        return lambda: ATEN.convolution(x, weight, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1)
    gradient = pool.cut((batch, filters, out, out), dtype).to(memory_format=order)
    mask = [phase == "backward_input", phase == "backward_weight", False]
    return lambda: ATEN.convolution_backward(gradient, x, weight, None, [stride] * 2, [pad] * 2, [1, 1], False, [0, 0], 1,
                                             mask)


def measure_host(folder, pool, _):
    """What the host takes to launch: eager calls one after the other, small enough that the device is always waiting."""
    table = (folder / "host.csv").open("w")
    table.write("what,time_us\n")
    x = torch.randn(64, 64, device=pool.device)
    linear = torch.nn.Linear(64, 64, device=pool.device)
    norm = torch.nn.LayerNorm(64, device=pool.device)

    def training():
        y = norm(torch.nn.functional.gelu(linear(x)))
        y.backward(x)

    count = 0
    for what, call in (("add", lambda: x + x), ("mm", lambda: torch.mm(x, x)), ("linear", lambda: linear(x)),
                       ("layer_norm", lambda: norm(x)), ("gelu", lambda: torch.nn.functional.gelu(x)),
                       ("linear_gelu_layer_norm_with_backward", training)):
        for _ in range(50):
            call()
        torch.cuda.synchronize() if pool.device.type == "cuda" else None
        begin = time.perf_counter()
        for _ in range(500):
            call()
        torch.cuda.synchronize() if pool.device.type == "cuda" else None
        table.write(f"{what},{1e6 * (time.perf_counter() - begin) / 500:.3f}\n")
        count += 1
    tiny = torch.ones(1, device=pool.device)
    table.write(f"add of one element in a graph,{timing.microseconds([lambda: tiny.add_(1)], pool.device):.3f}\n")
    if pool.device.type == "cuda":
        count += _transfers(table)
    table.close()
    print(f"host: {count + 1} rows")


def _transfers(table):
    count = 0
    for size in (1 << 12, 1 << 20, 1 << 28):
        for pinned in (True, False):
            here = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
            here.fill_(1)
            there = torch.empty(size, dtype=torch.uint8, device="cuda")
            for what, to, source in (("to the device", there, here), ("to the host", here, there)):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for _ in range(5):
                    to.copy_(source)
                torch.cuda.synchronize()
                memory = "pinned" if pinned else "pageable"
                table.write(f"{size} bytes {what} ({memory}),{1e6 * (time.perf_counter() - begin) / 5:.3f}\n")
                count += 1
    return count


FAMILIES = {"host": measure_host, "products": measure_products, "linear": measure_linear,
            "unaligned_products": measure_unaligned_products, "batched_products": measure_batched_products,
            "attention": measure_attention, "rows": measure_rows, "odd_rows": measure_odd_rows, "embedding": measure_tables,
            "update": measure_updates, "convolution": measure_convolutions}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help="of " + ", ".join(FAMILIES))
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    for name in arguments.families:
        if name not in FAMILIES:
            parser.error(f"no family '{name}': expected some of {', '.join(FAMILIES)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    pool = timing.Pool(arguments.device)
    for name in arguments.families or FAMILIES:
        begin = time.perf_counter()
        table = FAMILIES[name](arguments.out, pool, random.Random(SEED))
        if table is not None:
            print(f"{name}: {table.rows} rows, {table.failed} failed, {time.perf_counter() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
