// SPDX-License-Identifier: Apache-2.0
//
// What lies on the devices of this process from the start and stays: parameters, constants, inputs.
// Their pieces on a device are its residents of the tensor: updates and new values that come from
// elsewhere are written there.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/tasks/task_graph.h"
#include "runtime/execute/combine_work.h"
#include "runtime/execute/program.h"
#include "runtime/execute/sources.h"

namespace partita::runtime {

class Residents {
public:
    /// All must outlive it.
    Residents(const plan::Problem& problem, const plan::TaskGraph& tasks, const Sources& sources,
              const Placement& placement)
        : problem_(problem), tasks_(tasks), sources_(sources), placement_(placement) {}

    /// Into the program's store. Throws InputError when a value cannot be had.
    void load(Program& program);

    /// Pieces of a tensor on a device, as seen from a new value of that region. After load().
    [[nodiscard]] std::vector<Resident> residents_of(graph::TensorId tensor, int device,
                                                     const graph::Region& region) const;
    /// Trained ones.
    [[nodiscard]] std::vector<Found> parameters() const;

private:
    [[nodiscard]] const plan::Buffer& buffer_of(plan::BufferId id) const {
        return tasks_.buffers[id.index()];
    }
    [[nodiscard]] const graph::Region& region_of(const plan::Buffer& buffer) const {
        return (*tasks_.regions)[buffer.region];
    }
    [[nodiscard]] bool is_trained(graph::TensorId t) const;
    [[nodiscard]] std::vector<plan::BufferId> largest_first() const;
    [[nodiscard]] at::Tensor loaded(const plan::Buffer& buffer,
                                    const std::vector<plan::BufferId>& known,
                                    const Store& store) const;

    const plan::Problem& problem_;
    const plan::TaskGraph& tasks_;
    const Sources& sources_;
    const Placement& placement_;
    std::map<std::pair<std::uint32_t, int>, std::vector<plan::BufferId>>
        pieces_;  ///< (tensor, device)
};

}  // namespace partita::runtime
