// SPDX-License-Identifier: Apache-2.0
//
// Reads back the text of an exported Shardy module, as far as shardings go, and expands these:
// written against the dialect's grammar, not against the exporter.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/plan/layout/laid_out.h"

namespace partita::plan {

/// "a", or "a":(before)size of it.
struct ShardyAxis {
    std::string name;
    std::int64_t before = 1;
    std::int64_t size = 0;
};

struct ShardyMeshText {
    std::vector<std::pair<std::string, std::int64_t>> axes;
    std::vector<int> ids;

    /// Position 0 is all axes at their first step; the last axis steps fastest.
    [[nodiscard]] std::int64_t coordinate(const ShardyAxis& axis, std::int64_t position) const;
};

struct ShardyShardingText {
    std::string text;
    std::string mesh;
    std::vector<std::vector<ShardyAxis>> dims;
    std::vector<ShardyAxis> unreduced;
    bool open = false;  ///< some dim is: nothing is said
};

struct ShardyOp {
    std::vector<ShardyShardingText> operands;  ///< those that are there
    std::vector<ShardyShardingText> results;
    std::vector<ShardyShardingText> update;  ///< none or one
};

struct ShardyModule {
    std::map<std::string, ShardyMeshText> meshes;
    std::map<std::string, ShardyOp> ops;  ///< by name, sources and outputs too
};

ShardyModule read_shardy(const std::string& text);

}  // namespace partita::plan
