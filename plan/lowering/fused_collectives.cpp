// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/fused_collectives.h"

#include <algorithm>
#include <compare>
#include <optional>
#include <tuple>

#include "plan/lowering/planned_collectives.h"

namespace partita::plan {

using cost::Collective;

namespace {

/// At most that share of the time is left when those are joined that only end together.
constexpr double kMostLeftOfEqualEnds = 0.75;

bool is_exchange(Collective kind) {
    return kind == Collective::scatter || kind == Collective::gather ||
           kind == Collective::all_to_all;
}

/// What collectives must have in common.
struct Likeness {
    bool exchange = false;
    Collective kind = Collective::all_to_all;  ///< of those that are no exchanges
    std::vector<std::int32_t> devices;         ///< of exchanges rising, else in order of rank
    std::int32_t micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    graph::Combine combine = graph::Combine::none;
    graph::DType dtype = graph::DType::undefined;  ///< of those that combine
    friend auto operator<=>(const Likeness&, const Likeness&) = default;
};

Likeness likeness_of(const Problem& problem, const Joinable& of) {
    const Task& task = *of.task;
    Likeness likeness{.exchange = is_exchange(task.collective),
                      .devices = {of.devices.begin(), of.devices.end()},
                      .micro_batch = task.micro_batch,
                      .gradient = task.gradient,
                      .updated = task.updated,
                      .combine = task.combine};
    if (likeness.exchange) {
        std::sort(likeness.devices.begin(), likeness.devices.end());
    } else {
        likeness.kind = task.collective;
    }
    if (cost::reduces(task.collective)) {
        likeness.dtype = problem.graph().tensor(task.tensor).dtype;
    }
    return likeness;
}

/// One tensor that moves twice would no longer know which values belong together.
bool has_repeated_tensor(std::span<const Joinable> around, const Join& join) {
    std::vector<graph::TensorId> tensors;
    for (const std::size_t i : join.members) tensors.push_back(around[i].task->tensor);
    std::sort(tensors.begin(), tensors.end());
    return std::adjacent_find(tensors.begin(), tensors.end()) != tensors.end();
}

/// What the rank with the most of it gives or gets, as an all-to-all counts: padded.
Bytes exchanged(std::span<const Joinable> around, const Join& join) {
    const auto count = static_cast<std::int64_t>(join.devices.size());
    std::vector<std::int64_t> given(join.devices.size(), 0);
    std::vector<std::int64_t> got(join.devices.size(), 0);
    for (const std::size_t m : join.members) {
        const Task& member = *around[m].task;
        const std::int64_t all = member.bytes.raw();
        const std::int64_t share = (all + count - 1) / count;
        const bool scatters = member.collective == Collective::scatter;
        const bool gathers = member.collective == Collective::gather;
        for (std::size_t i = 0; i < join.devices.size(); ++i) {
            const bool root = join.devices[i] == member.device;
            const bool to_all = !scatters && !gathers;
            given[i] += to_all || (scatters && root) ? all : gathers ? share : 0;
            got[i] += to_all || (gathers && root) ? all : scatters ? share : 0;
        }
    }
    return Bytes(std::max(*std::max_element(given.begin(), given.end()),
                          *std::max_element(got.begin(), got.end())));
}

/// nullopt: they cannot be joined.
std::optional<Join> joined(const Problem& problem, std::span<const Joinable> around,
                           const Likeness& likeness, std::vector<std::size_t> members) {
    Join join{.members = std::move(members), .devices = likeness.devices};
    if (has_repeated_tensor(around, join)) return std::nullopt;
    if (likeness.exchange) {
        join.bytes = exchanged(around, join);
    } else {
        join.kind = likeness.kind;
        for (const std::size_t i : join.members) join.bytes += around[i].task->bytes;
    }
    join.price =
        problem.collective_price({.kind = join.kind, .devices = join.devices, .bytes = join.bytes});
    return join;
}

bool is_cheaper(std::span<const Joinable> around, const Join& join) {
    Time apart;
    for (const std::size_t i : join.members) apart += around[i].task->duration;
    const bool gradient = around[join.members[0]].task->gradient;
    const double most = gradient ? 1 : kMostLeftOfEqualEnds;
    return static_cast<double>(join.price.time.raw()) <= most * static_cast<double>(apart.raw());
}

/// Then the plan lists none of them alone.
bool is_planned(std::span<const Joinable> around, const Join& join,
                const PlannedCollectives& planned) {
    return std::none_of(join.members.begin(), join.members.end(),
                        [&](std::size_t i) { return planned.has(*around[i].task); });
}

}  // namespace

std::vector<Join> find_joins(const Problem& problem, std::span<const Joinable> around,
                             const PlannedCollectives* planned) {
    std::vector<std::pair<Likeness, std::size_t>> order;
    for (std::size_t i = 0; i < around.size(); ++i) {
        order.emplace_back(likeness_of(problem, around[i]), i);
    }
    std::sort(order.begin(), order.end());
    std::vector<Join> joins;
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin + 1;
        while (end < order.size() && order[end].first == order[begin].first) ++end;
        std::vector<std::size_t> members;
        for (std::size_t i = begin; i < end; ++i) members.push_back(order[i].second);
        if (members.size() > 1) {
            auto join = joined(problem, around, order[begin].first, std::move(members));
            const bool wanted = join && (planned != nullptr ? is_planned(around, *join, *planned)
                                                            : is_cheaper(around, *join));
            if (wanted) joins.push_back(std::move(*join));
        }
        begin = end;
    }
    return joins;
}

void become(Task& first, const Join& join) {
    first.collective = join.kind;
    first.joined = static_cast<std::int32_t>(join.members.size()) - 1;
    first.bytes = join.bytes;
    set_price(first, {join.price.time, join.price.source});
    first.algorithm = join.price.algorithm;
    first.protocol = join.price.protocol;
    first.device = join.devices[0];
}

}  // namespace partita::plan
