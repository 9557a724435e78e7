// SPDX-License-Identifier: Apache-2.0
//
// The norm of all gradients (plan/lowering/gradient_clipping.h). A device squares and adds up what it
// updates, each replica of a piece on one device alone; updates scale by
//
//     min(1, most / (norm + 1e-6))
//
// Processes add theirs up by messages, by the last of their devices that comes; within a process
// whoever updates reads what all devices found.
// Source: torch.nn.utils.clip_grad_norm_; RULES.md 18.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/units.h"
#include "runtime/communicate/mailbox_communicator.h"
#include "runtime/execute/exchange.h"
#include "runtime/execute/fetch.h"
#include "runtime/execute/store.h"

namespace partita::runtime {

/// Of one process. Places are numbers of its devices that take part. What a place is asked for or
/// given, it is by the worker of its device; the factor after all have given something.
class GradientNorm {
public:
    GradientNorm(double most, const std::vector<at::Device>& places);

    /// With other processes, which have one rank each. The exchange must outlive it.
    void join(Exchange& exchange, std::unique_ptr<MailboxCommunicator> communicator);

    /// The squares of an iteration, added up: a scalar on the device. Whoever comes last in this
    /// process meets the others, and gets the moment when the last of these came, since the start of
    /// the iteration.
    Time add(std::size_t place, at::Tensor squares);
    /// What gradients are multiplied with: a scalar on the device.
    [[nodiscard]] const at::Tensor& factor(std::size_t place);

private:
    struct Place {
        at::Device device;
        at::Tensor squares;
        at::Tensor factor;  ///< undefined: not asked for yet
    };
    Time add_up_processes();

    double most_;
    std::vector<Place> places_;
    Exchange* exchange_ = nullptr;  ///< null: there is one process
    std::unique_ptr<MailboxCommunicator> communicator_;
    std::atomic<std::size_t> arrived_{0};
    at::Tensor total_;  ///< of several processes, on the CPU
};

/// A device's share.
class ClipWork final : public Work {
public:
    /// `gradients`: those that count here.
    ClipWork(std::shared_ptr<GradientNorm> norm, std::size_t place, at::Device device,
             std::vector<Fetch> gradients)
        : norm_(std::move(norm)),
          place_(place),
          device_(device),
          gradients_(std::move(gradients)) {}
    void run(Store& store) override;
    [[nodiscard]] Time met() const override { return met_; }

private:
    std::shared_ptr<GradientNorm> norm_;
    std::size_t place_;
    at::Device device_;
    std::vector<Fetch> gradients_;
    Time met_;
};

/// A scalar that an update multiplies its gradient with.
struct ClipFactor {
    std::shared_ptr<GradientNorm> norm;  ///< null: nothing is clipped
    std::size_t place = 0;
};

}  // namespace partita::runtime
