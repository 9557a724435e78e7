// SPDX-License-Identifier: Apache-2.0
#include "plan/exporters/nccl_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace partita::plan {
namespace {

using cost::Algorithm;
using cost::Collective;
using cost::Protocol;

/// Empty: NCCL does not tune it.
std::string_view nccl_name(Collective collective) {
    switch (collective) {
    case Collective::all_reduce: return "allreduce";
    case Collective::all_gather: return "allgather";
    case Collective::reduce_scatter: return "reducescatter";
    case Collective::broadcast: return "broadcast";
    case Collective::reduce: return "reduce";
    case Collective::all_to_all:
    case Collective::scatter:
    case Collective::gather: break;
    }
    return {};
}

/// Empty: NCCL does not have it.
std::string_view nccl_name(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::nvls: return "nvls";
    case Algorithm::nvls_tree: return "nvls_tree";
    case Algorithm::collnet_direct: return "collnet_direct";
    case Algorithm::collnet_chain: return "collnet_chain";
    case Algorithm::pat: return "pat";
    case Algorithm::pipelined_tree:
    case Algorithm::butterfly:
    case Algorithm::halving_doubling:
    case Algorithm::one_shot:
    case Algorithm::all_to_all:
    case Algorithm::parameter_server:
    case Algorithm::master_worker:
    case Algorithm::round_robin:
    case Algorithm::direct:
    case Algorithm::hierarchical:
    case Algorithm::torus:
    case Algorithm::library: break;
    }
    return {};
}

/// What NCCL can tell calls apart by, apart from their size.
struct Shape {
    Collective collective = Collective::all_reduce;
    int nodes = 0;
    int ranks = 0;
    auto operator<=>(const Shape&) const = default;
};

struct Choice {
    Algorithm algorithm = Algorithm::ring;
    Protocol protocol = Protocol::simple;
    auto operator<=>(const Choice&) const = default;
};

/// Why a collective has no row; empty: it has one.
std::string_view why_left_out(const Task& task) {
    if (nccl_name(task.collective).empty()) return "NCCL does not tune this collective";
    if (task.algorithm == Algorithm::library) return "its measured time is of NCCL's own choice";
    if (nccl_name(task.algorithm).empty()) return "NCCL does not have this algorithm";
    if (task.protocol == Protocol::none) return "the plan's cost model knows no protocols";
    return {};
}

struct LeftOut {
    int calls = 0;
    Bytes least = Bytes::max();
    Bytes most;
};

class TunerFile {
public:
    explicit TunerFile(const ExportInput& input) : problem_(input.problem) {
        if (input.tasks == nullptr) return;
        const TaskGraph& tasks = *input.tasks;
        for (std::size_t i = 0; i < tasks.size(); ++i) {
            if (tasks.tasks[i].kind == TaskKind::collective) add(i, tasks);
        }
    }

    [[nodiscard]] std::string text() const {
        std::string text =
            "# NCCL tuner configuration written by Partita: NCCL_TUNER_CONFIG_FILE of NCCL's "
            "example tuner plugin\n"
            "# coll,min,max,algo,proto,channels,nNodes,nRanks,numPipeOps,regBuff\n";
        for (const auto& [key, left] : left_out_) {
            const auto& [shape, algorithm, why] = key;
            text += fmt::format("# left out: {}, {}, {}: {}\n", described(shape), counted(left),
                                cost::name_of(algorithm), why);
        }
        for (const auto& [shape, sizes] : calls_) text += rows_of(shape, sizes);
        return text;
    }

private:
    using Times = std::map<Choice, Int128>;  ///< picoseconds by choice
    using Sizes = std::map<Bytes, Times>;

    void add(std::size_t index, const TaskGraph& tasks) {
        const Task& task = tasks.tasks[index];
        const std::int32_t copies = tasks.copies_of(index);
        const auto devices = tasks.ranks[static_cast<std::size_t>(task.ranks)];
        std::set<int> nodes;
        for (const int device : devices) nodes.insert(problem_.machine().device(device).node);
        const Shape shape{task.collective, static_cast<int>(nodes.size()),
                          static_cast<int>(devices.size())};
        if (const auto why = why_left_out(task); !why.empty()) {
            LeftOut& left = left_out_[{shape, task.algorithm, why}];
            left.calls += copies;
            left.least = std::min(left.least, task.bytes);
            left.most = std::max(left.most, task.bytes);
            return;
        }
        calls_[shape][task.bytes][{task.algorithm, task.protocol}] +=
            Int128{copies} * task.duration.raw();
    }

    static std::string described(const Shape& shape) {
        return fmt::format("{} on {} ranks of {} node{}", cost::name_of(shape.collective),
                           shape.ranks, shape.nodes, shape.nodes == 1 ? "" : "s");
    }

    static std::string counted(const LeftOut& left) {
        return fmt::format("{} call{} of {} to {} bytes", left.calls, left.calls == 1 ? "" : "s",
                           left.least.raw(), left.most.raw());
    }

    /// The choice on which most time is spent; of equals the first.
    static Choice chosen(const Times& times) {
        return std::ranges::max_element(times, {}, [](const auto& each) { return each.second; })
            ->first;
    }

    static std::string rows_of(const Shape& shape, const Sizes& sizes) {
        std::string text;
        for (auto first = sizes.begin(); first != sizes.end();) {
            const Choice choice = chosen(first->second);
            auto last = first;
            for (auto next = first; next != sizes.end() && chosen(next->second) == choice; ++next) {
                if (next->second.size() > 1) {
                    text += fmt::format("# {}, {} bytes: groups differ, {} {} takes most time\n",
                                        described(shape), next->first.raw(),
                                        cost::name_of(choice.algorithm),
                                        cost::name_of(choice.protocol));
                }
                last = next;
            }
            text += fmt::format("{},{},{},{},{},-1,{},{},-1,-1\n", nccl_name(shape.collective),
                                first->first.raw(), last->first.raw(), nccl_name(choice.algorithm),
                                cost::name_of(choice.protocol), shape.nodes, shape.ranks);
            first = std::next(last);
        }
        return text;
    }

    const Problem& problem_;
    std::map<Shape, Sizes> calls_;
    std::map<std::tuple<Shape, Algorithm, std::string_view>, LeftOut> left_out_;
};

}  // namespace

std::string nccl_tuner(const ExportInput& input) {
    return TunerFile(input).text();
}

}  // namespace partita::plan
