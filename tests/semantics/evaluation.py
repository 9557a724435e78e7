# SPDX-License-Identifier: Apache-2.0
"""What an operator computes, as the onnx package's reference evaluator says.

evaluate(part, operands) is the entry. Where the evaluator lacks an operator, or has it wrong, there is
an own evaluation here, mostly a rewriting into what it does know. `part` is one record of case.h.
"""
import json

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator


class Unsupported(Exception):
    """The evaluator has no implementation."""


def dtype_of(name):
    names = {"boolean": "BOOL", "float32": "FLOAT", "float64": "DOUBLE"}
    return helper.tensor_dtype_to_np_dtype(
        getattr(onnx.TensorProto, names.get(name, name.upper())))


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


def evaluate_max_roi_pool(part, operands):
    """The evaluator has none. Bins of a region may share rows; an empty one gives 0 (Girshick, Fast
    R-CNN, 2015, section 2.1)."""
    x, regions = operands
    pooled = attribute_of(part, "pooled_shape", None)
    scale = attribute_of(part, "spatial_scale", 1.0)
    y = np.zeros((len(regions), x.shape[1], *pooled), x.dtype)
    for r, (image, *corners) in enumerate(regions):
        x1, y1, x2, y2 = (int(np.floor(c * scale + 0.5)) for c in corners)
        bins = [bins_of(begin, end, count, extent) for begin, end, count, extent in
                zip((y1, x1), (y2, x2), pooled, x.shape[2:])]
        for i, rows in enumerate(bins[0]):
            for j, columns in enumerate(bins[1]):
                cut = x[int(image), :, rows, columns]
                if cut.size:
                    y[r, :, i, j] = cut.max(axis=(1, 2))
    return [y]


def bins_of(begin, end, count, extent):
    """`count` slices of [0, extent) that cover the positions from begin to end, both included."""
    size = max(end - begin + 1, 1) / count
    limits = [(begin + int(np.floor(i * size)), begin + int(np.ceil((i + 1) * size)))
              for i in range(count)]
    return [slice(*np.clip(limit, 0, extent)) for limit in limits]


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


# Operators of our own: graph/fusion/block_attention.h.

def by_head(x, heads):
    """[n s (h e)] as [n h s e]."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def evaluate_block_attention(part, operands):
    """One block of queries after the other."""
    query, key, value, mask, *sums = [*operands, *[None] * (4 - len(operands))]
    packed = query.ndim == 3
    blocks, step = attribute_of(part, "blocks", 1), attribute_of(part, "step", 0)
    mine = attribute_of(part, "query_blocks", list(range(blocks)))
    if packed:
        heads = attribute_of(part, "q_num_heads", None)
        query = by_head(query, heads)
        key, value = [by_head(x, attribute_of(part, "kv_num_heads", None)) for x in (key, value)]
        sums = [by_head(sums[0], heads), *[x.swapaxes(1, 2) for x in sums[1:]]] if sums else []
    times = query.shape[1] // key.shape[1]
    key, value = np.repeat(key, times, 1), np.repeat(value, times, 1)
    count, keys = query.shape[2] // len(mine), key.shape[2] // len(mine)
    given = sorted((block + step) % blocks for block in mine)
    found = []
    for i, block in enumerate(mine):
        rows = slice(i * count, (i + 1) * count)
        at = given.index((block + step) % blocks)
        columns = slice(at * keys, (at + 1) * keys)
        all_columns = slice(given[at] * keys, (given[at] + 1) * keys)
        scores = query[:, :, rows] @ key[:, :, columns].swapaxes(2, 3)
        scores = scores * attribute_of(part, "scale", query.shape[3] ** -0.5)
        if mask is not None:
            scores = scores + mask[..., rows if mask.shape[-2] > 1 else slice(None), all_columns]
        if attribute_of(part, "is_causal", 0):
            first = attribute_of(part, "first_query", 0)
            queries = block * attribute_of(part, "block_queries", count) + first + np.arange(count)
            hidden = queries[:, None] < given[at] * keys + np.arange(keys)
            scores = np.where(hidden, -np.inf, scores)
        found.append(one_step(scores, value[:, :, columns], [x[:, :, rows] for x in sums]))
    values, weights, largest = [np.concatenate(x, axis=2) for x in zip(*found)]
    if packed:
        values = values.swapaxes(1, 2).reshape(*values.swapaxes(1, 2).shape[:2], -1)
        weights, largest = weights.swapaxes(1, 2), largest.swapaxes(1, 2)
    return [x.astype(np.float32) for x in (values, weights, largest)]


def one_step(scores, value, sums):
    """Sums of values and of weights, and the largest score, with those of the steps before."""
    largest = scores.max(axis=-1)
    if sums:
        largest = np.maximum(largest, sums[2])
    subtracted = np.where(np.isinf(largest), 0, largest)
    weights = np.exp(scores - subtracted[..., None])
    values, weight = weights @ value, weights.sum(axis=-1)
    if not sums:
        return values, weight, largest
    share = np.exp(sums[2] - subtracted)
    return values + sums[0] * share[..., None], weight + sums[1] * share, largest


def evaluate_block_attention_result(part, operands):
    values, weights = operands
    packed = values.ndim == 3
    apart = values.reshape(*weights.shape, -1) if packed else values
    return [(apart / weights[..., None]).reshape(values.shape)]


def evaluate_linear(part, operands):
    product = np.matmul(operands[0], operands[1])
    has_bias = len(operands) > 2 and operands[2] is not None
    return [product + operands[2] if has_bias else product]


OWN_EVALUATION = {
    "BlockAttention": evaluate_block_attention,
    "BlockAttentionResult": evaluate_block_attention_result,
    "ConvTranspose": evaluate_conv_transpose,
    "GRU": evaluate_recurrent,
    "GlobalLpPool": evaluate_global_lp_pool,
    "LRN": evaluate_lrn,
    "LSTM": evaluate_recurrent,
    "Linear": evaluate_linear,
    "MaxPool": evaluate_max_pool,
    "MaxRoiPool": evaluate_max_roi_pool,
    "Pad": evaluate_pad,
    "Resize": evaluate_resize,
    "RNN": evaluate_recurrent,
    "Scatter": evaluate_scatter,
    "Upsample": evaluate_upsample,
}
