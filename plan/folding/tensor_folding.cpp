// SPDX-License-Identifier: Apache-2.0
#include "plan/folding/tensor_folding.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace partita::plan {

namespace {

std::int64_t number(std::uint64_t hash) {
    return static_cast<std::int64_t>(hash);
}

/// How often the hash was counted before.
std::int32_t count(std::uint64_t hash, FoldingScratch& scratch) {
    std::int32_t known = scratch.alike.find(hash, [](std::int32_t) { return true; });
    if (known < 0) {
        known = static_cast<std::int32_t>(scratch.counts.size());
        scratch.alike.add(hash, known);
        scratch.counts.push_back(0);
    }
    return scratch.counts[static_cast<std::size_t>(known)]++;
}

}  // namespace

TensorFolding::Class TensorFolding::class_of(TaskRef ref, const ResourceClasses& classes) const {
    if (ref == -1) return 0;
    if (!is_part(ref)) return found_[static_cast<std::size_t>(ref)];
    const PartPlace& place = blocks_[static_cast<std::size_t>(block_of(ref))]
                                 .places[static_cast<std::size_t>(part_of(ref))];
    Hash hash;
    hash.add(block_of(ref));
    hash.add(classes.of_device(place.device));
    hash.add(place.number);
    return hash.value();
}

void TensorFolding::find_traits() {
    traits_.reserve(tasks_.tasks.size());
    std::size_t event = 0;
    for (std::size_t task = 0; task < tasks_.tasks.size(); ++task) {
        while (task >= tasks_.steps[event].tasks) ++event;
        const Task& of = tasks_.tasks[task];
        Hash& hash = traits_.emplace_back();
        for (const std::int64_t trait :
             {static_cast<std::int64_t>(event), static_cast<std::int64_t>(of.kind),
              std::int64_t{of.gradient}, std::int64_t{of.updated},
              static_cast<std::int64_t>(of.source), std::int64_t{of.micro_batch}, of.bytes.raw(),
              of.duration.raw(), static_cast<std::int64_t>(of.collective),
              static_cast<std::int64_t>(of.algorithm), static_cast<std::int64_t>(of.protocol),
              static_cast<std::int64_t>(of.combine), std::int64_t{tasks_.in_block[task]},
              std::int64_t{tasks_.fusion_blocks[task]}}) {
            hash.add(trait);
        }
    }
}

TensorFolding::Class TensorFolding::class_of_task(std::size_t task,
                                                  std::span<const std::uint64_t> sets,
                                                  const ResourceClasses& classes,
                                                  FoldingScratch& scratch) const {
    Hash hash = traits_[task];
    hash.add(number(sets[static_cast<std::size_t>(tasks_.tasks[task].resource_set)]));
    std::vector<Class>& before = scratch.before;
    before.clear();
    for (const TaskRef ref : tasks_.predecessors[task]) before.push_back(class_of(ref, classes));
    std::ranges::sort(before);
    before.erase(std::unique(before.begin(), before.end()), before.end());
    hash.add(std::ssize(before));
    for (const Class each : before) hash.add(number(each));
    return hash.value();
}

void TensorFolding::classify(const ResourceSets& resource_sets, std::span<const std::uint64_t> sets,
                             ResourceClasses& classes, FoldingScratch& scratch) {
    if (traits_.empty()) find_traits();
    found_.clear();
    // Of several alike on one device the first is of another class than the second.
    scratch.alike = {};
    scratch.counts.clear();
    for (std::size_t task = 0; task < tasks_.tasks.size(); ++task) {
        Hash hash;
        hash.add(number(class_of_task(task, sets, classes, scratch)));
        if (tasks_.tasks[task].kind != TaskKind::collective) {
            Hash here = hash;
            here.add(tasks_.tasks[task].device);
            hash.add(count(here.value(), scratch));
        }
        found_.push_back(hash.value());
        const auto set = static_cast<std::size_t>(tasks_.tasks[task].resource_set);
        for (const std::int32_t r : resource_sets.resources()[set]) classes.saw(r, found_.back());
    }
    classify_buffers(classes);
    tell_reads(classes);
}

void TensorFolding::classify_buffers(ResourceClasses& classes) {
    buffers_.clear();
    std::size_t event = 0;
    for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
        while (b >= tasks_.steps[event].buffers) ++event;
        const TensorBuffer& buffer = tasks_.buffers[b];
        Hash hash;
        for (const std::int64_t trait :
             {static_cast<std::int64_t>(event), std::int64_t{buffer.gradient},
              std::int64_t{buffer.recomputed}, std::int64_t{buffer.message},
              std::int64_t{buffer.micro_batch}, std::int64_t{buffer.operand},
              std::int64_t{buffer.root >= 0}, buffer.bytes.raw(),
              number(class_of(buffer.writer, classes))}) {
            hash.add(trait);
        }
        buffers_.push_back(hash.value());
        classes.device_saw(buffer.device, hash.value());
    }
    for (const PersistentBytes& kept : tasks_.persistent) {
        Hash hash;
        hash.add(static_cast<std::int64_t>(kept.kind));
        hash.add(kept.bytes.raw());
        classes.device_saw(kept.device, hash.value());
    }
}

/// What tasks and parts find on the device.
void TensorFolding::tell_reads(ResourceClasses& classes) const {
    for (std::size_t task = 0; task < tasks_.tasks.size(); ++task) {
        for (const std::int32_t buffer : tasks_.reads[task]) {
            const auto b = static_cast<std::size_t>(buffer);
            Hash hash;
            hash.add(number(found_[task]));
            hash.add(number(buffers_[b]));
            classes.device_saw(tasks_.buffers[b].device, hash.value());
        }
    }
    for (std::size_t e = 0; e < tasks_.steps.size(); ++e) {
        const TensorStep& step = tasks_.steps[e];
        if (step.parts == 0) continue;
        const Block& block = blocks_[static_cast<std::size_t>(events_.events[e].block)];
        for (std::size_t part = 0; part < step.parts; ++part) {
            Hash hash;
            hash.add(static_cast<std::int64_t>(e));
            for (const Source& source : sources_of(tasks_, step, part)) {
                hash.add(number(class_of(source.task, classes)));
                if (source.buffer < 0) continue;
                hash.add(number(buffers_[static_cast<std::size_t>(source.buffer)]));
            }
            classes.device_saw(block.places[part].device, hash.value());
        }
    }
}

/// What is kept, by its new number.
struct TensorFolding::Kept {
    std::vector<std::size_t> tasks;
    std::unordered_map<Class, std::int32_t> of_class;  ///< the task that is kept of it
    std::vector<std::int32_t> buffers;                 ///< per buffer; -1: it is not
    std::vector<TensorBuffer> kept_buffers;            ///< as they were
};

/// May all of these be used by the one task that is kept of its class? `resources` are those of a
/// kept task.
bool TensorFolding::share_channels(std::span<const std::int32_t> resources,
                                   FoldingRules& rules) const {
    std::map<std::int64_t, std::vector<std::int32_t>> own;
    for (const std::int32_t r : resources) {
        if (rules.classes.is_channel(r)) own[rules.classes.of(r)].push_back(r);
    }
    for (auto& [channel_class, members] : own) {
        const auto [known, is_new] = rules.channels.emplace(channel_class, members);
        if (is_new) continue;
        std::vector<std::int32_t> common;
        std::ranges::set_intersection(known->second, members, std::back_inserter(common));
        if (common.empty()) return false;
        known->second = std::move(common);
    }
    return true;
}

bool TensorFolding::keep_tasks(FoldingRules& rules, Kept& kept) const {
    std::unordered_set<Class> classes;
    std::unordered_set<std::uint64_t> on_channels;
    for (std::size_t task = 0; task < tasks_.tasks.size(); ++task) {
        const auto set = static_cast<std::size_t>(tasks_.tasks[task].resource_set);
        const std::span<const std::int32_t> resources = rules.resource_sets.resources()[set];
        bool any = false;
        bool all = true;
        for (const std::int32_t r : resources) {
            if (rules.classes.is_channel(r)) {
                // Tasks of one class that queue for a channel do not start together.
                Hash hash;
                hash.add(number(found_[task]));
                hash.add(r);
                if (!on_channels.insert(hash.value()).second) return false;
                continue;
            }
            const std::int32_t device = rules.representatives[static_cast<std::size_t>(r / 3)];
            const bool has = std::ranges::binary_search(resources, 3 * device + r % 3);
            any = any || has;
            all = all && has;
        }
        classes.insert(found_[task]);
        if (!any) continue;
        if (!all || !share_channels(resources, rules)) return false;
        const auto next = static_cast<std::int32_t>(kept.tasks.size());
        if (!kept.of_class.emplace(found_[task], next).second) return false;
        kept.tasks.push_back(task);
    }
    return kept.tasks.size() == classes.size();
}

void TensorFolding::keep_buffers(const FoldingRules& rules, Kept& kept) const {
    for (const TensorBuffer& buffer : tasks_.buffers) {
        const std::int32_t of = rules.representatives[static_cast<std::size_t>(buffer.device)];
        const bool is_kept = of == buffer.device;
        kept.buffers.push_back(is_kept ? static_cast<std::int32_t>(kept.kept_buffers.size()) : -1);
        if (is_kept) kept.kept_buffers.push_back(buffer);
    }
}

TaskRef TensorFolding::folded(TaskRef ref, const Kept& kept) const {
    if (ref == -1) return -1;
    if (!is_part(ref)) return kept.of_class.at(found_[static_cast<std::size_t>(ref)]);
    const auto part = static_cast<std::size_t>(part_of(ref));
    return part_ref(block_of(ref),
                    blocks_[static_cast<std::size_t>(block_of(ref))].parts->place[part]);
}

void TensorFolding::add_tasks(const Kept& kept, TensorTasks& folded) const {
    std::vector<TaskRef> before;
    std::vector<std::int32_t> reads;
    for (const std::size_t task : kept.tasks) {
        folded.tasks.push_back(tasks_.tasks[task]);
        folded.in_block.push_back(tasks_.in_block[task]);
        folded.fusion_blocks.push_back(tasks_.fusion_blocks[task]);
        before.clear();
        for (const TaskRef ref : tasks_.predecessors[task])
            before.push_back(this->folded(ref, kept));
        std::ranges::sort(before);
        before.erase(std::unique(before.begin(), before.end()), before.end());
        folded.predecessors.add_row(before);
        reads.clear();
        for (const std::int32_t buffer : tasks_.reads[task]) {
            const std::int32_t own = kept.buffers[static_cast<std::size_t>(buffer)];
            if (own >= 0) reads.push_back(own);
        }
        folded.reads.add_row(reads);
    }
    for (const std::uint32_t task : tasks_.fusible) {
        const auto at = std::ranges::lower_bound(kept.tasks, std::size_t{task});
        if (at == kept.tasks.end() || *at != task) continue;
        folded.fusible.push_back(static_cast<std::uint32_t>(at - kept.tasks.begin()));
    }
    folded.groups = tasks_.groups;
    folded.buffers = kept.kept_buffers;
    for (TensorBuffer& buffer : folded.buffers) {
        buffer.writer = this->folded(buffer.writer, kept);
        if (buffer.root >= 0) buffer.root = kept.buffers[static_cast<std::size_t>(buffer.root)];
    }
}

void TensorFolding::add_steps(const Kept& kept, TensorTasks& folded) const {
    for (std::size_t e = 0; e < tasks_.steps.size(); ++e) {
        const TensorStep& step = tasks_.steps[e];
        TensorStep own = step;
        own.tasks = static_cast<std::uint32_t>(
            std::ranges::lower_bound(kept.tasks, std::size_t{step.tasks}) - kept.tasks.begin());
        own.buffers = static_cast<std::uint32_t>(
            std::count_if(kept.buffers.begin(), kept.buffers.begin() + step.buffers,
                          [](std::int32_t buffer) { return buffer >= 0; }));
        own.sources = static_cast<std::uint32_t>(folded.sources.rows());
        own.parts = 0;
        folded.steps.push_back(own);
        if (step.parts == 0) continue;
        const auto block = static_cast<std::size_t>(events_.events[e].block);
        for (const std::int32_t part : blocks_[block].parts->kept) {
            for (const Source& source : sources_of(tasks_, step, static_cast<std::size_t>(part))) {
                const std::int32_t buffer =
                    source.buffer < 0 ? -1 : kept.buffers[static_cast<std::size_t>(source.buffer)];
                folded.sources.items.push_back({this->folded(source.task, kept), buffer});
            }
            folded.sources.end_row();
            ++folded.steps.back().parts;
        }
    }
    folded.fetches = tasks_.fetches;
}

void TensorFolding::add_persistent(const FoldingRules& rules, TensorTasks& folded) const {
    for (const PersistentBytes& bytes : tasks_.persistent) {
        const std::int32_t of = rules.representatives[static_cast<std::size_t>(bytes.device)];
        if (of == bytes.device) folded.persistent.push_back(bytes);
    }
}

std::unique_ptr<FoldedTasks> TensorFolding::folded(FoldingRules& rules) const {
    Kept kept;
    if (!keep_tasks(rules, kept)) return nullptr;
    keep_buffers(rules, kept);
    auto folded = std::make_unique<FoldedTasks>();
    add_tasks(kept, folded->tasks);
    add_steps(kept, folded->tasks);
    add_persistent(rules, folded->tasks);
    folded->copies.assign(kept.tasks.size(), 0);
    for (const Class found : found_) {
        ++folded->copies[static_cast<std::size_t>(kept.of_class.at(found))];
    }
    return folded;
}

}  // namespace partita::plan
