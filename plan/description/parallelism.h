// SPDX-License-Identifier: Apache-2.0
//
// What people call a strategy, read off one: data, tensor, pipeline, context and expert parallelism.
//
// Degrees are those of products with weights (product_split.h), because that is what the words are of.
//
// Nobody declares any of it: strategies of any searcher have such a description. How much of it they
// keep to is `share`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "plan/description/product_split.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/strategy/zero_level.h"

namespace partita::plan {

/// Products that are split alike.
struct SplitProducts {
    ProductSplit split;
    int products = 0;
    double share = 0;                ///< of the FLOPs of all products with weights
    std::vector<std::string> names;  ///< of their weights without layer blocks, each once
};

/// Parameters that are kept alike.
struct KeptParameters {
    int parts = 1;   ///< that are different
    int copies = 1;  ///< devices that keep each
    int update_parts =
        1;  ///< training: into how many parts updates (optimizer states) are cut; 0: none
    ZeroLevel zero = ZeroLevel::none;
    Bytes bytes;  ///< of the whole parameters
};

/// Devices that share ops, in the order of the data (plan/legality/stages.h).
struct StageOps {
    int devices = 0;
    std::int64_t ops = 0;
    double share = 0;  ///< of the FLOPs of all ops
    /// Layer blocks that have more of their FLOPs here than on any other stage, in the model's order.
    std::vector<std::string> blocks;
};

struct Parallelism {
    int devices = 0;  ///< that run ops
    int chunks = 1;   ///< passes of the data through all stages
    int data = 1;     ///< of most products, by FLOPs, as those below
    int tensor = 1;
    int context = 1;
    int experts = 1;  ///< of products of experts, whose other degrees do not count
    int replicas = 1;
    /// Of the FLOPs of products those that are split so, and those of so many experts; 0: no products.
    double share = 0;
    ZeroLevel zero = ZeroLevel::none;  ///< of most bytes of parameters
    std::vector<StageOps> stages;
    std::vector<SplitProducts> products;     ///< most FLOPs first
    std::vector<KeptParameters> parameters;  ///< most bytes first

    /// Are all products split so, in stages of as many devices that the data passes in turn?
    [[nodiscard]] bool regular(const Policy& policy) const;
};

Parallelism parallelism_of(const Problem& problem, const Strategy& strategy);

/// Two to six lines: degrees, what is split how, stages, parameters, what is otherwise.
std::vector<std::string> lines_of(const Parallelism& parallelism, const Policy& policy);

}  // namespace partita::plan
