// SPDX-License-Identifier: Apache-2.0
#include "plan/lowering/fused_collectives.h"

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>

#include "plan/lowering/planned_collectives.h"

namespace partita::plan {

using cost::Collective;

namespace {

/// At most that share of the time is left when those are fused that only end together.
constexpr double kMostLeftOfEqualEnds = 0.75;

bool is_exchange(Collective kind) {
    return kind == Collective::scatter || kind == Collective::gather ||
           kind == Collective::all_to_all;
}

}  // namespace

FusionSignature signature_of(const Problem& problem, const FusibleCollective& of) {
    const Task& task = *of.task;
    FusionSignature signature{.exchange = is_exchange(task.collective),
                              .devices = {of.devices.begin(), of.devices.end()},
                              .micro_batch = task.micro_batch,
                              .gradient = task.gradient,
                              .updated = task.updated,
                              .combine = task.combine};
    if (signature.exchange) {
        std::sort(signature.devices.begin(), signature.devices.end());
    } else {
        signature.kind = task.collective;
    }
    if (cost::reduces(task.collective)) {
        signature.dtype = problem.graph().tensor(task.tensor).type_of(task.gradient);
    }
    return signature;
}

namespace {

/// One tensor that moves twice would no longer know which values belong together.
bool has_repeated_tensor(std::span<const FusibleCollective> around, const FusedCollective& fused) {
    std::vector<graph::TensorId> tensors;
    for (const std::size_t i : fused.members) tensors.push_back(around[i].task->tensor);
    std::sort(tensors.begin(), tensors.end());
    return std::adjacent_find(tensors.begin(), tensors.end()) != tensors.end();
}

/// The first of its collectives; the others go alone.
void keep_each_tensor_once(std::span<const FusibleCollective> around,
                           std::vector<std::size_t>& members) {
    std::set<graph::TensorId> met;
    std::erase_if(members,
                  [&](std::size_t i) { return !met.insert(around[i].task->tensor).second; });
}

/// What the rank with the most of it gives or gets, as an all-to-all counts: padded.
Bytes exchanged(std::span<const FusibleCollective> around, const FusedCollective& fused) {
    const auto count = static_cast<std::int64_t>(fused.devices.size());
    std::vector<std::int64_t> given(fused.devices.size(), 0);
    std::vector<std::int64_t> got(fused.devices.size(), 0);
    for (const std::size_t m : fused.members) {
        const Task& member = *around[m].task;
        const std::int64_t all = member.bytes.raw();
        const std::int64_t share = (all + count - 1) / count;
        const bool scatters = member.collective == Collective::scatter;
        const bool gathers = member.collective == Collective::gather;
        for (std::size_t i = 0; i < fused.devices.size(); ++i) {
            const bool root = fused.devices[i] == member.device;
            const bool to_all = !scatters && !gathers;
            given[i] += to_all || (scatters && root) ? all : gathers ? share : 0;
            got[i] += to_all || (gathers && root) ? all : scatters ? share : 0;
        }
    }
    return Bytes(std::max(*std::max_element(given.begin(), given.end()),
                          *std::max_element(got.begin(), got.end())));
}

/// nullopt: they cannot be fused.
std::optional<FusedCollective> fuse(const TransferPrices& transfers,
                                    std::span<const FusibleCollective> around, FusionPlace place,
                                    const FusionSignature& signature,
                                    std::vector<std::size_t> members) {
    FusedCollective fused{.members = std::move(members), .devices = signature.devices};
    if (has_repeated_tensor(around, fused)) {
        if (place == FusionPlace::block) return std::nullopt;
        keep_each_tensor_once(around, fused.members);
        if (fused.members.size() < 2) return std::nullopt;
    }
    if (signature.exchange) {
        fused.bytes = exchanged(around, fused);
    } else {
        fused.kind = signature.kind;
        for (const std::size_t i : fused.members) fused.bytes += around[i].task->bytes;
    }
    fused.price = transfers.collective_price(
        {.kind = fused.kind, .devices = fused.devices, .bytes = fused.bytes});
    return fused;
}

bool is_cheaper(std::span<const FusibleCollective> around, const FusedCollective& fused) {
    Time apart;
    for (const std::size_t i : fused.members) apart += around[i].task->duration;
    const bool gradient = around[fused.members[0]].task->gradient;
    const double most = gradient ? 1 : kMostLeftOfEqualEnds;
    return static_cast<double>(fused.price.time.raw()) <= most * static_cast<double>(apart.raw());
}

/// Then the plan lists none of them alone.
bool is_planned(std::span<const FusibleCollective> around, const FusedCollective& fused,
                const PlannedCollectives& planned) {
    return std::none_of(fused.members.begin(), fused.members.end(),
                        [&](std::size_t i) { return planned.has(*around[i].task); });
}

}  // namespace

std::vector<FusedCollective> find_fused(const Problem& problem,
                                        std::span<const FusibleCollective> around,
                                        FusionPlace place, const PlannedCollectives* planned) {
    std::vector<std::pair<FusionSignature, std::size_t>> order;
    for (std::size_t i = 0; i < around.size(); ++i) {
        order.emplace_back(signature_of(problem, around[i]), i);
    }
    std::sort(order.begin(), order.end());
    std::vector<FusedCollective> found;
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t end = begin + 1;
        while (end < order.size() && order[end].first == order[begin].first) ++end;
        std::vector<std::size_t> members;
        for (std::size_t i = begin; i < end; ++i) members.push_back(order[i].second);
        if (members.size() > 1) {
            auto fused =
                fuse(problem.transfers(), around, place, order[begin].first, std::move(members));
            const auto is_wanted = [&] {
                if (planned != nullptr) return is_planned(around, *fused, *planned);
                return place == FusionPlace::bucket || is_cheaper(around, *fused);
            };
            if (fused && is_wanted()) found.push_back(std::move(*fused));
        }
        begin = end;
    }
    return found;
}

void become(Task& first, const FusedCollective& fused) {
    first.collective = fused.kind;
    first.fused = static_cast<std::int32_t>(fused.members.size()) - 1;
    first.bytes = fused.bytes;
    set_price(first, {fused.price.time, fused.price.source});
    first.algorithm = fused.price.algorithm;
    first.protocol = fused.price.protocol;
    first.device = fused.devices[0];
}

}  // namespace partita::plan
