// SPDX-License-Identifier: Apache-2.0
//
// What lowering can keep from one strategy to the next: layouts and part sizes of an op under a
// config, reshards between layouts, and the tasks of a tensor whose layouts are given. A search
// lowers thousands of strategies that differ in a few ops.
//
// Micro-batches of equal size may share layouts and tasks: then buffers of later ones name the
// regions of the first. Prices, times and memory are the same; who looks for elements in them wants
// regions of their own.
//
// One cache per problem and thread. Task graphs that were lowered with it share its region table,
// which only grows: read them in the cache's thread, or when it rests.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/hash_index.h"
#include "plan/layout/layout.h"
#include "plan/layout/reshard.h"
#include "plan/layout/reshard_planner.h"
#include "plan/problem/problem.h"
#include "plan/strategy/strategy.h"
#include "plan/tasks/resource_sets.h"
#include "plan/tensors/alike_ops.h"
#include "plan/tensors/iteration_script.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// Layouts by number, and the reshards between them: repeated layers ask for the same ones.
class LayoutTable {
public:
    std::int32_t intern(Layout layout);
    [[nodiscard]] const Layout& operator[](std::int32_t id) const {
        return layouts_[static_cast<std::size_t>(id)];
    }
    const Reshard& reshard(std::int32_t from, std::int32_t to, RegionTable& regions,
                           const cost::Machine& machine);
    bool is_local(std::int32_t from, std::int32_t to, const RegionTable& regions);
    /// Of all layouts.
    [[nodiscard]] std::size_t pieces() const { return pieces_; }

private:
    /// What is known of two layouts.
    struct Pair {
        std::int32_t from = -1;
        std::int32_t to = -1;
        std::optional<Reshard> reshard;
        std::optional<bool> is_local;
    };
    Pair& pair(std::int32_t from, std::int32_t to);

    std::vector<Layout> layouts_;
    std::size_t pieces_ = 0;
    HashIndex layout_index_;
    ReshardPlanner planner_;
    std::deque<Pair> pairs_;  ///< what is given of them stays where it is
    HashIndex pair_index_;
};

/// An op under a config in one micro-batch. Layouts by number; -1: there is no such operand.
struct OpLayouts {
    OpConfig config;
    int parts = 1;
    /// Per part. Equal lists of one cache are the same list.
    std::span<const std::int32_t> devices;
    std::vector<std::int32_t> operands;
    std::vector<std::int32_t> results;
    std::vector<std::int32_t> operand_gradients;
    std::vector<std::int32_t> result_gradients;
    /// Per device class, of the largest part: contract 11.
    std::vector<Time> forward;
    std::vector<Time> backward;  ///< without weights
    std::vector<Time> weights;   ///< empty: there is no such pass
    /// The same of where these come from; empty: they are not measured.
    std::vector<cost::CostSource> forward_sources;
    std::vector<cost::CostSource> backward_sources;

    [[nodiscard]] Time time(Pass pass, std::size_t device_class) const {
        if (!is_backward(pass)) return forward[device_class];
        return (pass == Pass::weights ? weights : backward)[device_class];
    }
};

/// All that the tasks of a tensor depend on.
struct TensorKey {
    std::vector<std::int32_t> layouts;  ///< per event; -1 where it has none
    int micro_batches = 1;
    bool gather_again = false;        ///< as Policy
    bool refetch = false;             ///< as UpdateConfig
    bool accumulate_locally = false;  ///< the same
    Optimizer optimizer = Optimizer::sgd;
    friend bool operator==(const TensorKey&, const TensorKey&) = default;
};

class TensorLowering;

class LoweringCache {
public:
    enum class MicroBatches : std::uint8_t { shared, apart };
    explicit LoweringCache(const Problem& problem,
                           MicroBatches micro_batches = MicroBatches::shared);
    ~LoweringCache();
    LoweringCache(const LoweringCache&) = delete;
    LoweringCache& operator=(const LoweringCache&) = delete;

    /// `config` must be legal. Stays valid until forget_if_large().
    const OpLayouts& of(graph::OpId op, const OpConfig& config, int micro_batches, int micro_batch);

    /// The micro-batch whose layouts and tasks that one has, too; the first of them.
    [[nodiscard]] int like(int micro_batches, int micro_batch) const;

    /// Stays valid.
    const IterationScript& script(int micro_batches, bool gather_again);
    /// Of a row of the key's script. Stays valid until forget_if_large().
    const TensorTasks& tasks(std::size_t row, const TensorKey& key);

    [[nodiscard]] LayoutTable& layouts() { return layouts_; }
    /// Of tensors' tasks; never forgotten.
    [[nodiscard]] ResourceSets& resource_sets() { return resource_sets_; }
    [[nodiscard]] const ResourceSets& resource_sets() const { return resource_sets_; }
    [[nodiscard]] const std::shared_ptr<RegionTable>& regions() const { return regions_; }
    /// Starts anew when it has grown beyond some hundreds of MB; returns whether it has.
    bool forget_if_large();
    [[nodiscard]] bool is_large() const;

private:
    struct Entry {
        graph::OpId op;
        int micro_batches = 1;
        int micro_batch = 0;
        OpLayouts layouts;
        /// Of the largest part, without its signature; null: it is that of an op that is alike.
        std::unique_ptr<const PartSize> size = nullptr;
    };

    struct DeviceList {
        DeviceSet set;
        std::vector<std::int32_t> devices;
    };

    struct TensorEntry {
        std::int32_t alike = -1;
        TensorKey key;
        TensorTasks tasks;
    };

    const Entry& entry_of(graph::OpId op, const OpConfig& config, int micro_batches,
                          int micro_batch);
    void fill(Entry& entry);
    std::span<const std::int32_t> devices_of(const DeviceSet& set);
    void lay_out(graph::OpId op, const Parts& parts, bool whole, OpLayouts& of);
    [[nodiscard]] Parts parts_of(const Entry& entry, bool whole) const;
    /// `size`: of the largest part; null: the op is whole.
    void price(graph::OpId op, const PartSize* size, OpLayouts& of) const;
    [[nodiscard]] PartSize size_of(graph::OpId op, const Parts& parts, const OpLayouts& of) const;
    [[nodiscard]] graph::PartSignature signature_of(graph::OpId op, const Parts& parts,
                                                    const OpLayouts& of) const;
    [[nodiscard]] int largest_part(const OpLayouts& of) const;
    std::int32_t whole_layout(graph::TensorId t, int device);

    const Problem& problem_;
    bool shares_;                     ///< between micro-batches
    std::int64_t samples_;            ///< of the batch
    std::vector<int> class_devices_;  ///< per device class one of its devices
    std::shared_ptr<RegionTable> regions_;
    AlikeOps alike_;
    LayoutTable layouts_;
    ResourceSets resource_sets_;
    std::unique_ptr<TensorLowering> lowering_;
    std::deque<Entry> entries_;  ///< what is given of them stays where it is
    HashIndex entry_index_;
    std::deque<DeviceList> device_lists_;  ///< the same
    HashIndex device_list_index_;
    std::deque<TensorEntry> tensors_;  ///< the same
    HashIndex tensor_index_;
    std::size_t kept_items_ = 0;  ///< of tensors_: tasks, buffers, and what parts find
    std::map<IterationShape, IterationScript> scripts_;
};

}  // namespace partita::plan
