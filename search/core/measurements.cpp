// SPDX-License-Identifier: Apache-2.0
#include "search/core/measurements.h"

#include "base/sha256.h"

namespace partita::search {
namespace {

void add(Sha256& sha, const plan::OpConfig& config) {
    sha.add(std::ssize(config.axes));
    for (const plan::Axis& axis : config.axes) {
        sha.add(static_cast<int>(axis.kind)).add(axis.factor).add(axis.operand);
        sha.add(axis.blocks).add(axis.degree);
    }
    sha.add(config.devices.size());
    for (int part = 0; part < config.devices.size(); ++part) sha.add(config.devices[part]);
}

void add(Sha256& sha, const plan::OpDecision& decision) {
    add(sha, decision.config);
    const plan::UpdateConfig& update = decision.update;
    add(sha, update.update);
    sha.add(update.accumulate_locally ? 1 : 0).add(update.refetch ? 1 : 0);
    sha.add(name_of(decision.recompute));
}

void add(Sha256& sha, const plan::Policy& policy) {
    sha.add(policy.micro_batches).add(to_text(policy.schedule)).add(name_of(policy.optimizer));
    sha.add(name_of(policy.loss)).add(policy.loss_output).add(name_of(policy.gradient_sync));
    sha.add(policy.gather_again ? 1 : 0).add(policy.bucket_bytes.value_or(Bytes{0}).raw());
    sha.add(plan::clip_norm_text(policy.clip_norm));
}

}  // namespace

std::optional<Time> Measurements::time(const plan::Strategy& strategy) {
    std::string key = digest(strategy);
    const auto at = known_.find(key);
    if (at != known_.end()) return at->second;
    return known_.emplace(std::move(key), measure_(strategy)).first->second;
}

std::string digest(const plan::Strategy& strategy) {
    Sha256 sha;
    add(sha, strategy.policy);
    sha.add(std::ssize(strategy.ops));
    for (const plan::OpDecision& decision : strategy.ops) add(sha, decision);
    return sha.finish();
}

}  // namespace partita::search
