// SPDX-License-Identifier: Apache-2.0
//
// Strategy: one decision per op, plus the training policy. What is decided of an op is its config,
// of a trained parameter also how it is updated, and of what may be recomputed whether it is. A
// config is an ordered list of axes, major to minor, mapped onto a device set; the empty list is a
// whole op on one device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op_graph.h"
#include "plan/strategy/axis.h"
#include "plan/strategy/host_time.h"
#include "plan/strategy/pipeline_schedule.h"

namespace partita::plan {

/// Devices by rule (first, count, stride) or, as the fallback, by list. 16,384 devices are one
/// small value. Equal sets compare equal: a list that is a progression is stored as one.
class DeviceSet {
public:
    DeviceSet() = default;  ///< empty
    static DeviceSet single(int device) { return progression(device, 1, 1); }
    static DeviceSet progression(int first, int count, int stride);
    static DeviceSet list(std::vector<int> devices);

    [[nodiscard]] int size() const { return count_; }
    [[nodiscard]] bool empty() const { return count_ == 0; }
    [[nodiscard]] int operator[](int part) const {
        return list_.empty() ? first_ + part * stride_ : list_[static_cast<std::size_t>(part)];
    }
    [[nodiscard]] bool is_list() const { return !list_.empty(); }
    [[nodiscard]] int first() const { return first_; }
    [[nodiscard]] int stride() const { return stride_; }
    friend bool operator==(const DeviceSet&, const DeviceSet&) = default;

private:
    int first_ = 0;
    int count_ = 0;
    int stride_ = 1;
    std::vector<int> list_;
};

struct OpConfig {
    std::vector<Axis> axes;  ///< major to minor
    DeviceSet devices;       ///< one per part
    friend bool operator==(const OpConfig&, const OpConfig&) = default;
};

/// How a trained parameter is updated; its own config says where it is kept.
struct UpdateConfig {
    OpConfig update;  ///< who updates what part of it; without devices: those that keep it
    /// Micro-batches add up where their gradients arise; otherwise each goes to the update's layout
    /// (RULES.md 17: what tells ZeRO-1 from ZeRO-2).
    bool accumulate_locally = false;
    bool refetch = false;  ///< what was fetched for the forward is dropped and fetched again
    friend bool operator==(const UpdateConfig&, const UpdateConfig&) = default;
};

/// What of a layer block's activations is given up after the forward and computed once more for the
/// backward (recompute_regions.h says which ops that are).
enum class Recompute : std::uint8_t {
    none,
    selective,  ///< what attention makes between its two products
    full,       ///< all but what the block reads and gives
    automatic   ///< of a policy: the search chooses one of these for each block
};

/// All that is decided of one op.
struct OpDecision {
    OpConfig config;
    UpdateConfig update;  ///< of a parameter; the default one for all others
    /// Of an op that runs again: what is chosen for its layer block.
    Recompute recompute = Recompute::none;
    friend bool operator==(const OpDecision&, const OpDecision&) = default;
};

enum class Optimizer : std::uint8_t { sgd, momentum, adam };
enum class LossKind : std::uint8_t { sum, mse, cross_entropy };
enum class GradientSync : std::uint8_t { all_reduce, parameter_server };

std::string_view name_of(Optimizer optimizer);
std::string_view name_of(LossKind loss);
std::string_view name_of(GradientSync sync);
std::string_view name_of(Recompute recompute);

/// More micro-batches than that are refused.
inline constexpr int kMostMicroBatches = 4'096;

/// Buckets have at most that size, or one of those below.
inline constexpr Bytes kMostBucket{std::int64_t{1} << 60};
/// The size of a bucket for all gradients, and that of buckets for one layer each.
inline constexpr Bytes kOneBucket = Bytes::max();
inline constexpr Bytes kLayerBuckets{Bytes::max().raw() - 1};
/// "26214400", "all" or "layer".
std::string bucket_text(Bytes size);
/// Of "all" and "layer"; nullopt: neither.
std::optional<Bytes> named_bucket(std::string_view text);

/// Norms that gradients are clipped to are above 0 and at most that.
inline constexpr double kMostClipNorm = 1e9;
/// "1", "0.5"; of 0 "none".
std::string clip_norm_text(double norm);
/// The same back; nullopt: no such norm.
std::optional<double> clip_norm_from_text(std::string_view text);

/// How an iteration goes; part of the plan. Inference knows micro-batches and their schedule alone.
struct Policy {
    int micro_batches = 1;
    Schedule schedule;
    Optimizer optimizer = Optimizer::sgd;
    LossKind loss = LossKind::sum;
    std::string loss_output;  ///< name of the output the loss is taken of; "" = all float outputs
    GradientSync gradient_sync = GradientSync::all_reduce;
    /// Globs over names of parameters, or of the blocks that they belong to: those are not trained.
    std::vector<std::string> frozen;
    Recompute recompute = Recompute::none;  ///< of every layer block that has such a region
    /// What devices gather of each other's activations for a forward they give up after it, and
    /// gather again for the backward (Korthikanti et al., MLSys 2023, section 4.2.2).
    bool gather_again = false;
    /// Of gradients that are reduced together (gradient_buckets.h), kOneBucket or kLayerBuckets;
    /// nullopt: each by itself.
    std::optional<Bytes> bucket_bytes;
    HostTime host_time;  ///< of the hosts of accelerators
    /// Gradients are scaled down together until their norm is that (gradient_clipping.h); 0: they
    /// are not.
    double clip_norm = 0;
    friend bool operator==(const Policy&, const Policy&) = default;
};

struct Strategy {
    std::vector<OpDecision> ops;  ///< indexed by OpId
    Policy policy;
    friend bool operator==(const Strategy&, const Strategy&) = default;

    [[nodiscard]] const OpConfig& config(graph::OpId op) const { return ops[op.index()].config; }
    [[nodiscard]] const UpdateConfig& update(graph::OpId op) const {
        return ops[op.index()].update;
    }
    /// The device of a whole op, the first of a split one.
    [[nodiscard]] int device_of(graph::OpId op) const { return config(op).devices[0]; }
};

/// All ops on one device each: `devices` indexed by OpId.
Strategy whole_ops(const std::vector<int>& devices, Policy policy);

}  // namespace partita::plan
