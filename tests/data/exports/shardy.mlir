// Shardings of "merged" on "switched" by Shardy. Read it with unregistered dialects allowed.
module {
  sdy.mesh @mesh_0 = <["a"=3]>  // its ids are devices 0 1 2
  sdy.mesh @device_0 = <[], device_ids=[0]>
  sdy.mesh @mesh_1 = <["a"=2]>  // its ids are devices 2 3
  sdy.mesh @mesh_2 = <["a"=4]>  // its ids are devices 4 5 6 7
  sdy.mesh @mesh_3 = <["a"=2]>  // its ids are devices 6 7
  sdy.mesh @mesh_4 = <["a"=2, "b"=2]>  // its ids are devices 0 1 2 3
  sdy.mesh @mesh_5 = <["a"=2, "b"=3], device_ids=[5, 4, 3, 2, 1, 0]>  // its ids are devices 0 1 2 3 4 5
  sdy.mesh @mesh_6 = <["a"=2], device_ids=[1, 0]>  // its ids are devices 0 7
  func.func @main(
    %t0: tensor<3x4x6xf32> {partita.name = "x", sdy.sharding = #sdy.sharding<@mesh_0, [{"a"}, {}, {}]>},
    %t2: tensor<6x8xf32> {partita.name = "w", sdy.sharding = #sdy.sharding<@mesh_1, [{"a"}, {}]>},
    %t3: tensor<6x8xf32> {partita.name = "v", sdy.sharding = #sdy.sharding<@device_0, []>},
    %t4: tensor<8x5xf32> {partita.name = "u", sdy.sharding = #sdy.sharding<@device_0, []>},
    %t5: tensor<5xf32> {partita.name = "c", sdy.sharding = #sdy.sharding<@mesh_2, [{}]>}) -> (
    tensor<12x5xf32> {partita.name = "y", sdy.sharding = #sdy.sharding<@device_0, []>},
    tensor<12xf32> {partita.name = "z", sdy.sharding = #sdy.sharding<@device_0, []>}) {
    %t1 = "onnx.Constant"() {name = "shape", sdy.sharding = #sdy.sharding_per_value<[<@device_0, []>]>} : () -> (tensor<2xi64>)
    // %t5: updated as <@mesh_3, [{"a"}]>
    %r0 = sdy.reshard %t1 <@mesh_0, [{}]> : tensor<2xi64>
    %t6 = "onnx.Reshape"(%t0, %r0) {name = "flat", sdy.sharding = #sdy.sharding_per_value<[<@mesh_0, [{"a"}, {}]>]>} : (tensor<3x4x6xf32>, tensor<2xi64>) -> (tensor<12x6xf32>)
    %r1 = sdy.reshard %t6 <@mesh_4, [{"a"}, {"b"}]> : tensor<12x6xf32>
    %r2 = sdy.reshard %t2 <@mesh_4, [{"b"}, {}]> : tensor<6x8xf32>
    // %t7: partial sums, added where they are read
    %t7 = "onnx.MatMul"(%r1, %r2) {name = "mul", sdy.sharding = #sdy.sharding_per_value<[<@mesh_4, [{"a"}, {}], unreduced={"b"}>]>} : (tensor<12x6xf32>, tensor<6x8xf32>) -> (tensor<12x8xf32>)
    %r3 = sdy.reshard %t3 <@mesh_4, [{"b"}, {}]> : tensor<6x8xf32>
    // %t8: partial sums, added where they are read
    %t8 = "onnx.MatMul"(%r1, %r3) {name = "other", sdy.sharding = #sdy.sharding_per_value<[<@mesh_4, [{"a"}, {}], unreduced={"b"}>]>} : (tensor<12x6xf32>, tensor<6x8xf32>) -> (tensor<12x8xf32>)
    // %t9: partial sums, added where they are read
    %t9 = "onnx.Add"(%t7, %t8) {name = "sum", sdy.sharding = #sdy.sharding_per_value<[<@mesh_4, [{"a"}, {}], unreduced={"b"}>]>} : (tensor<12x8xf32>, tensor<12x8xf32>) -> (tensor<12x8xf32>)
    %r4 = sdy.reshard %t9 <@mesh_5, [{}, {"a"}]> : tensor<12x8xf32>
    %r5 = sdy.reshard %t4 <@mesh_5, [{"a"}, {"b"}]> : tensor<8x5xf32>
    // %t5 as the next op reads it: not expressible: only the first part along 'k' has it
    // %t10: partial sums, added where they are read
    %t10 = "onnx.Gemm"(%r4, %r5, %t5) {name = "fc", sdy.sharding = #sdy.sharding_per_value<[<@mesh_5, [{}, {"b"}], unreduced={"a"}>]>} : (tensor<12x8xf32>, tensor<8x5xf32>, tensor<5xf32>) -> (tensor<12x5xf32>)
    %r6 = sdy.reshard %t9 <@mesh_6, [{}, {"a"}]> : tensor<12x8xf32>
    // %t11: not expressible: partial, and no sum
    %t11 = "onnx.ReduceMax"(%r6) {name = "most", sdy.sharding = #sdy.sharding_per_value<[<@mesh_6, [{?}]>]>} : (tensor<12x8xf32>) -> (tensor<12xf32>)
    %r7 = sdy.reshard %t10 <@device_0, []> : tensor<12x5xf32>
    %r8 = sdy.reshard %t11 <@device_0, []> : tensor<12xf32>
    return %r7, %r8 : tensor<12x5xf32>, tensor<12xf32>
  }
}
