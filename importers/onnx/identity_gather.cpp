// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/identity_gather.h"

#include <algorithm>

namespace partita::importers {

namespace {

bool counts_up(const Literal& indices) {
    for (std::size_t i = 0; i < indices.size(); ++i) {
        if (indices.integer(i) != static_cast<std::int64_t>(i)) return false;
    }
    return true;
}

/// Rows of coordinates, the last one fastest.
bool counts_coordinates(const Literal& indices, const graph::Shape& data) {
    graph::Shape at(data.size(), 0);
    for (std::size_t row = 0; row < indices.size() / data.size(); ++row) {
        for (std::size_t d = 0; d < data.size(); ++d) {
            if (indices.integer(row * data.size() + d) != at[d]) return false;
        }
        for (std::size_t d = data.size(); d-- > 0;) {
            if (++at[d] < data[d]) break;
            at[d] = 0;
        }
    }
    return true;
}

}  // namespace

bool is_identity_gather(std::string_view type, const graph::Attributes& attributes,
                        const graph::Shape& data, const Literal& indices) {
    const auto count = static_cast<std::int64_t>(indices.size());
    if (!indices.integral() || data.empty() || count == 0) return false;
    if (type == "Gather") {
        return attributes.get_int("axis", 0) == 0 && data[0] == count && counts_up(indices);
    }
    if (type != "GatherND" || attributes.get_int("batch_dims", 0) != 0) return false;
    const auto rank = static_cast<std::int64_t>(data.size());
    const auto elements = element_count(data, count);
    return elements && *elements * rank == count && !indices.shape.empty() &&
           indices.shape.back() == rank && counts_coordinates(indices, data);
}

}  // namespace partita::importers
