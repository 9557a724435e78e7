#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the kernel tables of data/kernels to measured tables of data/profiles. Every other row is fitted, the rest give
the error that is written beside the constants. See cost/kernels/kernel_table.h for the curve.

    bench/gpu/fit_kernels.py            all tables
    bench/gpu/fit_kernels.py hopper     this one
    bench/gpu/fit_kernels.py --hold h100    fits nothing: errors of Hopper's curves on data/profiles/h100
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
# A plan counts the backward of two products as twice their forward; attention's own five products are in its constants.
BACKWARD_PASSES = 2
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


def torch_products(folder, kind, peaks):
    for row in rows_of(f"{folder}/products.csv"):
        if row["type"] == kind:
            yield Row(*product(1, int(row["m"]), int(row["k"]), int(row["n"]), WIDTHS[kind]), peaks, float(row["time_us"]))


def row_bytes(row, width):
    """Rows of all three matrices begin at multiples of so many bytes, at most 16."""
    m, k, n = (int(row[each]) for each in ("m", "k", "n"))
    columns = {"TN": (k, n), "NN": (k, n), "NT": (m, n)}[row["layout"]]
    return math.gcd(16, *(width * each for each in columns))


def torch_unaligned(folder, kind, least, most, peaks):
    for row in rows_of(f"{folder}/unaligned_products.csv"):
        if row["type"] == kind and least <= row_bytes(row, WIDTHS[kind]) <= most:
            yield Row(*product(1, int(row["m"]), int(row["k"]), int(row["n"]), WIDTHS[kind]), peaks, float(row["time_us"]))


def torch_batched(folder, kind, peaks):
    for row in rows_of(f"{folder}/batched_products.csv"):
        if row["type"] == kind:
            yield Row(*product(*(int(row[each]) for each in ("batch", "m", "k", "n")), WIDTHS[kind]), peaks,
                      float(row["time_us"]))


def torch_attention(folder, phase, peaks):
    """All scores, as for a mask that nobody looks through."""
    for row in rows_of(f"{folder}/attention.csv"):
        if row["phase"] == phase and row["causal"] == "0":
            batch, heads, length, head = (int(row[each]) for each in ("batch", "heads", "length", "head"))
            passes = BACKWARD_PASSES if phase == "backward" else 1
            tensors = 8 if phase == "backward" else 4
            yield Row(4.0 * passes * batch * heads * length * length * head,
                      2 * tensors * batch * heads * length * head, peaks, float(row["time_us"]))


# Their masks hide what comes later, which the kernel then does not compute.
CAUSAL_MODELS = {"gpt2-small", "gpt2-large"}


def step_attention(folder, phase, kind, peaks):
    """The memory-efficient attention that PyTorch has for float32, in training steps; TF32 does not change it."""
    for row in rows_of(f"{folder}/step_operators.csv"):
        if (row["mode"], row["type"], row["operator"]) != ("training", kind, f"aten::_efficient_attention_{phase}"):
            continue
        batch, length, heads, head = (int(each) for each in row["shapes"].split()[0].split("x"))
        passes = BACKWARD_PASSES if phase == "backward" else 1
        tensors = 8 if phase == "backward" else 4
        seen = length / 2 if row["model"] in CAUSAL_MODELS else length
        yield Row(4.0 * passes * batch * heads * length * seen * head, 4 * tensors * batch * heads * length * head, peaks,
                  float(row["device_us"]) / int(row["calls"]))


# Operator to how many times it reads or writes a rows x columns matrix.
POINTWISE = {"add": 3, "mul": 3, "scale": 2, "tanh": 2, "relu_backward": 3}
ACTIVATION = {"gelu": 2, "gelu_backward": 3, "silu": 2}
SOFTMAX = {"softmax": 2, "log_softmax": 2}
OTHERS = {("softmax", "backward"): {"softmax_backward": 3}, ("normalization", "forward"): {"layer_norm": 2, "rms_norm": 2},
          ("normalization", "backward"): {"layer_norm_backward": 3, "rms_norm_backward": 3},
          ("reduction", "forward"): {"sum_rows": 1, "sum_columns": 1}, ("transpose", "forward"): {"transpose": 2}}


def torch_rows(folder, operators, kind, peaks):
    for row in rows_of(f"{folder}/rows.csv"):
        if row["operator"] in operators and row["type"] == kind:
            elements = int(row["rows"]) * int(row["columns"])
            yield Row(0, operators[row["operator"]] * WIDTHS[kind] * elements, peaks, float(row["time_us"]))


def torch_lookup(folder, phase, kind, peaks):
    for row in rows_of(f"{folder}/embedding.csv"):
        if row["type"] == kind and (row["operator"] == "embedding_backward") == (phase == "backward"):
            moved = int(row["indices"]) * int(row["columns"]) * WIDTHS[kind]
            whole = int(row["rows"]) * int(row["columns"]) * WIDTHS[kind] if phase == "backward" else moved
            yield Row(0, moved + whole, peaks, float(row["time_us"]))


def torch_update(folder, peaks):
    for row in rows_of(f"{folder}/update.csv"):
        if row["tensors"] == "1":
            per_element = 28 if row["operator"] == "fused_adamw" else 12
            yield Row(0, per_element * int(row["elements"]), peaks, float(row["time_us"]))


def torch_convolution(folder, kind, phase, peaks):
    """Channels first, as PyTorch's models have them unless they are told otherwise."""
    for row in rows_of(f"{folder}/convolution.csv"):
        if row["layout"] == "channels_first" and row["type"] == kind and (row["phase"] == "forward") == (phase == "forward"):
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
            passes = BACKWARD_PASSES if phase == "backward" else 1
            flops = passes * 2.0 * batch * heads * length * length * (inner + outer) / 2
            tensors = 2 if phase == "backward" else 1
            nbytes = tensors * 2 * batch * length * (heads + key_heads) * (inner + outer)
            yield Row(flops, nbytes, peaks, float(row["time_us"]))


# Times an operator reads or writes a B x H matrix; with a u after its name the other operand is a scalar.
NEUSIGHT_ROWS = {"pointwise": ("elem", {"add": 3, "mul": 3, "div": 3, "pow": 3, "addu": 2, "mulu": 2, "divu": 2, "powu": 2, "relu": 2}),
                 "activation": ("elem", {"gelu": 2, "tanh": 2}), "softmax": ("softmax", {"softmax": 2}),
                 "normalization": ("ln", {"ln": 2})}


def neusight(file, device, peaks, work):
    """`work`: FLOP and bytes of a row; None: it is of another family."""
    for row in rows_of(f"neusight/ops/{file}.csv"):
        time = 1e3 * float(row["latency_ms"])
        of = work(row)
        if of and row["device"] == device and time >= HOST_BOUND_US:
            yield Row(*of, peaks, time)


def neusight_table(device, peaks):
    """Operators in float32; their starts are those of another table, because the host launched them one by one."""
    def families():
        def multiplied(row):
            return product(*(int(row[each]) for each in ("B", "M", "K", "N")), 4)

        yield "product", "linear", multiplied
        yield "batched-product", "bmm", multiplied
        for family, (file, operators) in NEUSIGHT_ROWS.items():
            def moved(row, operators=operators):
                return (0, operators[row["op"]] * 4 * int(row["B"]) * int(row["H"])) if row["op"] in operators else None

            yield family, file, moved

    for family, file, work in families():
        yield (family, "forward", ["float32"], f"data/profiles/neusight/ops/{file}.csv", neusight(file, device, peaks, work),
               "hopper")


def figures(machine, gpu):
    types = json.loads((ROOT / "data" / "machines" / f"{machine}.json").read_text())["device_types"]
    device = types[gpu]
    return {kind: (flops, device["memory_bandwidth"]) for kind, flops in device["matrix_flops"].items()}


def hopper(folder="h200"):
    peaks = figures(f"dgx-{folder}", folder)
    source = f"data/profiles/{folder}/"
    for kind in ("bfloat16", "tf32", "float32"):
        yield "product", "forward", [kind], source + "products.csv", torch_products(folder, kind, peaks[kind]), None
    for kind, least, most in (("bfloat16", 4, 8), ("bfloat16", 2, 2), ("tf32", 4, 8)):
        yield ("product", "forward", [kind], source + "unaligned_products.csv", torch_unaligned(folder, kind, least, most, peaks[kind]),
               None, least)
    for kind in ("bfloat16", "float32"):
        yield "batched-product", "forward", [kind], source + "batched_products.csv", torch_batched(folder, kind, peaks[kind]), None
    for phase in ("forward", "backward"):
        yield "attention", phase, ["bfloat16"], source + "attention.csv", torch_attention(folder, phase, peaks["bfloat16"]), None
        if folder == "h200":  # steps were not taken apart on others
            for kind in ("float32", "tf32"):
                yield ("attention", phase, [kind], source + "step_operators.csv", step_attention(folder, phase, kind, peaks[kind]),
                       ("hopper", "bfloat16"))
        for kind in ("bfloat16", "tf32", "float32"):
            yield ("convolution", phase, [kind], source + "convolution.csv", torch_convolution(folder, kind, phase, peaks[kind]),
                   None)
        for kind in ("bfloat16", "float32"):
            yield "lookup", phase, [kind], source + "embedding.csv", torch_lookup(folder, phase, kind, peaks[kind]), None
    for kind in ("bfloat16", "float32"):
        yield "pointwise", "forward", [kind], source + "rows.csv", torch_rows(folder, POINTWISE, kind, peaks[kind]), None
        yield "activation", "forward", [kind], source + "rows.csv", torch_rows(folder, ACTIVATION, kind, peaks[kind]), None
        yield "softmax", "forward", [kind], source + "rows.csv", torch_rows(folder, SOFTMAX, kind, peaks[kind]), None
        for (family, phase), operators in OTHERS.items():
            yield family, phase, [kind], source + "rows.csv", torch_rows(folder, operators, kind, peaks[kind]), None
    yield "update", "forward", ["float32", "bfloat16"], source + "update.csv", torch_update(folder, peaks["float32"]), None


def blackwell():
    peaks = figures("dgx-b200", "b200")
    yield ("product", "forward", ["bfloat16"], "data/profiles/simumax/b200_gemm.csv",
           simumax_products("b200", peaks["bfloat16"]), "hopper")
    for phase in ("forward", "backward"):
        yield ("attention", phase, ["bfloat16"], "data/profiles/simumax/b200_attention.csv",
               simumax_attention("b200", phase, peaks["bfloat16"]), None)


def ampere():
    yield ("product", "forward", ["bfloat16"], "data/profiles/simumax/a100_pcie_gemm.csv",
           simumax_products("a100_pcie", (312e12, 1.935e12)), "hopper")
    # Large ones alone: their own start, 113 and 179 us, would be no small kernel's.
    for phase in ("forward", "backward"):
        yield ("attention", phase, ["bfloat16"], "data/profiles/simumax/a100_pcie_attention.csv",
               simumax_attention("a100_pcie", phase, (312e12, 1.935e12)), "hopper")
    yield from neusight_table("NVIDIA A100-PCIE-40GB", (19.5e12, 1.555e12))


# The cards that were measured have PCIe: other peaks than those of the presets.
def volta():
    yield from neusight_table("Tesla V100-PCIE-32GB", (14e12, 0.9e12))


def turing():
    yield from neusight_table("Tesla T4", (8.1e12, 0.32e12))


def pascal():
    yield from neusight_table("Tesla P100-PCIE-16GB", (9.3e12, 0.732e12))


TABLES = {"hopper": (hopper, None, "H100, H200: fitted to PyTorch's operators on an H200"),
          "blackwell": (blackwell, "hopper", "B200: products and attention fitted to its own, the rest as Hopper's"),
          "ampere": (ampere, "hopper", "A100: float32, products and attention fitted to its own, the rest as Hopper's"),
          "volta": (volta, "ampere", "V100: float32 fitted to its own, the rest as Ampere's"),
          "turing": (turing, "ampere", "T4: float32 fitted to its own, the rest as Ampere's"),
          "pascal": (pascal, None, "P100: float32 fitted to its own")}


class Roofline:
    """What a device without a table is priced by."""

    @staticmethod
    def time(row):
        return max(row.flops_us / 0.7, row.bytes_us / 0.7, 7.0)


def entry(family, phase, types, source, rows, start, row_bytes=None):
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
    aligned = {"row_bytes": row_bytes} if row_bytes else {}
    made = {"family": family, "phase": phase, "types": types, **aligned, "start_ps": max(1000, round(1e6 * curve.start)),
            "compute": round(curve.compute, 4), "memory": round(curve.memory, 4),
            "error": round(mean_error(held_out, curve), 3), "rows": len(rows), "source": source}
    if all(row.flops_us == 0 for row in rows):
        del made["compute"]
    return made


def table(name, done):
    families, parent, summary = TABLES[name]
    entries = []
    for family, phase, types, source, rows, start_of, *row_bytes in families():
        start = None
        if start_of:  # a table's, of the same type or of the one that is named
            start_table, start_type = start_of if isinstance(start_of, tuple) else (start_of, types[0])
            start = next(each["start_ps"] for each in (entries if start_table == name else done[start_table]) if
                         each["family"] == family and each["phase"] == phase and start_type in each["types"] and
                         "row_bytes" not in each) / 1e6
        made = entry(family, phase, types, source, rows, start, *row_bytes)
        if made:
            entries.append(made)
    own = {(each["family"], each["phase"], kind, each.get("row_bytes")) for each in entries for kind in each["types"]}
    for each in done.get(parent, []):
        if "row_bytes" in each:  # what rows that begin anywhere cost is a matter of the generation
            continue
        types = [kind for kind in each["types"] if
                 (each["family"], each["phase"], kind, each.get("row_bytes")) not in own]
        if types:
            entries.append({**each, "types": types, "source": f"as {parent}: {each['source']}"})
    done[name] = entries
    lines = ",\n  ".join(json.dumps(each) for each in entries)
    (ROOT / "data" / "kernels").mkdir(exist_ok=True)
    (ROOT / "data" / "kernels" / f"{name}.json").write_text(
        f'{{"format": "partita-kernels", "version": 1, "name": "{name}", "summary": {json.dumps(summary)},\n'
        f' "kernels": [\n  {lines}]}}\n')


def hold(folder):
    """Errors of the Hopper table on another card's rows, none of which it was fitted to."""
    kernels = json.loads((ROOT / "data" / "kernels" / "hopper.json").read_text())["kernels"]
    for family, phase, types, _, rows, _, *row_bytes in hopper(folder):
        wanted = row_bytes[0] if row_bytes else None
        for each in kernels:
            if (each["family"], each["phase"], each.get("row_bytes")) == (family, phase, wanted) and types[0] in each["types"]:
                curve = Curve(each["start_ps"] / 1e6, each.get("compute", 1.0), each["memory"])
                rows = list(rows)
                ratio = math.exp(sum(math.log(curve.time(row) / row.measured) for row in rows) / len(rows))
                print(f"{family:16s} {phase:9s} {','.join(types):18s} {len(rows):5d} rows  error "
                      f"{100 * mean_error(rows, curve):5.1f} %, roofline {100 * mean_error(rows, Roofline):5.1f} %, "
                      f"predicted / measured {ratio:.3f}", flush=True)


def main():
    if sys.argv[1:2] == ["--hold"]:
        hold(sys.argv[2])
        return
    wanted = sys.argv[1:] or list(TABLES)
    done = {}
    for name in TABLES:
        if name in wanted:
            table(name, done)
        elif (ROOT / "data" / "kernels" / f"{name}.json").exists():
            done[name] = json.loads((ROOT / "data" / "kernels" / f"{name}.json").read_text())["kernels"]


if __name__ == "__main__":
    main()
