// SPDX-License-Identifier: Apache-2.0
#include "plan/layout_cache.h"

#include <algorithm>
#include <string_view>

#include "plan/batch.h"
#include "plan/tensor_lowering.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::TensorId;

namespace {

class Hash {
public:
    void add(std::int64_t value) {
        hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0xBF58476D1CE4E5B9U;
        hash_ ^= hash_ >> 29U;
    }
    void add(std::string_view text) {
        for (const char letter : text) add(static_cast<std::int64_t>(letter));
    }
    [[nodiscard]] std::size_t value() const { return hash_; }

private:
    std::uint64_t hash_ = 0x9E3779B97F4A7C15U;
};

std::size_t hash_of(const Layout& layout) {
    Hash hash;
    hash.add(layout.summands);
    for (const Piece& piece : layout.pieces) {
        hash.add(piece.device);
        hash.add(piece.region);
        hash.add(piece.summand);
    }
    return hash.value();
}

std::size_t hash_of(OpId op, const OpConfig& config, int micro_batches, int micro_batch) {
    Hash hash;
    hash.add(op.value);
    hash.add(micro_batches);
    hash.add(micro_batch);
    for (const FactorDegree& axis : config.degrees) {
        hash.add(axis.factor);
        hash.add(axis.degree);
    }
    hash.add(config.devices.size());
    const int devices = config.devices.is_list() ? config.devices.size() : 1;
    for (int i = 0; i < devices; ++i) hash.add(config.devices[i]);
    hash.add(config.devices.stride());
    return hash.value();
}

std::size_t hash_of(std::int32_t alike, const TensorKey& key) {
    Hash hash;
    hash.add(alike);
    hash.add(key.micro_batches);
    hash.add((key.refetch ? 2 : 0) + (key.accumulate_locally ? 1 : 0));
    hash.add(static_cast<std::int64_t>(key.optimizer));
    for (const std::int32_t layout : key.layouts) hash.add(layout);
    return hash.value();
}

bool has_window(const graph::TensorRule& tensor) {
    return std::any_of(tensor.dims.begin(), tensor.dims.end(),
                       [](const graph::DimRule& dim) { return dim.window.has_value(); });
}

}  // namespace

std::int32_t LayoutTable::intern(Layout layout) {
    const std::size_t hash = hash_of(layout);
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if ((*this)[it->second] == layout) return it->second;
    }
    const auto id = static_cast<std::int32_t>(layouts_.size());
    layouts_.push_back(std::move(layout));
    by_hash_.emplace(hash, id);
    return id;
}

const Reshard& LayoutTable::reshard(std::int32_t from, std::int32_t to, RegionTable& regions,
                                    const cost::Machine& machine) {
    std::unique_ptr<Reshard>& known = reshards_[{from, to}];
    if (!known) {
        known =
            std::make_unique<Reshard>(plan_reshard((*this)[from], (*this)[to], regions, machine));
    }
    return *known;
}

bool LayoutTable::is_local(std::int32_t from, std::int32_t to, const RegionTable& regions) {
    if (from == to) return true;
    const auto [known, is_new] = local_.emplace(std::pair{from, to}, false);
    if (is_new) known->second = plan::is_local((*this)[from], (*this)[to], regions);
    return known->second;
}

LayoutCache::LayoutCache(const Problem& problem)
    : problem_(problem), regions_(std::make_shared<RegionTable>()), lanes_(problem) {
    for (int d = 0; d < problem.device_count(); ++d) {
        const auto device_class = static_cast<std::size_t>(problem.device_class(d));
        if (device_class >= class_devices_.size()) class_devices_.resize(device_class + 1, -1);
        if (class_devices_[device_class] < 0) class_devices_[device_class] = d;
    }
}

bool LayoutCache::is_large() const {
    constexpr std::size_t kMostRegions = 1'000'000;
    constexpr std::size_t kMostEntries = 300'000;
    constexpr std::size_t kMostTasks = 2'000'000;
    return regions_->size() > kMostRegions || entries_.size() > kMostEntries ||
           kept_tasks_ > kMostTasks;
}

bool LayoutCache::forget_if_large() {
    if (!is_large()) return false;
    entries_.clear();
    tensors_.clear();
    kept_tasks_ = 0;
    layouts_ = {};
    regions_ = std::make_shared<RegionTable>();
    return true;
}

const std::vector<TensorEvents>& LayoutCache::events(int micro_batches) {
    const auto known = events_.find(micro_batches);
    if (known != events_.end()) return known->second;
    return events_.emplace(micro_batches, tensor_events(problem_, micro_batches)).first->second;
}

const TensorTasks& LayoutCache::tasks(std::size_t row, const TensorKey& key) {
    const TensorEvents& events = this->events(key.micro_batches)[row];
    const std::size_t hash = hash_of(events.alike, key);
    const auto [begin, end] = tensors_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if (it->second->alike == events.alike && it->second->key == key) return it->second->tasks;
    }
    auto entry = std::make_unique<TensorEntry>(
        TensorEntry{events.alike, key,
                    TensorLowering(problem_, layouts_, *regions_, lanes_, events, key).run()});
    kept_tasks_ += 1 + entry->tasks.tasks.size();
    return tensors_.emplace(hash, std::move(entry))->second->tasks;
}

const OpLayouts& LayoutCache::of(OpId op, const OpConfig& config, int micro_batches,
                                 int micro_batch) {
    if (!problem_.is_batched(op)) {  // the same in all
        micro_batches = 1;
        micro_batch = 0;
    }
    const std::size_t hash = hash_of(op, config, micro_batches, micro_batch);
    const auto [begin, end] = entries_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        const Entry& entry = *it->second;
        if (entry.op == op && entry.micro_batches == micro_batches &&
            entry.micro_batch == micro_batch && entry.config == config) {
            return entry.layouts;
        }
    }
    auto entry = std::make_unique<Entry>(Entry{op, config, micro_batches, micro_batch, {}});
    fill(*entry);
    return entries_.emplace(hash, std::move(entry))->second->layouts;
}

/// The whole tensor in one piece.
std::int32_t LayoutCache::whole_layout(TensorId t, int device) {
    const std::int32_t region =
        regions_->intern(graph::whole_region(problem_.graph().tensor(t).shape));
    return layouts_.intern({.pieces = {{.device = device, .region = region}}});
}

void LayoutCache::fill(Entry& entry) {
    const Op& op = problem_.graph().op(entry.op);
    const graph::OpRule& rule = problem_.rule(entry.op);
    const bool whole = entry.config.degrees.empty() && entry.micro_batches == 1;
    const Parts parts(
        rule, entry.config,
        whole ? graph::whole_box(rule)
              : micro_batch_box(problem_, entry.op, entry.micro_batches, entry.micro_batch));
    OpLayouts& of = entry.layouts;
    of.parts = parts.size();
    for (int p = 0; p < of.parts; ++p) of.devices.push_back(entry.config.devices[p]);
    const auto add = [&](std::vector<std::int32_t>& to, Side side, std::size_t i, TensorId t,
                         const graph::TensorRule& tensor) {
        if (!t.valid()) {
            to.push_back(-1);
        } else if (whole && !has_window(tensor)) {
            to.push_back(whole_layout(t, entry.config.devices[0]));
        } else {
            to.push_back(layouts_.intern(layout_of(rule, parts, entry.config.devices, side, i,
                                                   problem_.graph().tensor(t).shape, *regions_)));
        }
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        add(of.operands, Side::operand, i, op.inputs[i], rule.operands[i]);
        add(of.operand_gradients, Side::operand_gradient, i, op.inputs[i], rule.operands[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        add(of.results, Side::result, i, op.outputs[i], rule.results[i]);
        add(of.result_gradients, Side::result_gradient, i, op.outputs[i], rule.results[i]);
    }
    if (whole) {
        for (const int device : class_devices_) {  // priced already
            of.forward.push_back(problem_.forward_time(entry.op, device));
            of.backward.push_back(problem_.backward_time(entry.op, device));
        }
        return;
    }
    const PartSize size = size_of(entry.op, parts, of);
    for (const int device : class_devices_) {
        of.forward.push_back(problem_.forward_time(entry.op, size, device));
        of.backward.push_back(problem_.backward_time(entry.op, size, device));
    }
}

/// The largest part.
PartSize LayoutCache::size_of(OpId id, const Parts& parts, const OpLayouts& of) const {
    const auto largest = [&](std::int32_t layout) {
        std::int64_t most = 0;
        for (const Piece& piece : layouts_[layout].pieces) {
            if (piece.region >= 0) most = std::max(most, regions_->volume(piece.region));
        }
        return most;
    };
    PartSize size{
        .operands = {}, .results = {}, .flops = flops_of(problem_.rule(id), parts.box(0))};
    for (const std::int32_t layout : of.operands) {
        size.operands.push_back(layout >= 0 ? largest(layout) : 0);
    }
    for (const std::int32_t layout : of.results) size.results.push_back(largest(layout));
    return size;
}

}  // namespace partita::plan
