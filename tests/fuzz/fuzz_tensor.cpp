// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a tensor of a data set, of ONNX's or of numpy's: either an error that the user can act on, or
// a tensor with the bytes that its shape says.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/error.h"
#include "graph/host_tensor.h"
#include "graph/tensor.h"
#include "importers/onnx/tensor_file.h"

namespace {

void read(const std::string& bytes, const char* file) {
    std::istringstream stream(bytes);
    try {
        const auto tensor = partita::importers::parse_tensor_file(stream, file);
        partita::graph::Tensor same;
        same.shape = tensor.shape;
        same.dtype = tensor.dtype;
        if (same.bytes() != partita::Bytes(static_cast<std::int64_t>(tensor.bytes.size())))
            std::abort();
    } catch (const partita::InputError&) {
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string bytes(reinterpret_cast<const char*>(data), size);
    read(bytes, "input_0.pb");
    read(bytes, "input_0.npy");
    return 0;
}
