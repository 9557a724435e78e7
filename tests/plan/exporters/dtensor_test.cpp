// SPDX-License-Identifier: Apache-2.0
//
// Exported placements, expanded as DTensor does it, are the layouts of the plan; where there are
// none, none would be.
#include "plan/exporters/dtensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/plan/exporters/merged_network.h"
#include "tests/plan/layout/laid_out.h"
#include "tests/plan/layout/random_layouts.h"
#include "tests/plan/random_programs.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using nlohmann::json;
using search::Random;

/// What the file says of one tensor.
struct Exported {
    json mesh;
    json tensor;
};

std::vector<Exported> read(const std::string& text) {
    const json file = json::parse(text);
    std::vector<Exported> all;
    for (const json& op : file["ops"]) {
        for (const char* side : {"operands", "results"}) {
            for (const json& tensor : op[side]) {
                if (!tensor.is_null())
                    all.push_back({file["meshes"][op["mesh"].get<int>()], tensor});
            }
        }
        if (!op.contains("update")) continue;
        all.push_back(
            {file["meshes"][op["update"]["mesh"].get<int>()], op["update"]["results"][0]});
    }
    return all;
}

/// Per mesh dim the coordinate of a rank, which stands at `position` of the mesh.
std::vector<std::int64_t> coordinates(const std::vector<std::int64_t>& shape,
                                      std::int64_t position) {
    std::vector<std::int64_t> coordinates(shape.size());
    for (std::size_t i = shape.size(); i-- > 0; position /= shape[i]) {
        coordinates[i] = position % shape[i];
    }
    return coordinates;
}

/// The shard of a rank: mesh dims from left to right, each a torch.chunk of what is left. `dims`:
/// per mesh dim the tensor dim that it shards, or -1.
std::vector<Indices> shard(const LaidOut& tensor, const std::vector<std::int64_t>& shape,
                           const std::vector<int>& dims, std::int64_t position) {
    std::vector<Indices> local = tensor.whole;
    const auto at = coordinates(shape, position);
    for (std::size_t a = 0; a < dims.size(); ++a) {
        if (dims[a] < 0) continue;
        auto& of_dim = local[static_cast<std::size_t>(dims[a])];
        of_dim = chunk(of_dim, shape[a], at[a]);
    }
    return local;
}

bool says(const std::vector<LaidOut>& micro_batches, const std::vector<std::int64_t>& shape,
          const std::vector<int>& dims) {
    for (const LaidOut& tensor : micro_batches) {
        for (std::size_t p = 0; p < tensor.pieces.size(); ++p) {
            const auto local = shard(tensor, shape, dims, static_cast<std::int64_t>(p));
            if (!says(tensor, tensor.pieces[p], local)) return false;
        }
    }
    return true;
}

/// Does any assignment of dims to mesh dims say it?
bool anything_says(const std::vector<LaidOut>& micro_batches,
                   const std::vector<std::int64_t>& shape) {
    const int rank = static_cast<int>(micro_batches[0].whole.size());
    std::vector<int> dims(shape.size(), -1);
    for (;;) {
        if (says(micro_batches, shape, dims)) return true;
        std::size_t a = 0;
        while (a < dims.size() && ++dims[a] == rank) dims[a++] = -1;
        if (a == dims.size()) return false;
    }
}

/// Counts what was expressible and what was not.
void expect_placements(const Exported& exported, const std::vector<LaidOut>& micro_batches,
                       ExportCounts& counts) {
    const auto shape = exported.mesh["shape"].get<std::vector<std::int64_t>>();
    const auto ranks = exported.mesh["ranks"].get<std::vector<int>>();
    const LaidOut& first = micro_batches[0];
    ASSERT_EQ(ranks.size(), first.pieces.size());
    if (exported.tensor.contains("not_expressible")) {
        ++counts.unsaid;
        const bool has_name = first.combine != graph::Combine::log_sum_exp;
        EXPECT_TRUE(!has_name || first.is_windowed() || !anything_says(micro_batches, shape))
            << exported.tensor;
        return;
    }
    std::vector<int> dims;
    std::vector<bool> partial;
    for (const std::string placement : exported.tensor["placements"]) {
        partial.push_back(placement.starts_with("Partial"));
        dims.push_back(placement.starts_with("Shard(") ? std::stoi(placement.substr(6)) : -1);
        if (partial.back()) {
            EXPECT_EQ(placement, "Partial('" + std::string(name_of(first.combine)) + "')");
        }
        if (partial.back() || dims.back() >= 0) continue;
        EXPECT_EQ(placement, "Replicate()");
    }
    ASSERT_EQ(dims.size(), shape.size());
    EXPECT_TRUE(says(micro_batches, shape, dims)) << exported.tensor;
    for (std::size_t p = 0; p < first.pieces.size(); ++p) {
        EXPECT_EQ(ranks[p], first.pieces[p].device);
        const auto at = coordinates(shape, static_cast<std::int64_t>(p));
        std::int64_t summand = 0;
        for (std::size_t a = 0; a < shape.size(); ++a) {
            if (partial[a]) summand = summand * shape[a] + at[a];
        }
        EXPECT_EQ(summand, first.pieces[p].summand) << exported.tensor;
    }
    ++counts.said;
    for (const bool is_partial : partial) counts.partial += is_partial ? 1 : 0;
}

void expect_faithful(const Problem& problem, const Strategy& strategy, ExportCounts& counts) {
    const auto exported = read(dtensor({.problem = problem, .strategy = strategy}));
    const auto expected = laid_out(problem, strategy);
    ASSERT_EQ(exported.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        expect_placements(exported[i], expected[i], counts);
    }
}

TEST(DTensor, PlacementsExpandToTheLayoutsOfRandomSplits) {
    expect_faithful_to_random_splits(expect_faithful);
}

TEST(DTensor, PlacementsExpandToTheLayoutsOfMergedDims) {
    MergedNetwork().expect_faithful(expect_faithful);
}

TEST(DTensor, TextIsAsReviewed) {
    const MergedNetwork network;
    network.expect_golden("dtensor.json",
                          dtensor({.problem = network.problem(), .strategy = network.reviewed()}));
}

}  // namespace
}  // namespace partita::plan
