#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ops whole and in parts with the reference evaluator of the onnx package, and compares.

Reads one line per op as semantics_test writes them (case.h says what is in it), after a first line
that lists the operators that must be checked. A part gets the regions of the operands that it names
and nothing else; its results are written, or combined, into the regions that it names. Every element
of every result must be written, by exactly one part unless parts combine, and equal the whole op's.

Also checks what the rule says of linear operands (RULES.md 7): with x = a + b, the results of a and b
add up to that of x, where operands that are applied once are left out of one of the two.

Prints per operator how many splits were checked. Exit code 0: all equal, and none left out.

Usage: check_parts.py CASES.jsonl
"""
import collections
import json
import multiprocessing
import pathlib
import sys
import warnings
import zlib

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

# What the evaluator cannot run, or not alike twice. The value says why.
NOT_CHECKED = {
    "Bernoulli": "random",
    "Constant": "never computed: a constant is a source of the graph",
    "MaxRoiPool": "not implemented in onnx.reference",
    "Multinomial": "random",
    "RandomNormal": "random",
    "RandomNormalLike": "random",
    "RandomUniform": "random",
    "RandomUniformLike": "random",
}

# How far two evaluations of the same sum may be apart, relative to the result's largest element.
TOLERANCES = {"float16": 4e-3, "bfloat16": 4e-2, "float32": 2e-5, "float64": 1e-12,
              "complex64": 2e-5, "complex128": 1e-12}
COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum, "product": np.multiply}


class Unsupported(Exception):
    """The evaluator has no implementation."""


def dtype_of(name):
    names = {"boolean": "BOOL", "float32": "FLOAT", "float64": "DOUBLE"}
    return helper.tensor_dtype_to_np_dtype(
        getattr(onnx.TensorProto, names.get(name, name.upper())))


# Evaluation of one operator.

evaluators = {}


def attribute(name, kind, value):
    kinds = {"int": "INT", "float": "FLOAT", "string": "STRING",
             "ints": "INTS", "floats": "FLOATS", "strings": "STRINGS"}
    return helper.make_attribute(name, value,
                                 attr_type=getattr(onnx.AttributeProto, kinds[kind]))


def evaluator_of(part, operands, result_dtype):
    """Reference evaluators are built once per operator with its attributes and operand dtypes."""
    wanted = [result is not None for result in part["results"]]
    dtypes = [None if x is None else x.dtype for x in operands]
    key = json.dumps([part["type"], part["domain"], part["opset"], part["attributes"], wanted,
                      [str(d) for d in dtypes], str(result_dtype)])
    if key in evaluators:
        return evaluators[key]
    inputs = ["" if x is None else f"x{i}" for i, x in enumerate(operands)]
    while inputs and not inputs[-1]:
        inputs.pop()
    outputs = [f"y{i}" if is_wanted else "" for i, is_wanted in enumerate(wanted)]
    node = helper.make_node(part["type"], inputs, outputs, domain=part["domain"])
    for name, (kind, value) in part["attributes"].items():
        if part["type"] == "ConstantOfShape":  # a tensor of one element, read as a number
            tensor = numpy_helper.from_array(np.array([value], result_dtype), "value")
            node.attribute.append(helper.make_attribute(name, tensor))
        else:
            node.attribute.append(attribute(name, kind, value))

    def info(name, dtype):
        if dtype is None:
            return helper.make_tensor_value_info(name, onnx.TensorProto.UNDEFINED, None)
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)

    graph = helper.make_graph(
        [node], "part",
        [info(f"x{i}", d) for i, d in enumerate(dtypes) if d is not None],
        [info(name, None) for name in outputs if name])
    domain = part["domain"]
    version = part["opset"] or onnx.defs.onnx_opset_version()
    imports = [helper.make_opsetid(domain, version)]
    if domain:
        imports.append(helper.make_opsetid("", onnx.defs.onnx_opset_version()))
    model = helper.make_model(graph, opset_imports=imports)
    evaluators[key] = ReferenceEvaluator(model)
    return evaluators[key]


def evaluate(part, operands, result_dtype=None):
    """The results of the operator, None for those that are not wanted."""
    own = OWN_EVALUATION.get(part["type"])
    if own:
        return own(part, operands)
    return evaluate_operator(part, operands, result_dtype)


def evaluate_operator(part, operands, result_dtype=None):
    evaluator = evaluator_of(part, operands, result_dtype)
    feeds = {f"x{i}": x for i, x in enumerate(operands) if x is not None}
    found = iter(evaluator.run(None, feeds))
    return [None if result is None else np.asarray(next(found)) for result in part["results"]]


# Operators that the evaluator lacks or has wrong.

def evaluate_scatter(part, operands):
    """ScatterElements under its old name."""
    return evaluate_operator({**part, "type": "ScatterElements", "opset": 18}, operands)


def evaluate_resize(part, operands):
    return (evaluate_upsample if part["opset"] == 10 else evaluate_operator)(part, operands)


def evaluate_conv_transpose(part, operands):
    """The evaluator's has one channel per group, and no pads of its own with an output_shape."""
    x, w = operands[:2]
    dims, groups = x.ndim - 2, attribute_of(part, "group", 1)
    strides = attribute_of(part, "strides", [1] * dims)
    dilations = attribute_of(part, "dilations", [1] * dims)
    extra = attribute_of(part, "output_padding", [0] * dims)
    pads = attribute_of(part, "pads", [0] * (2 * dims))
    auto_pad = attribute_of(part, "auto_pad", "NOTSET")
    wanted = attribute_of(part, "output_shape", None)
    full = [(n - 1) * s + (k - 1) * d + 1 + e for n, s, k, d, e in
            zip(x.shape[2:], strides, w.shape[2:], dilations, extra)]
    if wanted is None and auto_pad.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides)]
    if wanted is not None:
        total = [max(0, f - n) for f, n in zip(full, wanted)]
        small = [t // 2 for t in total]
        large = [t - t // 2 for t in total]
        pads = small + large if auto_pad == "SAME_UPPER" else large + small
        full = [max(f, n) for f, n in zip(full, wanted)]
    y = np.zeros((x.shape[0], groups, w.shape[1], *full), x.dtype)
    xg = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    wg = w.reshape(groups, -1, *w.shape[1:])
    for at in np.ndindex(*w.shape[2:]):
        into = tuple(slice(j * d, j * d + (n - 1) * s + 1, s)
                     for j, d, s, n in zip(at, dilations, strides, x.shape[2:]))
        y[(slice(None),) * 3 + into] += np.einsum("ngc...,gcf->ngf...", xg,
                                                  wg[(slice(None),) * 3 + at])
    y = y.reshape(x.shape[0], -1, *full)
    y = y[(slice(None),) * 2 + tuple(slice(b, n - e) for b, e, n in
                                     zip(pads[:dims], pads[dims:], full))]
    if len(operands) > 2 and operands[2] is not None:
        y = y + operands[2].reshape(-1, *[1] * dims)
    return [y]


def evaluate_upsample(part, operands):
    """Resize as it was first. The evaluator's own knows only the nearest mode."""
    return evaluate_operator(
        {**part, "type": "Resize", "opset": 13,
         "attributes": {**part["attributes"],
                        "coordinate_transformation_mode": ["string", "asymmetric"],
                        "nearest_mode": ["string", "floor"]}},
        [operands[0], None, operands[1].astype(np.float32)])


def evaluate_lrn(part, operands):
    """The evaluator's normalizes as many channels as there are samples, and 4 dims only."""
    x = operands[0]
    size = attribute_of(part, "size", 1)
    before = (size - 1) // 2
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        begin, end = max(0, c - before), c - before + size
        squares[:, c] = np.sum(x[:, begin:end] ** 2, axis=1)
    base = attribute_of(part, "bias", 1.0) + attribute_of(part, "alpha", 1e-4) / size * squares
    return [(x / base ** attribute_of(part, "beta", 0.75)).astype(x.dtype)]


def evaluate_global_lp_pool(part, operands):
    x, p = operands[0], attribute_of(part, "p", 2)
    axes = tuple(range(2, x.ndim))
    return [(np.sum(np.abs(x) ** p, axis=axes, keepdims=True) ** (1 / p)).astype(x.dtype)]


def evaluate_max_pool(part, operands):
    """The evaluator mixes up the pads of several dims."""
    pads = attribute_of(part, "pads", [])
    half = len(pads) // 2
    if len(set(pads)) < 2:
        return evaluate_operator(part, operands)
    x = operands[0]
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    widths = [(0, 0), (0, 0), *zip(pads[:half], pads[half:])]
    padded = np.pad(x, widths, constant_values=lowest)
    return evaluate_operator(with_attributes(part, pads=["ints", [0] * len(pads)]), [padded])


def evaluate_pad(part, operands):
    """The evaluator adds only; a negative pad removes."""
    names = [name for name in ("pads", "paddings") if name in part["attributes"]]
    pads = np.array(attribute_of(part, names[0], None) if names else operands[1])
    if np.all(pads >= 0) or len(operands) > 3 and operands[3] is not None:
        return evaluate_operator(part, operands)
    half = len(pads) // 2
    cut = np.minimum(pads, 0)
    x = operands[0][tuple(slice(-b, n + e) for b, e, n in
                          zip(cut[:half], cut[half:], operands[0].shape))]
    pads = np.maximum(pads, 0)
    if names:
        return evaluate_operator(with_attributes(part, **{names[0]: ["ints", pads.tolist()]}), [x])
    return evaluate_operator(part, [x, pads, *operands[2:]])


# Recurrent ops. The evaluator knows one direction only, forward, all lengths equal.

def attribute_of(part, name, fallback):
    return part["attributes"].get(name, [None, fallback])[1]


def with_attributes(part, **values):
    attributes = dict(part["attributes"])
    for name, value in values.items():
        if value is None:
            attributes.pop(name, None)
        else:
            attributes[name] = value
    return {**part, "attributes": attributes}


def evaluate_recurrent(part, operands):
    direction = attribute_of(part, "direction", "forward")
    if direction == "bidirectional":
        return evaluate_directions(part, operands)
    if direction == "reverse":
        return evaluate_reversed(part, operands)
    units = attribute_of(part, "hidden_size", None)
    if units is not None and operands[2].shape[2] != units:
        return evaluate_units(part, operands, units)
    batch_first = attribute_of(part, "layout", 0)
    if len(operands) > 4 and operands[4] is not None:
        steps = operands[0].shape[1 if batch_first else 0]
        if np.any(operands[4] != steps):
            raise Unsupported("sequence lengths")
        operands = operands[:4] + [None] + operands[5:]
    # It returns all results whatever is wanted.
    return evaluate_operator(part, operands)


def evaluate_directions(part, operands):
    """Both directions one by one: W, R, B, P and the states have a dim for them."""
    batch_first = attribute_of(part, "layout", 0)
    halves = []
    for i, direction in enumerate(("forward", "reverse")):
        own = []
        for j, x in enumerate(operands):
            if x is None or j in (0, 4):
                own.append(x)
            else:
                axis = 1 if batch_first and j in (5, 6) else 0
                own.append(np.take(x, [i], axis=axis))
        names = attribute_of(part, "activations", None)
        if names is not None:
            half = len(names) // 2
            names = ["strings", names[:half] if i == 0 else names[half:]]
        halves.append(evaluate_recurrent(
            with_attributes(part, direction=["string", direction], activations=names), own))
    axes = [2, 1, 1] if batch_first else [1, 0, 0]
    return [None if a is None else np.concatenate([a, b], axis)
            for a, b, axis in zip(*halves, axes)]


def evaluate_reversed(part, operands):
    if len(operands) > 4 and operands[4] is not None:
        raise Unsupported("sequence lengths")
    axis = 1 if attribute_of(part, "layout", 0) else 0
    turned = [np.flip(operands[0], axis), *operands[1:]]
    results = evaluate_recurrent(with_attributes(part, direction=None), turned)
    if results[0] is not None:
        results[0] = np.flip(results[0], axis)
    return results


def evaluate_units(part, operands, units):
    """Some units of one step: their rows stand in an op of all units whose other rows are zero."""
    hidden = operands[2].shape[2]

    def spread(x, groups, axis):
        shape = list(x.shape)
        shape[axis:axis + 1] = [groups, x.shape[axis] // groups]
        wide = list(shape)
        wide[axis + 1] = hidden
        full = np.zeros(wide, x.dtype)
        index = [slice(None)] * len(wide)
        index[axis + 1] = slice(0, units)
        full[tuple(index)] = x.reshape(shape)
        return full.reshape([*x.shape[:axis], groups * hidden, *x.shape[axis + 1:]])

    gates = operands[1].shape[1] // units
    full = list(operands)
    for j, groups, axis in ((1, gates, 1), (2, gates, 1), (3, 2 * gates, 1), (6, 1, 2), (7, 3, 1)):
        if j < len(full) and full[j] is not None:
            full[j] = spread(full[j], groups, axis)
    results = evaluate_recurrent(with_attributes(part, hidden_size=["int", hidden]), full)
    return [None if y is None else y[..., :units] for y in results]


OWN_EVALUATION = {
    "ConvTranspose": evaluate_conv_transpose,
    "GRU": evaluate_recurrent,
    "GlobalLpPool": evaluate_global_lp_pool,
    "LRN": evaluate_lrn,
    "LSTM": evaluate_recurrent,
    "MaxPool": evaluate_max_pool,
    "Pad": evaluate_pad,
    "Resize": evaluate_resize,
    "RNN": evaluate_recurrent,
    "Scatter": evaluate_scatter,
    "Upsample": evaluate_upsample,
}


# One part.

def positions(ranges):
    return np.concatenate([np.arange(b, e) for b, e in ranges] or [np.arange(0)])


def indices(region):
    return np.ix_(*[positions(ranges) for ranges in region])


def take(x, region):
    return np.ascontiguousarray(x[indices(region)]) if region else x


def part_operands(part, values):
    operands = []
    for i, operand in enumerate(part["operands"]):
        if operand is None:
            operands.append(None)
        elif "integers" in operand:
            operands.append(np.array(operand["integers"], dtype_of(operand["dtype"]))
                            .reshape(operand["shape"]))
        else:
            operands.append(take(values[i], operand["region"]))
    return operands


def run_part(part, values, result_dtype):
    """The part's results as they are written or combined."""
    operands = part_operands(part, values)
    mask = part.get("mask")
    if mask:
        index = operands[mask["operand"]]
        index = np.where(index < 0, index + mask["extent"], index)
        begin, end = mask["rows"]
        inside = (index >= begin) & (index < end)
        operands[mask["operand"]] = np.where(inside, index - begin, 0).astype(index.dtype)
    found = []
    for result, y in zip(part["results"], evaluate(part, operands, result_dtype)):
        if result is None:
            found.append(None)
            continue
        if "crop" in result:
            y = y[tuple(slice(b, e) for b, e in result["crop"])]
        if result["weight"] != 1.0:
            y = (y * result["weight"]).astype(y.dtype)
        if mask:
            shape = inside.shape + (1,) * (y.ndim - inside.ndim - mask["result_dim"])
            y = np.where(inside.reshape(shape), y, np.zeros((), y.dtype))
        found.append(y)
    return found


# Comparison.

def difference(found, expected):
    """"" or how two results differ."""
    if found.shape != expected.shape:
        return f"shape {found.shape}, expected {expected.shape}"
    if found.dtype != expected.dtype:
        return f"dtype {found.dtype}, expected {expected.dtype}"
    if found.size == 0:
        return ""
    tolerance = TOLERANCES.get(str(found.dtype))
    if tolerance is None:
        equal = found == expected
        if found.dtype.kind not in "biuOSU":  # an 8-bit float
            equal |= np.isnan(found.astype(np.float32)) & np.isnan(expected.astype(np.float32))
        return "" if np.all(equal) else f"{np.count_nonzero(~equal)} of {found.size} elements"
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    found, expected = found.astype(wide), expected.astype(wide)
    finite = np.isfinite(expected)
    same = np.where(finite, True, (found == expected) | (np.isnan(found) & np.isnan(expected)))
    scale = np.max(np.abs(expected[finite]), initial=1.0)
    with np.errstate(invalid="ignore"):
        close = np.where(finite, np.abs(found - expected) <= tolerance * scale, same)
    if np.all(close):
        return ""
    worst = np.max(np.where(finite & ~close, np.abs(found - expected), 0))
    return f"{np.count_nonzero(~close)} of {close.size} elements, by up to {worst:.3g}"


def assembled(parts, values, whole):
    """The whole results from those of the parts, or a complaint."""
    results = [None if y is None else np.zeros_like(y) for y in whole]
    times = [None if y is None else np.zeros(y.shape, np.int64) for y in whole]
    for number, part in enumerate(parts):
        dtype = None if whole[0] is None else whole[0].dtype
        for i, (said, y) in enumerate(zip(part["results"], run_part(part, values, dtype))):
            if whole[i] is None:
                continue
            at = indices(said["region"]) if said["region"] else ()
            if y.shape != np.shape(results[i][at]):
                return None, (f"part {number}, result {i}: shape {y.shape}, expected "
                              f"{np.shape(results[i][at])}")
            if said["combine"] == "none":
                results[i][at] = y
                if np.any(times[i][at] != 0):
                    return None, f"result {i}: written twice"
            else:
                first = times[i][at] == 0
                combined = COMBINE[said["combine"]](results[i][at], y)
                results[i][at] = np.where(first, y, combined).astype(results[i].dtype)
            times[i][at] += 1
    for i, count in enumerate(times):
        if count is not None and np.any(count == 0):
            return None, f"result {i}: {np.count_nonzero(count == 0)} elements are not written"
    return results, ""


def complaint_about_split(split, values, whole):
    results, complaint = assembled(split["parts"], values, whole)
    if complaint:
        return complaint
    for i, (found, expected) in enumerate(zip(results, whole)):
        if expected is None:
            continue
        complaint = difference(found, expected)
        if complaint:
            return f"result {i}: {complaint}"
    return ""


# Linear operands.

def halves_of(x, random):
    """x = a + b."""
    a = random.uniform(-1, 1, x.shape).astype(x.dtype)
    return a, (x - a).astype(x.dtype)


def complaint_about_linearity(case, values, whole):
    linear = [i for i in case["linear"]
              if values[i] is not None and values[i].dtype in (np.float32, np.float64)]
    if not linear or whole[0] is None or len([y for y in whole if y is not None]) > 1:
        return "", 0
    if not all(np.all(np.isfinite(values[i])) for i in linear):
        return "", 0
    random = np.random.default_rng(7)
    groups = [linear] if case["additive"] else [[i] for i in linear]
    for group in groups:
        first, second = list(values), list(values)
        for i in group:
            first[i], second[i] = halves_of(values[i], random)
        if case["additive"] and len(group) != len(case["linear"]):
            continue
        for i in case["once"]:
            if i < len(second):
                second[i] = None
        a = evaluate(case["whole"], first, whole[0].dtype)[0]
        b = evaluate(case["whole"], second, whole[0].dtype)[0]
        # Of a Cast the operand's precision counts, too.
        coarser = min(values[group[0]].dtype, whole[0].dtype, key=lambda d: d.itemsize)
        complaint = difference((a + b).astype(coarser), whole[0].astype(coarser))
        if complaint:
            return f"not linear in operands {group}: {complaint}", 0
    return "", len(groups)


# One case.

POSITIVE = {"Log", "Sqrt", "Pow", "Reciprocal", "Acosh", "Div", "ReduceLogSum", "Mod"}
SMALL = {"Acos", "Asin", "Atanh"}


def made_up(case, i):
    """A value for operand i of a case without data. Every element differs from its neighbours."""
    operand, kind = case["operands"][i], case["type"]
    random = np.random.default_rng(zlib.crc32(f"{case['name']} {i}".encode()))
    shape = operand["shape"]
    if "integers" in operand:
        return np.array(operand["integers"], dtype_of(operand["dtype"])).reshape(shape)
    if operand["dtype"] == "string":
        return random.choice(np.array(["a", "bc", "def", "gh1"], object), shape)
    dtype = dtype_of(operand["dtype"])
    if operand["dtype"] == "boolean":
        return random.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return random.integers(*integer_limits(case, i), shape).astype(dtype)
    x = random.uniform(-2, 2, shape)
    if kind in POSITIVE:
        x = 1.1 + np.abs(x)
    elif kind in SMALL:
        x = x / 2.1
    elif kind == "Dropout":
        x = np.full(shape, 0.0)
    elif kind == "BatchNormalization" and i == 4:
        x = 0.5 + np.abs(x)
    elif kind == "RoiAlign" and i == 1 or kind == "MaxRoiPool" and i == 1:
        x = np.sort(np.abs(x) * 3, axis=-1)
    elif "scale" in kind.lower() or kind.endswith("Linear") and i > 0:
        x = 0.1 + np.abs(x)
    elif kind in ("QLinearConv", "QLinearMatMul"):
        x = 0.1 + np.abs(x)
    elif kind in ("Resize", "Upsample") and i > 0:
        x = np.array([to / max(1, of) for of, to in zip(case["operands"][0]["shape"],
                                                        case["whole"]["results"][0]["shape"])])
    elif kind == "IsNaN" or kind == "IsInf":
        x = np.where(x > 1, np.nan if kind == "IsNaN" else np.inf, x)
    return np.asarray(x).astype(dtype)


def integer_limits(case, i):
    """[low, high) of an operand of integers."""
    kind, shape = case["type"], case["operands"][0]["shape"]
    axis = case["whole"]["attributes"].get("axis", ["int", 0])[1]
    batch = case["whole"]["attributes"].get("batch_dims", ["int", 0])[1]
    if kind in ("Gather", "GatherElements") and i == 1:
        return -shape[axis], shape[axis]
    if kind == "GatherND" and i == 1:
        selected = case["operands"][1]["shape"][-1]
        least = min(shape[batch:batch + selected])
        return -least, least
    if kind in ("ScatterElements", "Scatter") and i == 1:
        return 0, shape[axis]
    if kind == "ScatterND" and i == 1:
        return 0, shape[0]
    if kind in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        return 0, shape[1]
    if kind == "ReverseSequence":
        return 1, shape[case["whole"]["attributes"].get("time_axis", ["int", 0])[1]] + 1
    if kind == "OneHot":
        return -2, 3
    if kind in ("RoiAlign", "MaxRoiPool"):
        return 0, shape[0]
    if kind == "RotaryEmbedding":
        return 0, case["operands"][1]["shape"][0]
    if kind in ("LSTM", "GRU", "RNN"):
        steps = shape[1 if case["whole"]["attributes"].get("layout", ["int", 0])[1] else 0]
        return steps, steps + 1
    if kind == "TensorScatter":
        return 0, 2
    if kind == "Attention" and i == 6:
        return 1, case["operands"][1]["shape"][2] + 1
    if kind == "BitShift":
        return 0, 8
    return (0 if case["operands"][i]["dtype"].startswith("u") else -5), 6


def stored(file):
    tensor = onnx.TensorProto()
    with open(file, "rb") as stream:
        tensor.ParseFromString(stream.read())
    return numpy_helper.to_array(tensor)


def complaints_about_own(case, whole):
    """An evaluation of our own must agree with the stored results."""
    if not case["files"][0]:
        return []
    complaints = []
    for i, y in enumerate([y for y in whole if y is not None]):
        file = pathlib.Path(case["files"][0]).with_name(f"output_{i}.pb")
        complaint = difference(y, stored(file))
        if complaint:
            complaints.append(f"whole: result {i} as stored: {complaint}")
    return complaints


def values_of(case):
    values = []
    for i, operand in enumerate(case["operands"]):
        if operand is None:
            values.append(None)
        elif case["files"][i]:
            values.append(stored(case["files"][i]))
        else:
            values.append(made_up(case, i))
    return values


def is_random(dropout):
    """Whether a Dropout drops anything."""
    ratio, trains = [x is not None and bool(np.any(x)) for x in (dropout + [None, None])[1:3]]
    return trains and (ratio or dropout[1] is None)


def check(line):
    """(operator, name, what each split found, reason why it was not checked, linear groups)"""
    warnings.simplefilter("ignore")
    case = json.loads(line)
    kind = case["type"]
    outcome = {"type": kind, "name": case["name"], "splits": 0, "factors": set(), "faults": [],
               "reason": "", "linear": 0, "splittable": set(case["splittable"])}
    if not case["splits"]:
        return outcome
    if kind in NOT_CHECKED:
        outcome["reason"] = NOT_CHECKED[kind]
        return outcome
    try:
        values = values_of(case)
        if kind == "Dropout" and is_random(values):
            outcome["reason"] = "random"
            return outcome
        said = case["whole"]["results"][0]
        dtype = None if said is None else dtype_of(said["dtype"])
        whole = evaluate(case["whole"], values, dtype)
    except Exception as error:  # whatever the evaluator throws, it has no answer
        outcome["faults"].append(f"whole: {type(error).__name__}: {error}".split("\n")[0][:200])
        return outcome
    if kind in OWN_EVALUATION:
        outcome["faults"] += complaints_about_own(case, whole)
    for said, y in zip(case["whole"]["results"], whole):
        if said is not None and list(y.shape) != said["shape"]:
            outcome["faults"].append(f"whole: shape {y.shape}, the graph says {said['shape']}")
    for split in case["splits"]:
        try:
            complaint = complaint_about_split(split, values, whole)
        except Exception as error:
            complaint = f"{type(error).__name__}: {error}".split("\n")[0][:300]
        if complaint:
            outcome["faults"].append(f"{split['text']}: {complaint}")
        else:
            outcome["splits"] += 1
            outcome["factors"].update(split["factors"])
    try:
        complaint, outcome["linear"] = complaint_about_linearity(case, values, whole)
    except Exception as error:
        complaint = f"linearity: {type(error).__name__}: {error}".split("\n")[0][:300]
    if complaint:
        outcome["faults"].append(complaint)
    return outcome


def main(path):
    with open(path) as stream:
        wanted = json.loads(stream.readline())
        lines = stream.readlines()
    with multiprocessing.Pool(2) as pool:
        outcomes = list(pool.imap_unordered(check, lines, chunksize=4))
    outcomes.sort(key=lambda o: (o["type"], o["name"]))

    splits, linear = collections.Counter(), collections.Counter()
    reasons = collections.defaultdict(dict)
    faults = 0
    for outcome in outcomes:
        splits[outcome["type"]] += outcome["splits"]
        linear[outcome["type"]] += outcome["linear"]
        if outcome["reason"]:
            reasons[outcome["type"]][outcome["name"]] = outcome["reason"]
        for fault in outcome["faults"]:
            faults += 1
            print(f"DIFFERENT: {outcome['type']} ({outcome['name']}), {fault}")

    checked = {kind: count for kind, count in sorted(splits.items()) if count}
    print(f"{sum(checked.values())} splits of {len(checked)} operators are checked, and "
          f"{sum(linear.values())} sums of linear operands:")
    print("  " + ", ".join(f"{kind} {count}" for kind, count in checked.items()))
    for kind, cases in sorted(reasons.items()):
        for name, reason in cases.items():
            print(f"not run: {kind} ({name}): {reason}")
    factors, exercised = collections.defaultdict(set), collections.defaultdict(set)
    for outcome in outcomes:
        factors[outcome["type"]] |= outcome["splittable"]
        exercised[outcome["type"]] |= outcome["factors"]
    for kind in checked:
        rest = factors[kind] - exercised[kind]
        if rest:
            print(f"never split: {kind}, {' '.join(sorted(rest))}")
    missing = [kind for kind in wanted if not splits[kind] and kind not in NOT_CHECKED]
    for kind in missing:
        print(f"NEVER CHECKED: {kind} has splittable factors")
    return 1 if faults or missing else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
