// SPDX-License-Identifier: Apache-2.0
//
// What the memory of a device holds, told apart as engineers do (Rajbhandari et al., ZeRO, SC 2020,
// section 3: model states and residual states).
//
//     weights       parameters and constants, also those gathered for their use; the memory that a
//                   workload gives for an op
//     gradients     of parameters, with those that wait to be added up
//     optimizer     moments and master copies
//     activations   everything else that ops give each other, both ways, and the inputs
//     recomputation of these, what was computed once more for the backward
//     buffers       messages in the order in which they travel
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/units.h"

namespace partita::plan {

enum class MemoryKind : std::uint8_t {
    weights,
    gradients,
    optimizer,
    activations,
    recomputation,
    buffers
};
inline constexpr std::array kMemoryKinds = {MemoryKind::weights,       MemoryKind::gradients,
                                            MemoryKind::optimizer,     MemoryKind::activations,
                                            MemoryKind::recomputation, MemoryKind::buffers};
constexpr std::string_view name_of(MemoryKind kind) {
    constexpr std::array<std::string_view, kMemoryKinds.size()> kNames = {
        "weights", "gradients", "optimizer", "activations", "recomputation", "buffers"};
    return kNames[static_cast<std::size_t>(kind)];
}

/// Bytes of each kind.
class MemoryByKind {
public:
    [[nodiscard]] Bytes& operator[](MemoryKind kind) {
        return bytes_[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] Bytes operator[](MemoryKind kind) const {
        return bytes_[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] Bytes total() const {
        Bytes sum;
        for (const Bytes bytes : bytes_) sum += bytes;
        return sum;
    }
    friend bool operator==(const MemoryByKind&, const MemoryByKind&) = default;

private:
    std::array<Bytes, kMemoryKinds.size()> bytes_{};
};

/// Bytes that stay on a device for the whole iteration.
struct PersistentBytes {
    std::int32_t device = 0;
    MemoryKind kind = MemoryKind::weights;
    Bytes bytes;
};

}  // namespace partita::plan
