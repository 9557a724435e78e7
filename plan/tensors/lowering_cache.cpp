// SPDX-License-Identifier: Apache-2.0
#include "plan/tensors/lowering_cache.h"

#include <algorithm>

#include "graph/operators/part_op.h"
#include "graph/operators/part_signature.h"
#include "plan/problem/micro_batches.h"
#include "plan/tensors/tensor_lowering.h"

namespace partita::plan {

using graph::Op;
using graph::OpId;
using graph::TensorId;

namespace {

std::uint64_t hash_of(const Layout& layout) {
    Hash hash;
    hash.add(layout.summands);
    for (const Piece& piece : layout.pieces) {
        hash.add((std::int64_t{piece.device} << 32U) ^ piece.region);
        hash.add(piece.summand);
    }
    return hash.value();
}

void add(Hash& hash, const DeviceSet& set) {
    hash.add(set.size());
    const int devices = set.is_list() ? set.size() : 1;
    for (int i = 0; i < devices; ++i) hash.add(set[i]);
    hash.add(set.stride());
}

std::uint64_t hash_of(OpId op, const OpConfig& config, int micro_batches, int micro_batch) {
    Hash hash;
    hash.add(op.value);
    hash.add(micro_batches);
    hash.add(micro_batch);
    for (const Axis& axis : config.axes) {
        hash.add((std::int64_t{axis.factor} << 32U) ^ axis.operand);
        hash.add((axis.blocks << 2U) ^ static_cast<std::int64_t>(axis.kind));
        hash.add(axis.degree);
    }
    add(hash, config.devices);
    return hash.value();
}

std::uint64_t hash_of(std::int32_t alike, const TensorKey& key) {
    Hash hash;
    hash.add(alike);
    hash.add(key.micro_batches);
    hash.add((key.gather_again ? 4 : 0) + (key.refetch ? 2 : 0) + (key.accumulate_locally ? 1 : 0));
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
    const std::uint64_t hash = hash_of(layout);
    const std::int32_t known =
        layout_index_.find(hash, [&](std::int32_t id) { return (*this)[id] == layout; });
    if (known >= 0) return known;
    const auto id = static_cast<std::int32_t>(layouts_.size());
    pieces_ += layout.pieces.size();
    layouts_.push_back(std::move(layout));
    layout_index_.add(hash, id);
    return id;
}

LayoutTable::Pair& LayoutTable::pair(std::int32_t from, std::int32_t to) {
    Hash hash;
    hash.add((std::int64_t{from} << 32U) | to);
    const auto at = [this](std::int32_t i) -> Pair& { return pairs_[static_cast<std::size_t>(i)]; };
    const std::int32_t known = pair_index_.find(
        hash.value(), [&](std::int32_t i) { return at(i).from == from && at(i).to == to; });
    if (known >= 0) return at(known);
    pair_index_.add(hash.value(), static_cast<std::int32_t>(pairs_.size()));
    return pairs_.emplace_back(Pair{.from = from, .to = to, .reshard = {}, .is_local = {}});
}

const Reshard& LayoutTable::reshard(std::int32_t from, std::int32_t to, RegionTable& regions,
                                    const cost::Machine& machine) {
    Pair& of = pair(from, to);
    if (!of.reshard) of.reshard = planner_.plan((*this)[from], (*this)[to], regions, machine);
    return *of.reshard;
}

bool LayoutTable::is_local(std::int32_t from, std::int32_t to, const RegionTable& regions) {
    if (from == to) return true;
    Pair& of = pair(from, to);
    if (!of.is_local) of.is_local = plan::is_local((*this)[from], (*this)[to], regions);
    return *of.is_local;
}

LoweringCache::LoweringCache(const Problem& problem, MicroBatches micro_batches)
    : problem_(problem),
      shares_(micro_batches == MicroBatches::shared && may_share_regions(problem.facts())),
      samples_(batch_extent(problem.facts())),
      regions_(std::make_shared<RegionTable>()),
      alike_(problem),
      resource_sets_(problem) {
    for (int d = 0; d < problem.device_count(); ++d) {
        const auto device_class = static_cast<std::size_t>(problem.prices().device_class(d));
        if (device_class >= class_devices_.size()) class_devices_.resize(device_class + 1, -1);
        if (class_devices_[device_class] < 0) class_devices_[device_class] = d;
    }
}

LoweringCache::~LoweringCache() = default;

bool LoweringCache::is_large() const {
    constexpr std::size_t kMostRegions = 1'000'000;
    constexpr std::size_t kMostEntries = 300'000;
    constexpr std::size_t kMostItems = 6'000'000;
    constexpr std::size_t kMostPieces = 30'000'000;
    return regions_->size() > kMostRegions || entries_.size() > kMostEntries ||
           kept_items_ > kMostItems || layouts_.pieces() > kMostPieces;
}

bool LoweringCache::forget_if_large() {
    if (!is_large()) return false;
    lowering_.reset();  // it knows the tables
    entries_.clear();
    entry_index_ = {};
    device_lists_.clear();
    device_list_index_ = {};
    tensors_.clear();
    tensor_index_ = {};
    kept_items_ = 0;
    layouts_ = {};
    regions_ = std::make_shared<RegionTable>();
    return true;
}

const IterationScript& LoweringCache::script(int micro_batches, bool gather_again) {
    const IterationShape shape{
        .micro_batches = micro_batches, .gather_again = gather_again, .shared = shares_};
    const auto known = scripts_.find(shape);
    if (known != scripts_.end()) return known->second;
    return scripts_.emplace(shape, iteration_script(problem_, shape)).first->second;
}

int LoweringCache::like(int micro_batches, int micro_batch) const {
    return shares_ ? first_alike(samples_, micro_batches, micro_batch) : micro_batch;
}

const TensorTasks& LoweringCache::tasks(std::size_t row, const TensorKey& key) {
    const TensorEvents& events = script(key.micro_batches, key.gather_again).tensors[row];
    const std::uint64_t hash = hash_of(events.alike, key);
    const std::int32_t known = tensor_index_.find(hash, [&](std::int32_t i) {
        const TensorEntry& entry = tensors_[static_cast<std::size_t>(i)];
        return entry.alike == events.alike && entry.key == key;
    });
    if (known >= 0) return tensors_[static_cast<std::size_t>(known)].tasks;
    if (!lowering_) {
        lowering_ = std::make_unique<TensorLowering>(problem_, layouts_, *regions_, resource_sets_);
    }
    const TensorTasks& found = lowering_->run(events, key);
    TensorEntry& entry = tensors_.emplace_back();
    entry.alike = events.alike;
    entry.key = key;
    entry.tasks = found;
    tensor_index_.add(hash, static_cast<std::int32_t>(tensors_.size()) - 1);
    kept_items_ += 1 + found.tasks.size() + found.buffers.size() + found.sources.items.size();
    return entry.tasks;
}

const OpLayouts& LoweringCache::of(OpId op, const OpConfig& config, int micro_batches,
                                   int micro_batch) {
    if (!problem_.facts().is_batched(op)) {  // the same in all
        micro_batches = 1;
        micro_batch = 0;
    }
    return entry_of(op, config, micro_batches, micro_batch).layouts;
}

const LoweringCache::Entry& LoweringCache::entry_of(OpId op, const OpConfig& config,
                                                    int micro_batches, int micro_batch) {
    const std::uint64_t hash = hash_of(op, config, micro_batches, micro_batch);
    const std::int32_t known = entry_index_.find(hash, [&](std::int32_t i) {
        const Entry& entry = entries_[static_cast<std::size_t>(i)];
        return entry.op == op && entry.micro_batches == micro_batches &&
               entry.micro_batch == micro_batch && entry.layouts.config == config;
    });
    if (known >= 0) return entries_[static_cast<std::size_t>(known)];
    Entry entry{op, micro_batches, micro_batch, {.config = config}};
    fill(entry);
    entries_.push_back(std::move(entry));
    entry_index_.add(hash, static_cast<std::int32_t>(entries_.size()) - 1);
    return entries_.back();
}

std::span<const std::int32_t> LoweringCache::devices_of(const DeviceSet& set) {
    Hash hash;
    add(hash, set);
    const std::int32_t known = device_list_index_.find(hash.value(), [&](std::int32_t i) {
        return device_lists_[static_cast<std::size_t>(i)].set == set;
    });
    if (known >= 0) return device_lists_[static_cast<std::size_t>(known)].devices;
    device_list_index_.add(hash.value(), static_cast<std::int32_t>(device_lists_.size()));
    DeviceList& list = device_lists_.emplace_back(DeviceList{set, {}});
    for (int i = 0; i < set.size(); ++i) list.devices.push_back(set[i]);
    return list.devices;
}

/// The whole tensor in one piece.
std::int32_t LoweringCache::whole_layout(TensorId t, int device) {
    const std::int32_t region =
        regions_->intern(graph::whole_region(problem_.graph().tensor(t).shape));
    return layouts_.intern({.pieces = {{.device = device, .region = region}}});
}

Parts LoweringCache::parts_of(const Entry& entry, bool whole) const {
    const graph::OpRule& rule = problem_.facts().rule(entry.op);
    return {rule, entry.layouts.config,
            whole ? graph::whole_box(rule)
                  : micro_batch_box(problem_.facts(), entry.op, entry.micro_batches,
                                    entry.micro_batch)};
}

void LoweringCache::fill(Entry& entry) {
    OpLayouts& of = entry.layouts;
    const bool whole = of.config.axes.empty() && entry.micro_batches == 1;
    if (whole) {
        lay_out(entry.op, parts_of(entry, whole), whole, of);
        price(entry.op, nullptr, of);
        return;
    }
    const OpId first = alike_.first(entry.op);
    PartSize size;
    if (first != entry.op) {
        const Entry& like = entry_of(first, of.config, entry.micro_batches, entry.micro_batch);
        of.parts = like.layouts.parts;
        of.devices = like.layouts.devices;
        of.operands = like.layouts.operands;
        of.results = like.layouts.results;
        of.operand_gradients = like.layouts.operand_gradients;
        of.result_gradients = like.layouts.result_gradients;
        size = *like.size;
    } else {
        const Parts parts = parts_of(entry, whole);
        lay_out(entry.op, parts, whole, of);
        size = size_of(entry.op, parts, of);
        entry.size = std::make_unique<const PartSize>(size);
    }
    if (problem_.prices().uses_signatures() && problem_.facts().has_forward(entry.op)) {
        size.signature = signature_of(entry.op, parts_of(entry, whole), of);
    }
    price(entry.op, &size, of);
}

void LoweringCache::lay_out(OpId id, const Parts& parts, bool whole, OpLayouts& of) {
    const Op& op = problem_.graph().op(id);
    const graph::OpRule& rule = problem_.facts().rule(id);
    const OpConfig& config = of.config;
    of.parts = parts.size();
    of.devices = devices_of(config.devices);
    const auto add = [&](Side side, std::size_t i, TensorId t, const graph::TensorRule& tensor,
                         std::vector<std::int32_t>& values, std::vector<std::int32_t>& gradients) {
        if (!t.valid()) {
            values.push_back(-1);
            gradients.push_back(-1);
        } else if (whole && !has_window(tensor)) {
            values.push_back(whole_layout(t, config.devices[0]));
            gradients.push_back(values.back());
        } else {
            const std::vector<std::int32_t> regions =
                regions_of_parts(rule, tensor, parts, problem_.graph().tensor(t).shape, *regions_);
            const auto layout = [&](Side which) {
                return layouts_.intern(layout_of(rule, parts, config.devices, which, i, regions));
            };
            values.push_back(layout(side));
            gradients.push_back(
                layout(side == Side::operand ? Side::operand_gradient : Side::result_gradient));
        }
    };
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        add(Side::operand, i, op.inputs[i], rule.operands[i], of.operands, of.operand_gradients);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
        add(Side::result, i, op.outputs[i], rule.results[i], of.results, of.result_gradients);
    }
}

void LoweringCache::price(OpId op, const PartSize* of_part, OpLayouts& of) const {
    const bool whole = of_part == nullptr;
    PartSize size = whole ? PartSize{} : *of_part;
    for (const int device : class_devices_) {
        size.beside = cores_beside(problem_.machine().device(device), of.parts);
        const cost::Price forward =
            whole ? problem_.prices().forward_price(op, device)  // known already
                  : problem_.prices().forward_price(op, size, device);
        const cost::Price backward = whole ? problem_.prices().backward_price(op, device)
                                           : problem_.prices().backward_price(op, size, device);
        const cost::Price weights = whole ? problem_.prices().weights_price(op, device)
                                          : problem_.prices().weights_price(op, size, device);
        of.forward.push_back(forward.time);
        of.backward.push_back(backward.time - weights.time);
        if (problem_.facts().splits_backward(op)) of.weights.push_back(weights.time);
        if (!problem_.prices().uses_signatures()) continue;
        of.forward_sources.push_back(forward.source);
        of.backward_sources.push_back(backward.source);
    }
}

/// The part that handles most in sum; the first of several.
int LoweringCache::largest_part(const OpLayouts& of) const {
    std::vector<std::int64_t> volumes(static_cast<std::size_t>(of.parts), 0);
    for (const auto* side : {&of.operands, &of.results}) {
        for (const std::int32_t layout : *side) {
            if (layout < 0) continue;
            const std::vector<Piece>& pieces = layouts_[layout].pieces;
            for (std::size_t p = 0; p < pieces.size(); ++p) {
                if (pieces[p].region >= 0) volumes[p] += regions_->volume(pieces[p].region);
            }
        }
    }
    return static_cast<int>(std::max_element(volumes.begin(), volumes.end()) - volumes.begin());
}

/// The largest part.
PartSize LoweringCache::size_of(OpId id, const Parts& parts, const OpLayouts& of) const {
    const auto largest = [&](std::int32_t layout) {
        std::int64_t most = 0;
        for (const Piece& piece : layouts_[layout].pieces) {
            if (piece.region >= 0) most = std::max(most, regions_->volume(piece.region));
        }
        return most;
    };
    PartSize size{
        .operands = {}, .results = {}, .flops = flops_of(problem_.facts().rule(id), parts.box(0))};
    for (const std::int32_t layout : of.operands) {
        size.operands.push_back(layout >= 0 ? largest(layout) : 0);
    }
    for (const std::int32_t layout : of.results) size.results.push_back(largest(layout));
    return size;
}

/// Of the largest part.
graph::PartSignature LoweringCache::signature_of(OpId id, const Parts& parts,
                                                 const OpLayouts& of) const {
    const graph::OpRule& rule = problem_.facts().rule(id);
    return part_signature(problem_.graph(), id,
                          part_op(problem_.graph(), id, rule, parts.box(largest_part(of))));
}

}  // namespace partita::plan
