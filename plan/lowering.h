// SPDX-License-Identifier: Apache-2.0
//
// The state of one lowering, shared by lower*.cpp; private to them. Everyone else calls lower().
//
//     form      a tensor in one layout: its home, where its producer leaves it, and every layout it
//               was resharded to since, so that two consumers with equal needs share one reshard
//     piece     of a form: the places that together hold it, one unless copies of fragments met
//     pending   gradients of a tensor that its consumers gave and nobody has added yet
//
// A tensor that differs between micro-batches has one state for each of them.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <map>
#include <vector>

#include "plan/layout_cache.h"
#include "plan/problem.h"
#include "plan/strategy.h"
#include "plan/task_graph_builder.h"
#include "plan/turns.h"

namespace partita::plan {

/// Where a value lies and which task puts it there.
struct Place {
    std::int32_t device = 0;
    TaskId task = -1;          ///< -1: there from the start
    std::int32_t buffer = -1;  ///< -1: not allocated yet
};

/// One place, nearly always.
using Places = boost::container::small_vector<Place, 1>;
using Pieces = std::vector<Places>;

/// A tensor in one layout.
struct Form {
    std::int32_t layout = -1;  ///< of LayoutTable
    Pieces pieces;             ///< per piece of the layout
    int operand = -1;          ///< pending gradients: the consumer's operand
};

/// Of what a communication is: the tensor, its gradient or its new value.
struct Subject {
    graph::TensorId tensor;
    int micro_batch = -1;
    bool gradient = false;
    bool updated = false;
    int operand = -1;  ///< of pending gradients
};

class Lowering {
public:
    Lowering(const Problem& problem, const Strategy& strategy, LayoutCache& cache);
    TaskGraph run();

private:
    /// Everything about one tensor in one micro-batch.
    struct TensorState {
        std::vector<Form> forms;  ///< first the home
        int epoch = -1;           ///< of the forms beside the home, for what is fetched again
        std::vector<Form> pending;
    };

    /// Tasks from `begin` to `end`.
    struct TaskRange {
        TaskId begin = 0;
        TaskId end = 0;
    };

    /// One use of a parameter that is fetched anew for each.
    struct Fetch {
        graph::TensorId tensor;
        TaskRange tasks;
        std::vector<TaskId> readers;  ///< the parts of the op that uses it
        TaskRange gradient;           ///< what takes the gradient that they give to its place
    };

    /// What one part fetches.
    struct FetchStep {
        TaskId reader;
        std::vector<const Fetch*> fetches;
    };

    // lower.cpp: forward
    void lower_forward(graph::OpId id, int micro_batch);
    void lower_source(graph::OpId id, int micro_batch);
    void add_results(graph::OpId id, int micro_batch, const std::vector<TaskId>& tasks,
                     const Pieces& viewed);
    const OpLayouts& layouts_of(graph::OpId id, int micro_batch) {
        return cache_.of(id, strategy_.config(id), micro_batches_, micro_batch);
    }
    void add_resident_memory();
    void add_work(TaskId task, const Places& places);
    void add_reads(TaskId task, const Places& places);

    // lower_transfers.cpp: layouts and reshards
    TensorState& state(graph::TensorId t, int micro_batch);
    const Form& form(graph::TensorId t, int micro_batch, std::int32_t layout, bool backward);
    Form resident(graph::TensorId t, std::int32_t layout);
    Form reshard(const Form& from, std::int32_t to, const Subject& subject);
    Pieces local_pieces(const Form& from, std::int32_t to) const;
    Places packed(const Places& places, const Subject& subject, const Piece& piece);
    Place unpacked(const Place& message, const Subject& subject, const Piece& piece);
    TaskId add_pack(const Subject& subject, const Piece& piece, std::int32_t turn);
    Pieces add_transfer(const Form& from, const Transfer& transfer, const Subject& subject);
    std::int32_t add_value(const Subject& subject, const Place& place, const Piece& piece,
                           Bytes bytes, std::int32_t root = -1, bool message = false);
    [[nodiscard]] Bytes buffer_bytes(graph::TensorId t, std::int32_t region) const;

    // lower_fetches.cpp: parameters that are fetched for each use
    void note_readers(const std::vector<TaskId>& tasks);
    void note_gradient(graph::TensorId t, TaskRange tasks);
    [[nodiscard]] std::map<int, std::vector<FetchStep>> fetch_steps() const;
    [[nodiscard]] std::vector<TaskId> concerning(TaskRange range, int device) const;
    void limit_fetches();

    // lower_backward.cpp: gradients and updates
    void lower_backward(graph::OpId id, int micro_batch);
    void lower_loss(graph::OpId id, int micro_batch);
    void lower_parameter(graph::OpId id, int micro_batch);
    void lower_update(graph::OpId id, const Form& gradient);
    void fold_pending(graph::TensorId t, int micro_batch, bool persistent);
    void give(graph::OpId by, std::size_t operand, int micro_batch, std::int32_t layout,
              const std::vector<TaskId>& tasks);
    Form take_gradient(graph::TensorId t, int micro_batch, std::int32_t layout, bool persistent);
    Form sum_of(const std::vector<Form>& forms, const Subject& subject, bool persistent);
    Places sum_of_places(Places places, const Subject& subject, const Piece& piece,
                         graph::Combine combine, bool persistent);
    [[nodiscard]] std::int32_t turn_of_sum(const Places& places, int device) const;
    void allocate(Form& form, const Subject& subject, bool persistent);

    [[nodiscard]] bool runs_in(graph::OpId id, int micro_batch) const {
        return problem_.is_batched(id) || micro_batch == 0;
    }
    /// The last micro-batch in which something of the op happens.
    [[nodiscard]] bool ends_in(graph::OpId id, int micro_batch) const {
        return problem_.is_batched(id) || micro_batch == micro_batches_ - 1;
    }
    /// What tasks and buffers of an op or tensor say of their micro-batch; -1: there is one, or they
    /// are the same for all.
    template <class Id>
    [[nodiscard]] int label(Id of, int micro_batch) const {
        return micro_batches_ > 1 && problem_.is_batched(of) ? micro_batch : -1;
    }

    const Problem& problem_;
    const graph::OpGraph& graph_;
    const Strategy& strategy_;
    int micro_batches_;
    Turns turns_;
    LayoutCache& cache_;
    LayoutTable& layouts_;
    TaskGraphBuilder build_;
    std::vector<TensorState> states_;           ///< tensor * micro-batches + micro-batch
    std::vector<std::vector<TaskId>> forward_;  ///< op * micro-batches + micro-batch: parts
    std::map<std::int32_t, std::vector<TaskId>> readers_;  ///< of what a parameter's home holds
    std::vector<Fetch> fetches_;                           ///< in order of lowering
    std::size_t fetches_read_ = 0;                         ///< those whose readers are known
};

}  // namespace partita::plan
