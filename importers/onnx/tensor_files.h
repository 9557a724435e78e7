// SPDX-License-Identifier: Apache-2.0
//
// Tensors by name or number, each in a file of its own: in a folder, or in an archive of numpy's.
//
//     input_0.pb, input_1.pb, ..., output_0.pb    test data sets, as the ONNX conformance tests and
//                                                 examples/runnable have them: each a TensorProto
//     tokens.npy, or input_0.npy                  arrays of numpy's
//     data.npz                                    numpy.savez(file, tokens=...); arr_0, arr_1, ... of
//                                                 numpy.savez(file, first, second) are inputs
//
// Source: numpy.lib.npyio.savez and savez_compressed: a ZIP archive of .npy files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/host_tensor.h"

namespace partita::importers {

class TensorFiles {
public:
    /// A folder, which need not be there, or of what ends in ".npz" all that it holds. Throws
    /// InputError for an archive that cannot be read.
    explicit TensorFiles(std::filesystem::path place);

    /// The file of tensor `index`: STEM_index.pb, STEM_index.npy or NAME.npy, whichever there is
    /// first; in an archive "FILE.npz/NAME.npy". nullopt: there is none. `name` may be "".
    [[nodiscard]] std::optional<std::filesystem::path> find(std::string_view stem,
                                                            std::size_t index,
                                                            std::string_view name) const;
    /// One that was found. Throws InputError: it cannot be read.
    [[nodiscard]] std::unique_ptr<std::istream> open(const std::filesystem::path& file) const;

    /// Of tensors 0, 1, ...: as many as there are, in order. Those beyond `names` have no name.
    [[nodiscard]] std::vector<graph::HostTensor> read(
        std::string_view stem, std::span<const std::string> names = {}) const;

private:
    [[nodiscard]] bool contains(const std::string& name) const;

    std::filesystem::path place_;
    bool is_archive_;
    std::map<std::string, std::string> arrays_;  ///< bytes of an archive's files, by their names
};

}  // namespace partita::importers
