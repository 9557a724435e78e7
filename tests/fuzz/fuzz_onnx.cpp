// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as an ONNX model: either an error that the user can act on, or a graph that passes
// check(), whose contents can be asked for and whose second import has the same digest.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "base/error.h"
#include "graph/op_graph.h"
#include "importers/onnx/onnx_importer.h"

namespace {

partita::importers::OnnxModel import_bytes(std::span<const std::byte> bytes, bool unroll) {
    partita::importers::OnnxOptions options;
    options.unroll = unroll;
    // A folder that does not exist: external data is refused when it is read.
    return partita::importers::import_onnx(bytes, options, "model.onnx", "/nonexistent");
}

void read_contents(const partita::importers::OnnxModel& model) {
    for (const partita::graph::Tensor& tensor : model.graph.tensors()) {
        if (tensor.role != partita::graph::TensorRole::parameter &&
            tensor.role != partita::graph::TensorRole::constant) {
            continue;
        }
        std::vector<std::byte> bytes(tensor.bytes() > partita::Bytes(4096)
                                         ? 4096
                                         : static_cast<std::size_t>(tensor.bytes().raw()));
        try {
            model.source->read(tensor.name, partita::Bytes(0), bytes);
        } catch (const partita::InputError&) {
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    const bool unroll = size % 2 == 1;
    try {
        const auto model = import_bytes(bytes, unroll);
        read_contents(model);
        if (digest(model.graph) != digest(import_bytes(bytes, unroll).graph)) std::abort();
    } catch (const partita::InputError&) {
    } catch (const partita::UsageError&) {
    }
    return 0;
}
