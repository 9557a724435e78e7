// SPDX-License-Identifier: Apache-2.0
//
// Operators of ATen by what they compute, whatever PyTorch calls them: keys that say class and size,
// and nothing of names, layouts and signs.
//
//     aten::mm [8,64] [64,32]                      product 1 8 64 32
//     aten::addmm [32] [8,64] [64,32]              biased-product 1 8 64 32
//     aten::linear [4,2,64] [32,64] [32]           biased-product 1 8 64 32
//     aten::add_ [8,32] [8,32]                     add 256 256
//     aten::cudnn_convolution [8,3,9,9] [4,3,3,3]  convolution 8x3x9x9 4x3x3x3
//
// Rows of the table come from ATen's native_functions.yaml (PyTorch 2.11).
//
// Pure; any number of threads. Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"

namespace partita::cost {

/// "" for an operator that no work is made of. With or without "aten::".
std::string_view operator_class(std::string_view name);

/// nullopt: no work is made of it, or it has other operands than it should. Extents >= 0.
std::optional<std::string> operator_key(std::string_view name,
                                        const std::vector<graph::Shape>& shapes);

/// 1 of no dims; extents >= 0. What is too large for 64 bits is their largest number.
std::int64_t volume(const graph::Shape& shape);

// Keys, as works ask for them.
std::string product_key(bool biased, std::int64_t batch, std::int64_t m, std::int64_t k,
                        std::int64_t n);
/// Of a class with as many elements: in the order of the operands, of add and mul falling.
std::string elements_key(std::string_view of, std::vector<std::int64_t> elements);
std::string shapes_key(std::string_view of, const std::vector<graph::Shape>& shapes);
/// Queries, keys of equal heads: [batch, heads, length, head dim].
std::string attention_key(std::string_view of, const graph::Shape& query, const graph::Shape& key);

}  // namespace partita::cost
