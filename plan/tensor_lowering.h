// SPDX-License-Identifier: Apache-2.0
//
// How TensorTasks come about. Private to tensor_lowering*.cpp; everyone else asks LayoutCache.
//
//     form      the tensor in one layout: its home, where its producer leaves it, and every layout it
//               was resharded to since, so that two consumers with equal needs share one reshard
//     piece     of a form: the places that together hold it, one unless copies of fragments met
//     pending   gradients that consumers gave and nobody has added yet
//
// Gradients follow by duality: their layouts come from those of operands and results (layout.h), so
// nothing here knows data or tensor parallelism. Contributions of several consumers are added where
// they arise only if their layouts are equal; the others are resharded to the layout that is wanted
// first (RULES.md 13).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/small_vector.h"
#include "plan/layout_cache.h"
#include "plan/problem.h"
#include "plan/tensor_events.h"
#include "plan/tensor_tasks.h"

namespace partita::plan {

/// Where a value lies and which task puts it there.
struct Place {
    std::int32_t device = 0;
    TaskRef task = -1;
    std::int32_t buffer = -1;  ///< -1: not allocated yet
};

/// One place, nearly always.
using Places = SmallVector<Place, 1>;
using Pieces = std::vector<Places>;

/// The tensor, or its gradient, in one layout.
struct Form {
    std::int32_t layout = -1;  ///< of LayoutTable
    Pieces pieces;             ///< per piece of the layout
    int operand = -1;          ///< pending gradients: the consumer's operand
    int epoch = -1;            ///< of what is fetched again: for which use; else -1
};

/// Of what a communication is: the tensor, its gradient or its new value.
struct Subject {
    int micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    int operand = -1;  ///< of pending gradients
};

class TensorLowering {
public:
    TensorLowering(const Problem& problem, LayoutTable& layouts, RegionTable& regions, Lanes& lanes,
                   const TensorEvents& events, const TensorKey& key);
    TensorTasks run();

private:
    // tensor_lowering.cpp: events
    void lower(const TensorEvent& event, std::int32_t layout);
    void add_home(const TensorEvent& event, std::int32_t layout);
    void add_use(const TensorEvent& event, std::int32_t layout);
    void give(const TensorEvent& event, std::int32_t layout);
    void hold(const Pieces& pieces);
    void add_resident_memory();
    void finish();
    void add_loads();
    [[nodiscard]] std::vector<std::int32_t> joinable() const;

    // tensor_reshards.cpp: layouts and reshards
    const Form& form(const TensorEvent& event, std::int32_t layout);
    Form resident(std::int32_t layout);
    Form reshard(const Form& from, std::int32_t to, const Subject& subject);
    [[nodiscard]] Pieces local_pieces(const Form& from, std::int32_t to) const;
    Places packed(const Places& places, const Subject& subject, const Piece& piece);
    Place unpacked(const Place& message, const Subject& subject, const Piece& piece);
    Pieces add_transfer(const Form& from, const Transfer& transfer, const Subject& subject);
    TaskRef add_message(graph::Combine combine, const Transfer& transfer, const Subject& subject);

    // tensor_gradients.cpp: gradients and updates
    void fold_pending(int micro_batch, bool persistent);
    Form take_gradient(std::int32_t layout, bool persistent);
    Form sum_of(const std::vector<Form>& forms, const Subject& subject, bool persistent);
    Places sum_of_places(Places places, const Subject& subject, const Piece& piece,
                         graph::Combine combine, bool persistent);
    [[nodiscard]] bool writes_in_block(const Places& places, int device) const;
    void allocate(Form& form, const Subject& subject, bool persistent);
    void lower_parameter(const TensorEvent& event, std::int32_t layout);
    void lower_update(const Form& gradient);
    void wait_for_readers(TaskRef task, int device);

    // tensor_lowering.cpp: tasks and buffers
    [[nodiscard]] Task task_of(TaskKind kind, const Subject& subject) const;
    TaskRef add_task(Task task, const std::vector<int>& devices = {});
    void number(Task& task) const;
    void add_edge(TaskRef before, TaskRef after);
    void add_work(TaskRef task, const Places& places);
    void add_read(TaskRef task, std::int32_t buffer);
    std::int32_t add_value(const Subject& subject, const Place& place, const Piece& piece,
                           Bytes bytes, std::int32_t root = -1, bool message = false);
    void add_persistent(int device, Bytes bytes) { given_.persistent.emplace_back(device, bytes); }
    [[nodiscard]] Bytes buffer_bytes(std::int32_t region) const;
    [[nodiscard]] int label() const { return events_.label; }
    [[nodiscard]] Buffer& buffer(std::int32_t id) {
        return given_.buffers[static_cast<std::size_t>(id)];
    }

    const Problem& problem_;
    LayoutTable& layouts_;
    RegionTable& regions_;
    Lanes& lanes_;
    const TensorEvents& events_;
    const TensorKey& key_;
    graph::TensorId tensor_;
    graph::OpId producer_;
    TensorTasks given_;
    std::vector<std::pair<TaskRef, TaskRef>> edges_;       ///< (after, before)
    std::vector<std::pair<TaskRef, std::int32_t>> reads_;  ///< (task, buffer)
    std::vector<char> is_read_;                            ///< per buffer
    std::vector<Form> forms_;                              ///< first the home
    std::vector<Form> pending_;
    std::vector<std::vector<TaskRef>> readers_;  ///< of what a trained parameter's home holds
};

}  // namespace partita::plan
