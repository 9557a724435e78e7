// SPDX-License-Identifier: Apache-2.0
//
// Accumulations, packs, copies and collectives. Whatever their name, they mean one thing: every
// element of a result is the combination of the elements at its position in what the task reads
// (plan/tasks/task_graph.h). A device's worker makes what the task writes on that device and reads
// the other devices' memory directly, so who only gives has nothing to do, and nobody waits for
// anybody but the tasks before.
//
//     all-reduce over 2 devices     each adds both summands          all-gather   each copies all pieces
//
// What lies in another process has come as a message (messages.h), and is read there.
//
// In place, where the plan says so (Buffer::root) and nothing else lies in that memory. New values
// of a parameter are written where the old one lies.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/op_graph.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/patch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

class Exchange;

/// Where the old value of a parameter lies that a new one replaces.
struct Resident {
    plan::BufferId buffer;
    Patch patch;  ///< from the new value into the buffer
};

class CombineWork final : public Work {
public:
    /// `results`: those of the task's buffers that this worker makes. `residents`: per result.
    /// `exchange`: with other processes, or null.
    CombineWork(const graph::OpGraph& graph, const plan::TaskGraph& tasks, plan::TaskId task,
                const std::vector<plan::BufferId>& results,
                std::vector<std::vector<Resident>> residents, at::Device device,
                const Exchange* exchange = nullptr);
    void run(Store& store) override;
    /// Those that it reads: places in Messages::in.
    [[nodiscard]] const std::vector<std::int32_t>& messages() const { return messages_; }

private:
    struct Source {
        plan::BufferId buffer;
        bool same = false;  ///< it holds exactly the result's region
        bool is_message = false;
        Patch patch;
    };
    struct Result {
        plan::BufferId buffer;
        plan::BufferId root;
        bool has_gaps = false;
        std::vector<Source> sources;
        std::vector<Resident> residents;
        /// Of copies: per resident, from each source.
        std::vector<std::vector<Patch>> into_residents;
        graph::Shape extents;
        at::TensorOptions as;
    };
    [[nodiscard]] at::Tensor copied(const Result& result, const Store& store) const;
    [[nodiscard]] at::Tensor combined(const Result& result, const Store& store) const;
    void write_back(const Result& result, const at::Tensor& made, Store& store) const;

    graph::Combine combine_ = graph::Combine::none;
    std::vector<Result> results_;
    std::vector<std::int32_t> messages_;
};

}  // namespace partita::runtime
