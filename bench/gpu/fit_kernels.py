#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the kernel tables of data/kernels to measured tables of data/profiles. Every other row is fitted, the rest give
the error that is written beside the constants. See cost/kernels/kernel_table.h for the curve.

    bench/gpu/fit_kernels.py            all tables
    bench/gpu/fit_kernels.py hopper     this one
"""
import csv
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROFILES = ROOT / "data" / "profiles"
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "tf32": 4}
STEPS = 400
# Rows that take less than this were bound by the host that launched them, where a source timed calls one by one.
HOST_BOUND_US = 300.0


class Curve:
    """start in us, shares of the peaks: what is searched are logarithms and logits."""

    def __init__(self, start, compute, memory):
        self.start, self.compute, self.memory = start, compute, memory

    def time(self, row):
        return self.start + math.hypot(row.flops_us / self.compute, row.bytes_us / self.memory)


class Row:
    """What a kernel would take at the peaks, in us, and what it took."""

    def __init__(self, flops, nbytes, peaks, measured_us):
        self.flops_us = 1e6 * flops / peaks[0]
        self.bytes_us = 1e6 * nbytes / peaks[1]
        self.measured = measured_us


def mean_error(rows, curve):
    return sum(abs(curve.time(row) / row.measured - 1) for row in rows) / len(rows)


def logit(share):
    return math.log(share / (1 - share))


def share(value):
    return 1 / (1 + math.exp(-value))


def fit(rows, start):
    """The curve with the smallest mean |log(predicted / measured)|; a start that is given stays."""
    def curve_of(point):
        return Curve(start if start else math.exp(point[2]), share(point[0]), share(point[1]))

    def loss(point):
        curve = curve_of(point)
        return sum(abs(math.log(curve.time(row) / row.measured)) for row in rows) / len(rows)

    best = None
    for compute in (0.5, 0.8):
        for memory in (0.3, 0.8):
            for begin in (2.0, 6.0):
                point, value = descend(loss, [logit(compute), logit(memory), math.log(begin)])
                if best is None or value < best[1]:
                    best = (point, value)
    return curve_of(best[0])


def descend(loss, point):
    """Nelder and Mead, Computer Journal 7(4), 1965."""
    simplex = [list(point)] + [[x + (0.7 if i == j else 0) for j, x in enumerate(point)] for i in range(len(point))]
    scored = sorted((loss(each), each) for each in simplex)
    for _ in range(STEPS):
        centre = [sum(each[1][i] for each in scored[:-1]) / (len(scored) - 1) for i in range(len(point))]
        worst = scored[-1][1]

        def along(factor, centre=centre, worst=worst):
            moved = [c + factor * (w - c) for c, w in zip(centre, worst)]
            moved = [min(20.0, max(-20.0, x)) for x in moved]
            return loss(moved), moved

        candidate = along(-1)
        if candidate[0] < scored[0][0]:
            candidate = min(candidate, along(-2))
        elif candidate[0] >= scored[-2][0]:
            candidate = along(0.5)
            if candidate[0] >= scored[-1][0]:
                best = scored[0][1]
                shrunk = [[(a + b) / 2 for a, b in zip(each[1], best)] for each in scored[1:]]
                scored = sorted([scored[0]] + [(loss(each), each) for each in shrunk])
                continue
        scored = sorted(scored[:-1] + [candidate])
        if scored[-1][0] - scored[0][0] < 1e-9:
            break
    return scored[0][1], scored[0][0]


def rows_of(path):
    with (PROFILES / path).open(newline="") as file:
        return list(csv.DictReader(file))


def product(batch, m, k, n, width):
    return 2.0 * batch * m * k * n, width * batch * (m * k + k * n + m * n)


def h200_products(kind, peaks):
    for row in rows_of("h200/products.csv"):
        if row["type"] == kind:
            yield Row(*product(1, int(row["m"]), int(row["k"]), int(row["n"]), WIDTHS[kind]), peaks, float(row["time_us"]))


def h200_batched(kind, peaks):
    for row in rows_of("h200/batched_products.csv"):
        if row["type"] == kind:
            yield Row(*product(*(int(row[each]) for each in ("batch", "m", "k", "n")), WIDTHS[kind]), peaks,
                      float(row["time_us"]))


def h200_attention(phase, peaks):
    """All scores, as for a mask that nobody looks through; the gradients of three operands take thrice the forward."""
    for row in rows_of("h200/attention.csv"):
        if row["phase"] == phase and row["causal"] == "0":
            batch, heads, length, head = (int(row[each]) for each in ("batch", "heads", "length", "head"))
            passes = 3 if phase == "backward" else 1
            tensors = 8 if phase == "backward" else 4
            yield Row(4.0 * passes * batch * heads * length * length * head,
                      2 * tensors * batch * heads * length * head, peaks, float(row["time_us"]))


# Operator to how many times it reads or writes a rows x columns matrix.
POINTWISE = {"add": 3, "mul": 3, "scale": 2, "tanh": 2, "relu_backward": 3}
ACTIVATION = {"gelu": 2, "gelu_backward": 3, "silu": 2}
SOFTMAX = {"softmax": 2, "log_softmax": 2}
OTHERS = {("softmax", "backward"): {"softmax_backward": 3}, ("normalization", "forward"): {"layer_norm": 2, "rms_norm": 2},
          ("normalization", "backward"): {"layer_norm_backward": 3, "rms_norm_backward": 3},
          ("reduction", "forward"): {"sum_rows": 1, "sum_columns": 1}, ("transpose", "forward"): {"transpose": 2}}


def h200_rows(operators, kind, peaks):
    for row in rows_of("h200/rows.csv"):
        if row["operator"] in operators and row["type"] == kind:
            elements = int(row["rows"]) * int(row["columns"])
            yield Row(0, operators[row["operator"]] * WIDTHS[kind] * elements, peaks, float(row["time_us"]))


def h200_lookup(phase, kind, peaks):
    for row in rows_of("h200/embedding.csv"):
        if row["type"] == kind and (row["operator"] == "embedding_backward") == (phase == "backward"):
            moved = int(row["indices"]) * int(row["columns"]) * WIDTHS[kind]
            whole = int(row["rows"]) * int(row["columns"]) * WIDTHS[kind] if phase == "backward" else moved
            yield Row(0, moved + whole, peaks, float(row["time_us"]))


def h200_update(peaks):
    for row in rows_of("h200/update.csv"):
        if row["tensors"] == "1":
            per_element = 28 if row["operator"] == "fused_adamw" else 12
            yield Row(0, per_element * int(row["elements"]), peaks, float(row["time_us"]))


def h200_convolution(kind, phase, peaks):
    for row in rows_of("h200/convolution.csv"):
        if row["type"] == kind and (row["phase"] == "forward") == (phase == "forward"):
            batch, channels, size, kernel, filters, stride = (
                int(row[each]) for each in ("batch", "channels", "size", "kernel", "filters", "stride"))
            out = (size + 2 * (kernel // 2) - kernel) // stride + 1
            flops = 2.0 * batch * filters * channels * out * out * kernel * kernel
            nbytes = WIDTHS[kind] * (batch * channels * size * size + filters * channels * kernel * kernel +
                                     batch * filters * out * out)
            yield Row(flops, nbytes, peaks, float(row["time_us"]))


def simumax_products(gpu, peaks):
    for row in rows_of(f"simumax/{gpu}_gemm.csv"):
        b, m, k, n = (int(row[each]) for each in ("b", "m", "k", "n"))
        flops, nbytes = product(b, m, k, n, 2)
        # Adding to a gradient in float32 reads and writes it.
        nbytes += (8 - 2) * b * m * n if row["accumulate"] == "1" else 0
        yield Row(flops, nbytes, peaks, float(row["time_us"]))


def simumax_attention(gpu, phase, peaks):
    """Causal: half of the scores."""
    for row in rows_of(f"simumax/{gpu}_attention.csv"):
        if row["phase"] == {"forward": "fwd", "backward": "bwd"}[phase]:
            batch, length, heads, key_heads, inner, outer = (
                int(row[each]) for each in ("batch", "seq_len", "heads", "kv_heads", "qk_dim", "v_dim"))
            passes = 3 if phase == "backward" else 1
            flops = passes * 2.0 * batch * heads * length * length * (inner + outer) / 2
            tensors = 2 if phase == "backward" else 1
            nbytes = tensors * 2 * batch * length * (heads + key_heads) * (inner + outer)
            yield Row(flops, nbytes, peaks, float(row["time_us"]))


def neusight(operator, device, peaks):
    for row in rows_of(f"neusight/ops/{operator}.csv"):
        time = 1e3 * float(row["latency_ms"])
        if row["device"] == device and time >= HOST_BOUND_US:
            yield Row(*product(*(int(row[each]) for each in ("B", "M", "K", "N")), 4), peaks, time)


def figures(machine, gpu):
    types = json.loads((ROOT / "data" / "machines" / f"{machine}.json").read_text())["device_types"]
    device = types[gpu]
    return {kind: (flops, device["memory_bandwidth"]) for kind, flops in device["matrix_flops"].items()}


def hopper():
    peaks = figures("dgx-h200", "h200")
    source = "data/profiles/h200/"
    for kind in ("bfloat16", "tf32", "float32"):
        yield "product", "forward", [kind], source + "products.csv", h200_products(kind, peaks[kind]), None
    for kind in ("bfloat16", "float32"):
        yield "batched-product", "forward", [kind], source + "batched_products.csv", h200_batched(kind, peaks[kind]), None
    for phase in ("forward", "backward"):
        yield "attention", phase, ["bfloat16"], source + "attention.csv", h200_attention(phase, peaks["bfloat16"]), None
        for kind in ("bfloat16", "tf32", "float32"):
            yield ("convolution", phase, [kind], source + "convolution.csv", h200_convolution(kind, phase, peaks[kind]),
                   None)
        for kind in ("bfloat16", "float32"):
            yield "lookup", phase, [kind], source + "embedding.csv", h200_lookup(phase, kind, peaks[kind]), None
    for kind in ("bfloat16", "float32"):
        yield "pointwise", "forward", [kind], source + "rows.csv", h200_rows(POINTWISE, kind, peaks[kind]), None
        yield "activation", "forward", [kind], source + "rows.csv", h200_rows(ACTIVATION, kind, peaks[kind]), None
        yield "softmax", "forward", [kind], source + "rows.csv", h200_rows(SOFTMAX, kind, peaks[kind]), None
        for (family, phase), operators in OTHERS.items():
            yield family, phase, [kind], source + "rows.csv", h200_rows(operators, kind, peaks[kind]), None
    yield "update", "forward", ["float32", "bfloat16"], source + "update.csv", h200_update(peaks["float32"]), None


def blackwell():
    peaks = figures("dgx-b200", "b200")
    yield ("product", "forward", ["bfloat16"], "data/profiles/simumax/b200_gemm.csv",
           simumax_products("b200", peaks["bfloat16"]), "hopper")
    for phase in ("forward", "backward"):
        yield ("attention", phase, ["bfloat16"], "data/profiles/simumax/b200_attention.csv",
               simumax_attention("b200", phase, peaks["bfloat16"]), None)


def ampere():
    bandwidth = 1.555e12
    yield ("product", "forward", ["bfloat16"], "data/profiles/simumax/a100_pcie_gemm.csv",
           simumax_products("a100_pcie", (312e12, 1.935e12)), "hopper")
    # Large ones alone: their own start, 113 and 179 us, would be no small kernel's.
    for phase in ("forward", "backward"):
        yield ("attention", phase, ["bfloat16"], "data/profiles/simumax/a100_pcie_attention.csv",
               simumax_attention("a100_pcie", phase, (312e12, 1.935e12)), "hopper")
    yield ("product", "forward", ["float32"], "data/profiles/neusight/ops/linear.csv",
           neusight("linear", "NVIDIA A100-PCIE-40GB", (19.5e12, bandwidth)), "hopper")
    yield ("batched-product", "forward", ["float32"], "data/profiles/neusight/ops/bmm.csv",
           neusight("bmm", "NVIDIA A100-PCIE-40GB", (19.5e12, bandwidth)), "hopper")


TABLES = {"hopper": (hopper, None, "H100, H200: fitted to PyTorch's operators on an H200"),
          "blackwell": (blackwell, "hopper", "B200: products and attention fitted to its own, the rest as Hopper's"),
          "ampere": (ampere, "hopper", "A100: products and attention fitted to its own, the rest as Hopper's")}


class Roofline:
    """What a device without a table is priced by."""

    @staticmethod
    def time(row):
        return max(row.flops_us / 0.7, row.bytes_us / 0.7, 7.0)


def entry(family, phase, types, source, rows, start):
    """None where the curve is no better than the roofline on the rows that it was not fitted to."""
    rows = list(rows)
    fitted, held_out = rows[::2], rows[1::2]
    curve = fit(fitted, start)
    roofline = mean_error(held_out, Roofline)
    print(f"{family:16s} {phase:9s} {','.join(types):18s} {len(rows):5d} rows  start {curve.start:6.2f} us  compute "
          f"{curve.compute:.3f}  memory {curve.memory:.3f}  error {100 * mean_error(held_out, curve):5.1f} %, roofline "
          f"{100 * roofline:5.1f} %", flush=True)
    if mean_error(held_out, curve) >= roofline:
        return None
    made = {"family": family, "phase": phase, "types": types, "start_ps": max(1000, round(1e6 * curve.start)),
            "compute": round(curve.compute, 4), "memory": round(curve.memory, 4),
            "error": round(mean_error(held_out, curve), 3), "rows": len(rows), "source": source}
    if all(row.flops_us == 0 for row in rows):
        del made["compute"]
    return made


def table(name, done):
    families, parent, summary = TABLES[name]
    entries = []
    for family, phase, types, source, rows, start_of in families():
        start = None
        if start_of:
            start = next(each["start_ps"] for each in done[start_of] if
                         each["family"] == family and each["phase"] == phase and types[0] in each["types"]) / 1e6
        made = entry(family, phase, types, source, rows, start)
        if made:
            entries.append(made)
    own = {(each["family"], each["phase"], kind) for each in entries for kind in each["types"]}
    for each in done.get(parent, []):
        types = [kind for kind in each["types"] if (each["family"], each["phase"], kind) not in own]
        if types:
            entries.append({**each, "types": types, "source": f"as {parent}: {each['source']}"})
    done[name] = entries
    lines = ",\n  ".join(json.dumps(each) for each in entries)
    (ROOT / "data" / "kernels").mkdir(exist_ok=True)
    (ROOT / "data" / "kernels" / f"{name}.json").write_text(
        f'{{"format": "partita-kernels", "version": 1, "name": "{name}", "summary": {json.dumps(summary)},\n'
        f' "kernels": [\n  {lines}]}}\n')


def main():
    wanted = sys.argv[1:] or list(TABLES)
    done = {}
    for name in TABLES:
        if name in wanted:
            table(name, done)
        elif (ROOT / "data" / "kernels" / f"{name}.json").exists():
            done[name] = json.loads((ROOT / "data" / "kernels" / f"{name}.json").read_text())["kernels"]


if __name__ == "__main__":
    main()
