// SPDX-License-Identifier: Apache-2.0
#include "search/hybrid_parallel/intra_op/group_prices.h"

namespace partita::search {

using cost::Collective;
using graph::TensorId;
using plan::Problem;

namespace {

std::vector<int> devices_of(const plan::DeviceSet& set) {
    std::vector<int> devices;
    for (int i = 0; i < set.size(); ++i) devices.push_back(set[i]);
    return devices;
}

}  // namespace

GroupPrices::GroupPrices(const Problem& problem, const GroupSplitOptions& options)
    : problem_(problem),
      group_(devices_of(options.group)),
      replicas_(devices_of(options.replicas)),
      micro_batches_(options.micro_batches),
      exchanges_(problem.graph().tensor_count()) {
    for (std::size_t i = 0; i < exchanges_.size(); ++i) price(TensorId(i));
}

Time GroupPrices::move(TensorId t, FormNumber from, FormNumber to) const {
    if (from == to || from == kWholeForm) return Time{0};
    const Exchanges& of = exchanges_[t.index()];
    const bool to_shards = to >= kFirstShards;
    if (from == kPartialForm) return to_shards ? of.reduce_scatter : of.all_reduce;
    return to_shards ? of.all_to_all : of.all_gather;
}

Time GroupPrices::update(TensorId t, FormNumber home) const {
    return exchanges_[t.index()].update[home >= kFirstShards ? 1 : 0];
}

void GroupPrices::price(TensorId t) {
    if (problem_.facts().is_resident(t)) return;
    const auto devices = static_cast<std::int64_t>(group_.size());
    const auto groups = static_cast<std::int64_t>(replicas_.size());
    const bool batched = problem_.facts().is_batched(t);
    const std::int64_t times = batched ? micro_batches_ : 1;
    const Bytes whole = problem_.facts().tensor_bytes(t);
    const Bytes bytes(whole.raw() / ((batched ? groups : 1) * times));
    Exchanges& of = exchanges_[t.index()];
    of.all_reduce = times * collective(Collective::all_reduce, group_, bytes);
    of.reduce_scatter = times * collective(Collective::reduce_scatter, group_, bytes);
    of.all_gather = times * collective(Collective::all_gather, group_, bytes);
    of.all_to_all =
        times * collective(Collective::all_to_all, group_, Bytes(bytes.raw() / devices));
    const graph::OpId producer = problem_.graph().tensor(t).producer;
    const bool trained = problem_.graph().op(producer).kind == graph::OpKind::parameter;
    if (!trained || !problem_.facts().has_gradient(t)) return;
    for (const std::int64_t shards : {std::int64_t{1}, devices}) {
        Time time(problem_.prices().update_time(producer, group_[0]).raw() / shards);
        if (groups > 1) {
            time += collective(Collective::all_reduce, replicas_, Bytes(whole.raw() / shards));
        }
        of.update[shards > 1 ? 1 : 0] = time;
    }
}

Time GroupPrices::collective(Collective kind, const std::vector<int>& devices, Bytes bytes) {
    const auto [known, is_new] = known_.emplace(std::tuple(kind, devices.size(), bytes), Time{0});
    if (is_new) {
        known->second = problem_.transfers()
                            .collective_price({.kind = kind, .devices = devices, .bytes = bytes})
                            .time;
    }
    return known->second;
}

}  // namespace partita::search
