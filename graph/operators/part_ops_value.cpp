// SPDX-License-Identifier: Apache-2.0
//
// Parts of ops whose attributes count something (groups, heads, units), of means, and of lookups.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "graph/operators/part_builder.h"

namespace partita::graph {

// A mean over a part's terms, weighed by how many of all terms these are. (A sum of the part's
// terms divided by the count of all is the same, but may overflow in 16 bits where no mean does.)
void mean_part(PartBuilder& b) {
    if (b.attributes().get_string("reduction", "mean") != "mean") return;
    double weight = 1.0;
    for (std::size_t f = 0; f < b.rule().factors.size(); ++f) {
        const Factor& factor = b.rule().factors[f];
        if (!factor.reduction || b.is_whole(static_cast<int>(f))) continue;
        weight *= static_cast<double>(b.count(factor.name)) / static_cast<double>(factor.extent);
    }
    b.part().results[0].weight = weight;
}

namespace {

/// The part holds only some rows of the table.
void mask_rows(PartBuilder& b, int result_dim) {
    const auto rows = b.find_factor("x");
    if (!rows || b.is_whole(*rows)) return;
    b.part().row_mask = RowMask{.operand = 1,
                                .extent = b.rule().factors[static_cast<std::size_t>(*rows)].extent,
                                .rows = b.range(*rows),
                                .result_dim = result_dim};
}

}  // namespace

void gather_part(PartBuilder& b) {
    const std::int64_t axis = b.attributes().get_int("axis", 0);
    const auto rank = static_cast<std::int64_t>(b.shape(0).size());
    mask_rows(b, static_cast<int>(axis < 0 ? axis + rank : axis));
}

void gather_elements_part(PartBuilder& b) {
    mask_rows(b, 0);
}

void group_norm_part(PartBuilder& b) {
    b.set_attribute("num_groups", b.count("g"));
}

namespace {

/// Some of causal attention's queries: they end at the last of the valid keys (nonpad_kv_seqlen,
/// since operator set 24), which says where they begin.
void place_causal_queries(PartBuilder& b) {
    constexpr int kValidKeys = 6;
    constexpr int kOpset = 24;
    const auto queries = b.find_factor("s");
    if (!queries || b.is_whole(*queries) || b.attributes().get_int("is_causal", 0) == 0) return;
    b.set_target("nonpad_kv_seqlen", kValidKeys,
                 std::vector(static_cast<std::size_t>(b.count("n")), b.range(*queries).end));
    if (b.part().opset > 0) b.part().opset = std::max(b.part().opset, kOpset);
}

/// h key-value heads with g query heads each.
void set_heads(PartBuilder& b) {
    if (b.attributes().find("q_num_heads") != nullptr) {
        b.set_attribute("q_num_heads", b.count("h") * b.count("g"));
    }
    if (b.attributes().find("kv_num_heads") != nullptr) {
        b.set_attribute("kv_num_heads", b.count("h"));
    }
}

}  // namespace

void attention_part(PartBuilder& b) {  // LinearAttention's, too
    set_heads(b);
    place_causal_queries(b);
}

void block_attention_part(PartBuilder& b) {
    set_heads(b);
    std::vector<std::int64_t> blocks;
    for (const Range range : b.positions("p")) {
        for (std::int64_t block = range.begin; block < range.end; ++block) blocks.push_back(block);
    }
    b.set_attribute("query_blocks", std::move(blocks));
    if (b.attributes().get_int("is_causal", 0) == 0) return;
    const int queries = b.find_factor("q").value();
    b.set_attribute("first_query", b.range(queries).begin);
    b.set_attribute("block_queries", b.rule().factors[static_cast<std::size_t>(queries)].extent);
}

void rotary_embedding_part(PartBuilder& b) {
    if (b.attributes().get_int("num_heads", 0) != 0) b.set_attribute("num_heads", b.count("h"));
}

void recurrent_part(PartBuilder& b) {
    b.set_attribute("hidden_size", b.count("h"));
    const auto directions = b.find_factor("d");
    if (!directions || b.is_whole(*directions)) return;
    const bool is_forward = b.range(*directions).begin == 0;
    b.set_attribute("direction", std::string(is_forward ? "forward" : "reverse"));
    const AttributeValue* value = b.attributes().find("activations");
    if (value == nullptr) return;
    const auto* names = std::get_if<std::vector<std::string>>(value);
    if (names == nullptr) return;
    const auto middle = names->begin() + static_cast<std::ptrdiff_t>(names->size() / 2);
    b.set_attribute("activations", is_forward ? std::vector<std::string>(names->begin(), middle)
                                              : std::vector<std::string>(middle, names->end()));
}

}  // namespace partita::graph
