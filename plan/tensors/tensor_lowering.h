// SPDX-License-Identifier: Apache-2.0
//
// How TensorTasks come about. Private to tensor_lowering*.cpp; everyone else asks LoweringCache.
//
//     instance  the tensor in one layout: where its producer leaves it, and every layout it
//               was resharded to since, so that two consumers with equal needs share one reshard
//     piece     of an instance: locations that together hold it, one unless copies of fragments met
//     pending   gradients that consumers gave and nobody has added yet
//
// Gradients follow by duality: their layouts come from those of operands and results (layout.h), so
// nothing here knows data or tensor parallelism. Contributions of several consumers are added where
// they arise only if their layouts are equal; the others are resharded to the layout that is wanted
// first (RULES.md 13).
//
// A search lowers tensors by the hundred thousand, so all lists are kept for their memory:
// instances are rows of one list of pieces, and these runs of one list of locations.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/csr.h"
#include "base/small_vector.h"
#include "plan/problem/problem.h"
#include "plan/tensors/lowering_cache.h"
#include "plan/tensors/tensor_events.h"
#include "plan/tensors/tensor_prices.h"
#include "plan/tensors/tensor_tasks.h"

namespace partita::plan {

/// Where a value lies and which task puts it there.
struct Location {
    std::int32_t device = 0;
    TaskRef task = -1;
    std::int32_t buffer = -1;  ///< -1: not allocated yet
};

/// A run of TensorLowering's locations.
struct Locations {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
    [[nodiscard]] std::uint32_t size() const { return end - begin; }
};

/// The tensor, or its gradient, in one layout.
struct Instance {
    std::int32_t layout = -1;  ///< of LayoutTable
    std::uint32_t pieces = 0;  ///< the first of TensorLowering's; one per piece of the layout
    int operand = -1;          ///< pending gradients: the consumer's operand
    int epoch = -1;            ///< of what is fetched again: for which use; else -1
};

/// Few, nearly always.
using Instances = SmallVector<Instance, 4>;

/// Of what a communication is: the tensor, its gradient or its new value.
struct Subject {
    int micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    int operand = -1;  ///< of pending gradients
};

class TensorLowering {
public:
    /// All must outlive it.
    TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions,
                   ResourceSets& resource_sets);
    /// Valid until the next call.
    const TensorTasks& run(const TensorEvents& events, const TensorKey& key);

private:
    /// A reader of what a trained parameter's own buffers hold.
    struct Reader {
        TaskRef task = -1;
        std::int32_t next = -1;  ///< of the same buffer
    };

    /// Tasks of this run, some of one name among them.
    struct Bucket {
        std::uint64_t run = 0;
        TaskRef latest = -1;
    };
    static constexpr std::size_t kBuckets = 4'096;

    // tensor_lowering.cpp: events
    void clear(const TensorEvents& events, const TensorKey& key);
    void lower(const TensorEvent& event, std::int32_t layout);
    void produce(const TensorEvent& event, std::int32_t layout);
    void add_use(const TensorEvent& event, std::int32_t layout);
    void contribute(const TensorEvent& event, std::int32_t layout);
    void hold(const Instance& instance);
    void add_resident_memory();

    // tensor_reshards.cpp: layouts and reshards
    Instance instance(const TensorEvent& event, std::int32_t layout);
    Instance resident(std::int32_t layout);
    Instance reshard(const Instance& from, std::int32_t to, const Subject& subject);
    Instance local_instance(const Instance& from, std::int32_t to);
    Locations supplied(const Instance& from, const Supply& supply);
    Locations packed(Locations locations, const Subject& subject, const Piece& piece);
    Location unpacked(const Location& message, const Subject& subject, const Piece& piece);
    cost::Price pack_price(const Piece& piece);
    cost::Price copy_price(const Task& copy);
    void add_transfer(const Instance& from, const Transfer& transfer, const Subject& subject);
    TaskRef add_message(graph::Combine combine, const Transfer& transfer, const Subject& subject);

    // tensor_gradients.cpp: gradients and updates
    void accumulate_pending(int micro_batch, bool persistent);
    Instance collect_gradient(std::int32_t layout, bool persistent);
    Instance sum_of(const Instances& instances, const Subject& subject, bool persistent);
    Locations sum_of_locations(Locations locations, const Subject& subject, const Piece& piece,
                               graph::Combine combine, bool persistent);
    [[nodiscard]] bool writes_in_block(Locations locations, int device) const;
    void allocate(const Instance& instance, const Subject& subject, bool persistent);
    void lower_parameter(const TensorEvent& event, std::int32_t layout);
    void lower_update(const Instance& gradient);
    void wait_for_readers(TaskRef task, int device);

    // tensor_work.cpp: tasks, buffers, and what follows from them
    [[nodiscard]] Task task_of(TaskKind kind, const Subject& subject) const;
    TaskRef add_task(Task& task);
    std::int32_t group_of(std::span<const int> devices);
    void number(Task& task);
    void add_edge(TaskRef before, TaskRef after);
    void add_work(TaskRef task, Locations locations);
    void add_reader(TaskRef task, std::int32_t buffer);
    void add_read(TaskRef task, std::int32_t buffer);
    std::int32_t add_value(const Subject& subject, const Location& location, const Piece& piece,
                           Bytes bytes, std::int32_t root = -1, bool message = false);
    void add_persistent(int device, Bytes bytes) { given_.persistent.emplace_back(device, bytes); }
    [[nodiscard]] Bytes buffer_bytes(std::int32_t region) const;
    void finish();
    void count_work();
    void add_loads();
    void add_most_bytes();
    void find_fusible();

    // locations and pieces
    Locations add_location(const Location& location) {
        locations_.push_back(location);
        const auto end = static_cast<std::uint32_t>(locations_.size());
        return {end - 1, end};
    }
    void add_piece(Locations locations) { pieces_.push_back(locations); }
    /// To the last of all locations.
    void append(Locations locations) {
        for (std::uint32_t i = locations.begin; i < locations.end; ++i)
            locations_.push_back(locations_[i]);
    }
    [[nodiscard]] Instance next_instance(std::int32_t layout) const {
        return {.layout = layout, .pieces = static_cast<std::uint32_t>(pieces_.size())};
    }
    [[nodiscard]] Locations locations(const Instance& instance, std::size_t piece) const {
        return pieces_[instance.pieces + piece];
    }
    [[nodiscard]] const Location& first(Locations locations) const {
        return locations_[locations.begin];
    }
    [[nodiscard]] const std::vector<Piece>& pieces(std::int32_t layout) const {
        return layouts_[layout].pieces;
    }
    [[nodiscard]] int label() const { return events_->label; }
    [[nodiscard]] Buffer& buffer(std::int32_t id) {
        return given_.buffers[static_cast<std::size_t>(id)];
    }

    const Problem& problem_;
    LayoutTable& layouts_;
    RegionTable& regions_;
    ResourceSets& resource_sets_;
    // Of the tensor at hand.
    const TensorEvents* events_ = nullptr;
    const TensorKey* key_ = nullptr;
    graph::TensorId tensor_;
    graph::OpId producer_;
    TensorBytes bytes_;
    TensorPrices prices_;
    CopyClasses copy_classes_;
    CollectivePrices collective_prices_;
    TensorTasks given_;
    std::vector<Location> locations_;
    std::vector<Locations> pieces_;
    std::vector<std::pair<TaskRef, TaskRef>> edges_;       ///< (after, before)
    std::vector<std::pair<TaskRef, std::int32_t>> reads_;  ///< (task, buffer)
    std::vector<char> is_read_;                            ///< per buffer
    Instances instances_;                                  ///< first where the producer leaves it
    Instances pending_;
    std::vector<std::int32_t> first_readers_;  ///< per buffer of a trained parameter
    std::vector<Reader> readers_;
    std::vector<Locations> messages_;       ///< of a transfer: what is sent
    std::vector<std::uint32_t> delivered_;  ///< per transfer of a reshard: its first piece
    bool has_collective_ = false;
    // Kept for their memory.
    CsrScratch<TaskRef> csr_;
    std::vector<Bucket> buckets_ = std::vector<Bucket>(kBuckets);
    std::uint64_t run_ = 0;                  ///< calls of run() so far
    std::vector<TaskRef> before_in_bucket_;  ///< per task; -1: none
    std::vector<std::int32_t> before_;       ///< per task: the block before it
    std::vector<std::int32_t> after_;        ///< the same after it
    std::vector<std::pair<std::int32_t, std::int64_t>> set_loads_;
    std::vector<std::uint32_t> rows_;  ///< of sums, by resource set, resource or device
};

}  // namespace partita::plan
