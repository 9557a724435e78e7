// SPDX-License-Identifier: Apache-2.0
//
// Model: a network ready to be planned, all shapes concrete. It is made from a Graph, or loaded
// from an ONNX file or a workload file (JSON with given costs, docs/file-formats.md).
//
//     partita::Model by_hand(graph);
//     auto bert = partita::Model::load("bert.onnx", {.bindings = {{"sequence", 128}}, .batch = 8});
//
// Threads: never changes, so any number may read it. Copies share it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <partita/error.h>
#include <partita/graph.h>
#include <partita/machine.h>
#include <partita/types.h>

namespace partita {

/// What gives the symbolic dims of a file their values.
struct ImportOptions {
    std::map<std::string, std::int64_t> bindings;  ///< of dims by name, >= 1; `--bind NAME=N`
    std::map<std::string, Shape> shapes;           ///< of inputs by name; `--shape INPUT:AxBxC`
    std::optional<std::int64_t> batch;             ///< the sample dim of all inputs; `--batch N`
    /// An ONNX test-data-set folder (input_0.pb, ...), whose shapes bind the dims; `--inputs DIR`.
    std::filesystem::path inputs;
    bool unroll = false;  ///< LSTM, GRU and RNN become one op per step; `--unroll`
    /// float32, float16 or bfloat16: all of the model in that, masters of 16-bit weights in float32;
    /// `--precision fp32`, `fp16`, `bf16`.
    std::optional<DType> precision;
    /// What matrix products are computed in, where that is less: tf32 (with precision float32) is
    /// `--precision tf32`; float8, products with weights, is `--precision P,products=fp8` and is
    /// priced alone, not executed.
    std::optional<ProductType> products;
    /// Globs: parameters that several layers read become one for each; `--untie GLOB`.
    std::vector<std::string> untie;
    /// Pointwise ops that run as one kernel, by name (silu, swiglu, weighted-swiglu, gelu, gelu-tanh,
    /// bias-gelu) or as an expression such as "Mul(Mul(g, Sigmoid(g)), u)"; "linear": MatMul and its
    /// bias are one kernel; "transposes": they are views, which move nothing; "unaligned-products":
    /// matrix products are slow where rows are no multiples of 16 bytes; `--fuse KERNEL`.
    std::vector<std::string> fuse;
    /// Products around a softmax become ONNX's Attention, which holds no scores; `--attention`.
    /// Default: as the plan or the framework has it, or yes, where the model has such products.
    std::optional<bool> fused_attention;
    /// > 1: fused attention works in so many blocks, as Ring Attention does: where they lie on several
    /// devices, keys and values of the next block are sent meanwhile; `--attention blocks=N`.
    int attention_blocks = 1;
    /// Gradients of 16-bit parameters are kept, added up and sent in float32;
    /// `--precision P,grads=fp32`. Default: as the plan or the framework has it, or no.
    std::optional<bool> float32_gradients;
    /// Whose kernels, attention and gradients these are, where nothing else is said: megatron, ddp,
    /// fsdp, deepspeed, partita or a .json; `--framework`. See PlanOptions::framework.
    std::filesystem::path framework;
};

/// One op of a model. Inputs, parameters, constants and outputs are ops too, of types "Input",
/// "Parameter", "Constant" and "Output".
struct OpInfo {
    std::string name;
    std::string type;
    std::vector<std::string> operands;  ///< tensors; "" = left out
    std::vector<std::string> results;   ///< tensors; "" = left out
};

struct TensorInfo {
    Shape shape;
    DType dtype = DType::undefined;
    Bytes bytes;
};

/// Dim `dim` of operand or result number `tensor` of an op.
struct DimOf {
    int tensor = 0;
    int dim = 0;
    friend bool operator==(const DimOf&, const DimOf&) = default;
};

/// A loop of an op, which a plan may cut. MatMul [8 64] x [64 32]: m of extent 8 is operand 0's dim
/// 0 and the result's dim 0, n of 32 is operand 1's dim 1 and the result's dim 1, k of 64 is
/// operand 0's dim 1 and operand 1's dim 0. A dim may be made of several factors (a Reshape's).
struct FactorInfo {
    std::string name;
    std::int64_t extent = 1;
    bool splittable = true;
    std::vector<DimOf> operands;  ///< in rising order
    std::vector<DimOf> results;   ///< in rising order; empty: parts are partial
};

class Model {
public:
    /// Infers all shapes. Throws InputError naming graph and op: an operator that ONNX does not
    /// define (and whose results have no given shape), a missing or wrong attribute, operands that
    /// nothing makes or whose shapes do not fit, a cycle, no output.
    /// Unless `options` say so, the ops are planned as they are written, products around a softmax too.
    explicit Model(const Graph& graph, const ImportOptions& options = {.fused_attention = false});

    /// An .onnx file, whose weights may be inside, external or absent, or a workload .json. Throws
    /// InputError for what is wrong with the file, UsageError for what is wrong with the options: a
    /// symbolic dim without a value names all that are missing.
    [[nodiscard]] static Model load(const std::filesystem::path& file,
                                    const ImportOptions& options = {});

    /// Of the graph, or the file's name without its folder.
    [[nodiscard]] const std::string& name() const;
    /// In the order of plans.
    [[nodiscard]] std::vector<OpInfo> ops() const;
    /// What an op's `degrees` in a plan speak of. Throws UsageError when there is no such op.
    [[nodiscard]] std::vector<FactorInfo> factors(const std::string& op) const;
    /// Throws UsageError when there is no such tensor.
    [[nodiscard]] TensorInfo tensor(const std::string& name) const;
    /// "sha256:..." of all that a plan depends on; part of the plan.
    [[nodiscard]] std::string digest() const;
    /// Of a workload, the machine that its costs were given for; otherwise none.
    [[nodiscard]] std::optional<Machine> machine() const;
    /// Sentences on how the model was understood: operators that are not known, what was inlined.
    [[nodiscard]] const std::vector<std::string>& notes() const;

    struct Impl;  ///< of the library
    [[nodiscard]] const Impl& impl() const { return *impl_; }

private:
    explicit Model(std::shared_ptr<const Impl> impl);
    std::shared_ptr<const Impl> impl_;  ///< shared by copies
};

}  // namespace partita
