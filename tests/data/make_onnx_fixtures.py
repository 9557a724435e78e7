#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX files of tests/data/onnx and tests/data/bad_models from the texts below.

Usage: make_onnx_fixtures.py        with the package `onnx` (1.23.2)

Each good model shows one thing that exported files hold and the examples do not: control flow,
functions, extents that depend on data. Each bad one has one fault and is named for it.
"""
import pathlib

import onnx
from onnx import TensorProto, helper, parser

HERE = pathlib.Path(__file__).parent

GOOD = {
    # The condition is an input: both branches stay, and b and w come from outside.
    "if_unknown": """
<ir_version: 10, opset_import: ["" : 20]>
main (bool c, float[2,3] x) => (float[2,3] y)
<float[3] w = {1, 2, 3}, float[2,3] b = {1, 2, 3, 4, 5, 6}>
{
  a = Relu(x)
  [choose] y = If (c) <
    then_branch = taken () => (float[2,3] t) { [t_mul] t = Mul(a, w) },
    else_branch = other () => (float[2,3] e) { [e_add] e = Add(b, x) }
  >
}""",
    # The mask is fetched element by element, in order, once by numbers and once by coordinates; the
    # third Gather leaves the order.
    "gather_all": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[2,3] x) => (float[2,1,3] a, float[2,3] b, float[6] c)
<int64[6] numbers = {0, 1, 2, 3, 4, 5}, int64[6] turned = {0, 1, 2, 3, 5, 4}, int64[3] apart = {2, 1, 3},
 int64[2,3,2] pairs = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}>
{
  flat = Flatten <axis: int = 0> (x)
  six = Constant <value_ints: ints = [6]> ()
  line = Reshape(flat, six)
  indices = Reshape(numbers, apart)
  [by_number] a = Gather(line, indices)
  [by_pair] b = GatherND(x, pairs)
  [turned_round] c = Gather(line, turned)
}""",
    # The condition is known: the node becomes its else branch.
    "if_known": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[2,3] x) => (float[n,m] y)
{
  s = Shape(x)
  zero = Constant <value_int: int = 0> ()
  rows = Gather(s, zero)
  three = Constant <value_int: int = 3> ()
  c = Equal(rows, three)
  [choose] y = If (c) <
    then_branch = taken () => (float[n,m] t) { [t_tanh] t = Tanh(x) },
    else_branch = other () => (float[n,m] e) { [e_relu] e = Relu(x) }
  >
}""",
    # Branches of different extents: the result has the larger one, marked.
    "if_extents": """
<ir_version: 10, opset_import: ["" : 20]>
main (bool c, float[2,3] x) => (float[n,3] y)
{
  y = If (c) <
    then_branch = taken () => (float[n,3] t) { t = Concat <axis: int = 0> (x, x) },
    else_branch = other () => (float[n,3] e) { e = Relu(x) }
  >
}""",
    # 5 iterations; h is carried, every iteration's z is stacked, w is taken from outside.
    "loop": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[4,8] x) => (float[4,8] h, float[k,4,8] zs)
<int64 trips = {5}, bool yes = {1}, float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}>
{
  [repeat] h, zs = Loop (trips, yes, x) <
    body = step (int64 i, bool go, float[4,8] h_in) => (bool go_on, float[4,8] h_out, float[4,8] z) {
      go_on = Identity(go)
      [grow] h_out = Mul(h_in, w)
      [squash] z = Tanh(h_out)
    }
  >
}""",
    # The state grows by 2 rows per iteration: 1, 3, 5, 7 after 3 iterations.
    "loop_growing": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[1,8] x, float[2,8] more) => (float[n,8] all)
<int64 trips = {3}, bool yes = {1}>
{
  all = Loop (trips, yes, x) <
    body = step (int64 i, bool go, float[n,8] rows) => (bool go_on, float[n,8] longer) {
      go_on = Constant <value: tensor = bool {1}> ()
      longer = Concat <axis: int = 0> (rows, more)
    }
  >
}""",
    # At most 7 iterations, ended by the data: an upper bound.
    "loop_early_exit": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[4] x) => (float[4] h, float[k,4] hs)
<int64 trips = {7}, bool yes = {1}, float limit = {10}>
{
  h, hs = Loop (trips, yes, x) <
    body = step (int64 i, bool go, float[4] h_in) => (bool go_on, float[4] h_out, float[4] copy) {
      h_out = Add(h_in, h_in)
      copy = Identity(h_out)
      sum = ReduceSum <keepdims: int = 0> (h_out)
      go_on = Less(sum, limit)
    }
  >
}""",
    "scan": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[8] h0, float[6,8] xs) => (float[8] h, float[6,8] ys)
{
  [sum] h, ys = Scan <num_scan_inputs: int = 1, body = step (float[8] h_in, float[8] x) => (float[8] h_out, float[8] y) {
      h_out = Add(h_in, x)
      y = Tanh(h_out)
    }
  > (h0, xs)
}""",
    # A loop in a branch: x passes through two bodies, k is shape arithmetic of the main graph.
    "nested": """
<ir_version: 10, opset_import: ["" : 20]>
main (bool c, float[6,4] x) => (float[6,4] y)
{
  s = Shape(x)
  zero = Constant <value_int: int = 0> ()
  k = Gather(s, zero)
  yes = Constant <value: tensor = bool {1}> ()
  [outer] y = If (c) <
    then_branch = taken () => (float[6,4] t) {
      [inner] t = Loop (k, yes, x) <
        body = step (int64 i, bool go, float[6,4] h_in) => (bool go_on, float[6,4] h_out) {
          go_on = Identity(go)
          [deep] h_out = Add(h_in, x)
        }
      >
    },
    else_branch = other () => (float[6,4] e) { e = Relu(x) }
  >
}""",
    # A function with an attribute calls another; both are inlined, names keep the calls apart.
    "functions": """
<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
main (float[2,8] x) => (float[2,8] y)
{
  [first] a = local.block <slope: float = 0.5> (x)
  [second] y = local.block <slope: float = 0.25> (a)
}
<domain: "local", opset_import: ["" : 20, "local" : 1]>
block <slope> (u) => (v)
{
  [leaky] p = LeakyRelu <alpha: float = @slope> (u)
  [scale] v = local.twice (p)
}
<domain: "local", opset_import: ["" : 20]>
twice (u) => (v)
{
  [sum] v = Add(u, u)
}""",
    # NonZero: at most 12 columns; what is gathered with them has at most 12 rows.
    "nonzero": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[3,4] x, float[12,5] table) => (float[n,5] picked, int64[2,m] where)
{
  flat_shape = Constant <value_ints: ints = [-1]> ()
  flat = Reshape(x, flat_shape)
  hits = NonZero(flat)
  axis = Constant <value_ints: ints = [0]> ()
  rows = Squeeze(hits, axis)
  picked = Gather <axis: int = 0> (table, rows)
  where = NonZero(x)
}""",
    "einsum_spaces": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[2,3] x, float[3,4] w) => (float[n,m] y)
{ [product] y = Einsum <equation: string = "i k, k j -> j i"> (x, w) }""",
    "custom_operator": """
<ir_version: 10, opset_import: ["" : 20, "com.example" : 1]>
main (float[2,8] x) => (float[2,8] y)
<float[2,16] h>
{
  h = com.example.Widen (x)
  [narrow] y = com.example.Narrow (h)
}""",
    "sequence": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[2,8] x, float[3,8] z) => (float[5,8] y)
{
  both = SequenceConstruct(x, z)
  y = ConcatFromSequence <axis: int = 0> (both)
}""",
    "lstm": """
<ir_version: 10, opset_import: ["" : 20]>
main (float[3,2,4] x) => (float[3,2,2,5] y, float[2,2,5] h, float[2,2,5] c)
<float[2,20,4] w = {}, float[2,20,5] r = {}, float[2,40] b = {}>
{
  [rnn] y, h, c = LSTM <hidden_size: int = 5, direction: string = "bidirectional"> (x, w, r, b)
}""",
}

HEAD = '<ir_version: 10, opset_import: ["" : 20]>\n'
BAD = {
    "conv_strides_zero": HEAD + """main (float[1,3,8,8] x) => (float[1,4,8,8] y) <float[4,3,1,1] w = {}>
{ [conv1] y = Conv <strides: ints = [0, 2]> (x, w) }""",
    "conv_pads_short": HEAD + """main (float[1,3,8,8] x) => (float[1,4,8,8] y) <float[4,3,1,1] w = {}>
{ [conv1] y = Conv <pads: ints = [1, 1]> (x, w) }""",
    "attribute_type": HEAD + """main (float[2,3] x) => (float[2,3] y)
{ [soft] y = Softmax <axis: ints = [1]> (x) }""",
    "attribute_missing": HEAD + """main (float[2,3] x) => (float[2,3] y) { [cast] y = Cast (x) }""",
    "attribute_unknown": HEAD + """main (float[2,3] x) => (float[2,3] y)
{ [relu] y = Relu <slope: float = 0.5> (x) }""",
    "operands_missing": HEAD + """main (float[2,3] x) => (float[2,3] y) { [sum] y = Add (x) }""",
    "operand_unknown": HEAD + """main (float[2,3] x) => (float[2,3] y) { [sum] y = Add (x, nowhere) }""",
    "result_twice": HEAD + """main (float[2,3] x) => (float[2,3] y)
{ [one] y = Relu (x) [two] y = Tanh (x) }""",
    "cycle": HEAD + """main (float[2,3] x) => (float[2,3] y)
{ [one] a = Add (x, b) [two] b = Relu (a) [three] y = Tanh (b) }""",
    "output_unmade": HEAD + """main (float[2,3] x) => (float[2,3] y) { [one] a = Relu (x) }""",
    "shapes_disagree": HEAD + """main (float[2,3] x) => (float[2,3] y) <float[4,5] w = {}>
{ [product] y = MatMul (x, w) }""",
    "function_recursive": """
<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
main (float[2] x) => (float[2] y) { [call] y = local.f (x) }
<domain: "local", opset_import: ["" : 20, "local" : 1]>
f (u) => (v) { [again] v = local.f (u) }""",
    "shape_from_input": HEAD + """main (float[2,3] x, int64[2] target) => (float[n,m] y)
{ [reshape] y = Reshape (x, target) }""",
    "dims_too_large": HEAD + """main (float[2] x) => (float[4611686018427387904,4] y)
{ shape = Constant <value_ints: ints = [4611686018427387904, 4, 2]> ()
  [expand] y = Expand (x, shape) }""",
    "custom_operator_without_shape": """
<ir_version: 10, opset_import: ["" : 20, "com.example" : 1]>
main (float[2,8] x) => (float[n] y)
{ [widen] y = com.example.Widen (x) }""",
    "no_opset": """
<ir_version: 10, opset_import: ["com.example" : 1]>
main (float[2] x) => (float[2] y) { [relu] y = Relu (x) }""",
    "einsum_equation": HEAD + """main (float[2,3] x) => (float[2] y)
{ [sums] y = Einsum <equation: string = "i5->i"> (x) }""",
    "symbolic_dims": HEAD + """main (int64[batch,seq_len] input_ids, float[batch,3] x) => (float[batch,3] y)
{ [relu] y = Relu (x) }""",
    "unnamed_dim": HEAD + """main (float[2,?] x) => (float[2,?] y) { [relu] y = Relu (x) }""",
}


def fill_weights(model):
    """`w = {}` stands for as many zeros as the shape has."""
    for tensor in model.graph.initializer:
        count = 1
        for extent in tensor.dims:
            count *= extent
        if tensor.data_type == TensorProto.FLOAT and not tensor.raw_data and not tensor.float_data:
            tensor.float_data.extend([0.0] * count)


def bad_tensors():
    """Faults that the text form cannot express."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    add = helper.make_node("Add", ["x", "w"], ["y"], name="add")

    def model(weight):
        graph = helper.make_graph([add], "main", [x], [y], [weight])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)

    short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], raw_data=b"\0\0\0\0")
    negative = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-2])
    unknown = TensorProto(name="w", data_type=99, dims=[2])
    huge = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2**40, 2**40])
    yield "weight_too_short", model(short)
    yield "weight_extent_negative", model(negative)
    yield "weight_type_unknown", model(unknown)
    yield "weight_too_large", model(huge)


def external():
    """A weight in a file beside the model: where it may lie is checked when it is read."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 2])
    nodes, weights, last = [], [], "x"
    places = {"inside": ("weights.bin", 16), "above": ("../weights.bin", 0), "absolute": ("/etc/hostname", 0),
              "absent": ("nowhere.bin", 0), "beyond": ("weights.bin", 1000), "link": ("link.bin", 0)}
    for name, (location, offset) in places.items():
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2, 2])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", str(offset)), ("length", "16")):
            tensor.external_data.add(key=key, value=value)
        weights.append(tensor)
        nodes.append(helper.make_node("Add", [last, name], [f"y_{name}"], name=f"add_{name}"))
        last = f"y_{name}"
    nodes[-1].output[0] = "y"
    graph = helper.make_graph(nodes, "main", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main():
    for folder, texts in (("onnx", GOOD), ("bad_models", BAD)):
        (HERE / folder).mkdir(exist_ok=True)
        for name, text in texts.items():
            model = parser.parse_model(text)
            fill_weights(model)
            (HERE / folder / f"{name}.onnx").write_bytes(model.SerializeToString())
    for name, model in bad_tensors():
        (HERE / "bad_models" / f"{name}.onnx").write_bytes(model.SerializeToString())
    (HERE / "onnx" / "external.onnx").write_bytes(external().SerializeToString())
    whole = (HERE / "onnx" / "loop.onnx").read_bytes()
    (HERE / "bad_models" / "truncated.onnx").write_bytes(whole[: len(whole) // 2])
    (HERE / "bad_models" / "random_bytes.onnx").write_bytes(bytes((i * 37 + 11) % 256 for i in range(200)))
    (HERE / "bad_models" / "empty.onnx").write_bytes(b"")


if __name__ == "__main__":
    main()
