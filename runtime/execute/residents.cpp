// SPDX-License-Identifier: Apache-2.0
#include "runtime/execute/residents.h"

#include <algorithm>

#include "runtime/execute/memory_meter.h"
#include "runtime/kernels/kernel_table.h"

namespace partita::runtime {

using graph::TensorId;
using plan::Buffer;
using plan::BufferId;

bool Residents::is_trained(TensorId t) const {
    return problem_.graph().tensor(t).role == graph::TensorRole::parameter &&
           !problem_.facts().is_resident(t);
}

/// So that what never changes is loaded once per device.
std::vector<BufferId> Residents::largest_first() const {
    std::vector<BufferId> there;
    for (std::size_t b = 0; b < tasks_.buffers.size(); ++b) {
        const Buffer& buffer = tasks_.buffers[b];
        const bool is_here = placement_.worker[static_cast<std::size_t>(buffer.device)] >= 0;
        if (!buffer.writer.valid() && buffer.region >= 0 && is_here) {
            there.emplace_back(b);
        }
    }
    std::ranges::stable_sort(there, [&](BufferId a, BufferId b) {
        return tasks_.regions->volume(buffer_of(a).region) >
               tasks_.regions->volume(buffer_of(b).region);
    });
    return there;
}

void Residents::load(Program& program) {
    for (const BufferId b : largest_first()) {
        const Buffer& buffer = buffer_of(b);
        program.lasting[b.index()] = 1;
        auto& known = pieces_[{buffer.tensor.value, buffer.device}];
        meter_device(buffer.device);
        program.store[b] = loaded(buffer, known, program.store);
        if (program.exchange && is_trained(buffer.tensor)) {
            program.exchange->guard(program.store[b]);
        }
        known.push_back(b);
    }
}

at::Tensor Residents::loaded(const Buffer& buffer, const std::vector<BufferId>& known,
                             const Store& store) const {
    if (problem_.facts().is_resident(buffer.tensor)) {
        for (const BufferId other : known) {
            const Patch patch(region_of(buffer_of(other)), region_of(buffer));
            if (patch.volume() != tasks_.regions->volume(buffer.region)) continue;
            if (patch.is_box()) return patch.view_of(store[other]);
        }
    }
    const at::Device device = placement_.device[static_cast<std::size_t>(buffer.device)];
    at::Tensor value = sources_.read(buffer.tensor, region_of(buffer));
    if (!is_trained(buffer.tensor) && is_read_on_host(problem_.graph(), buffer.tensor)) {
        return value;
    }
    return value.to(device);
}

std::vector<Resident> Residents::residents_of(TensorId tensor, int device,
                                              const graph::Region& region) const {
    std::vector<Resident> residents;
    const auto known = pieces_.find({tensor.value, device});
    if (known == pieces_.end()) return residents;
    for (const BufferId b : known->second) {
        Patch patch(region, region_of(buffer_of(b)));
        if (!patch.empty()) residents.push_back({b, std::move(patch)});
    }
    return residents;
}

std::vector<Found> Residents::parameters() const {
    std::vector<Found> found;
    for (const auto& [key, buffers] : pieces_) {
        const TensorId t{key.first};
        if (!is_trained(t)) continue;
        for (const BufferId b : buffers) found.push_back({b, t, buffer_of(b).region});
    }
    return found;
}

}  // namespace partita::runtime
