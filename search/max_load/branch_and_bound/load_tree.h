// SPDX-License-Identifier: Apache-2.0
//
// Branch and bound over assignments of a load graph (search/max_load/model/load_graph.h) whose
// largest load is less than a target. A node says which devices every vertex may still use:
//
//     propagate   what is fixed already, with one more vertex or one more cut net, would reach the target, or
//                 not fit the memory: exclude, or force
//     relax       dual ascent from the prices of the parent (search/max_load/branch_and_bound/load_relaxation.h): prune, or exclude what
//                 its reduced costs exclude
//     branch      of some heavy vertices of which the relaxation does not know where to put them, on the one
//                 that leaves least to do after propagation; the most likely device first, depth first
//
// Symmetry: devices of one kind with nothing fixed on them and the same vertices excluded are
// interchangeable: only the first of them gets a branch, and what is excluded on one is on all.
// Exact: all that prunes is integer. Random: none. Memory: prices of a path of the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "search/max_load/branch_and_bound/load_masks.h"
#include "search/max_load/branch_and_bound/load_relaxation.h"
#include "search/max_load/model/load_graph.h"

namespace partita::search {

struct LoadTreeOptions {
    int root_steps = 1'000;  ///< of the ascent
    int steps = 60;          ///< of the ascent in every other node
};

class LoadTree {
public:
    /// `problem` must outlive it; it has at most kMostMaskDevices devices.
    explicit LoadTree(const LoadProblem& problem, LoadTreeOptions options = {});

    /// Of one step of an ascent on that problem, the unit that advance() counts in.
    [[nodiscard]] static std::int64_t operations_per_step(const LoadProblem& problem);

    /// From the root on: is there an assignment with a largest load less than `target`?
    void look_below(std::int64_t target);

    /// Goes on for about so many operations, of 1 ns. True: there is none, or solution() is one.
    bool advance(std::int64_t operations);

    /// Device per vertex; nullopt: none was found.
    [[nodiscard]] const std::optional<std::vector<std::int32_t>>& solution() const {
        return solution_;
    }
    [[nodiscard]] std::int64_t nodes() const { return nodes_; }  ///< of all targets
    [[nodiscard]] std::int64_t operations() const {
        return spent_;
    }  ///< of all targets, as advance() counts

private:
    struct Node {
        std::vector<DeviceMask> masks;
        std::shared_ptr<const LoadPrices> prices;
    };

    void expand(Node node);
    [[nodiscard]] bool relax(Node& node);
    void exclude_by_price(std::vector<DeviceMask>& masks);
    void branch(Node node);
    void find_candidates(const std::vector<DeviceMask>& masks);
    double try_vertex(const std::vector<DeviceMask>& masks, std::size_t v, DeviceMask& possible);
    void take_solution(const std::vector<DeviceMask>& masks);

    const LoadProblem& problem_;
    LoadTreeOptions options_;
    LoadMasks rules_;
    LoadRelaxation relaxation_;
    std::vector<double> weight_;  ///< of vertices: how much depends on where they go
    std::vector<Node> open_;
    std::vector<std::size_t> twins_;
    std::vector<std::pair<double, std::size_t>> candidates_;
    std::vector<DeviceMask> tried_;
    std::int64_t target_ = 0;
    std::int64_t per_step_ = 1;  ///< operations
    std::int64_t operations_ = 0;
    std::int64_t nodes_ = 0;
    std::int64_t spent_ = 0;
    std::optional<std::vector<std::int32_t>> solution_;
};

}  // namespace partita::search
