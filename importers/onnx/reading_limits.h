// SPDX-License-Identifier: Apache-2.0
//
// What reading one model may cost. Functions, bodies and shape arithmetic multiply: a file of a few
// kilobytes can ask for gigabytes, or for hours. Each limit is an amount that no model we know
// comes near, and a share of the file's size:
//
//     memory    names, types, attributes and tensors that are kept      512 MiB + 64 times the file
//     steps     bytes of nodes read, once per reading, and elements
//               that shape inference looks at                            64 Mi + 64 times the file
//     folding   visits of an element's dim while folding                256 Mi + 16 times the file
//
// Past the first two a model is refused. Past the third its nodes are not folded any more, which is
// always legal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "graph/attributes.h"

namespace partita::importers {

class ReadingLimits {
public:
    /// `file_size`: bytes of the model as stored, >= 0.
    explicit ReadingLimits(std::size_t file_size);

    /// Takes from what is left; false when it was not enough.
    [[nodiscard]] bool take_memory(std::size_t bytes);
    [[nodiscard]] bool take_steps(std::size_t steps);
    /// What is left for folding; below 0: nothing.
    [[nodiscard]] std::int64_t& folding() { return folding_; }

    /// "reading it takes more than 512.0 MiB, ...", for a complaint about what did not fit.
    [[nodiscard]] std::string memory_text() const;
    [[nodiscard]] std::string steps_text() const;

private:
    std::size_t file_size_;
    std::size_t memory_;
    std::size_t steps_;
    std::int64_t folding_;
};

/// Bytes that attributes hold, about.
std::size_t memory_of(const graph::Attributes& attributes);

}  // namespace partita::importers
