// SPDX-License-Identifier: Apache-2.0
//
// A cost model is one virtual function: the time of one task on one device. Decorators do the rest:
// first-match (profile before roofline), scale, cache. A task's time never depends on the timeline.
//
//     roofline:  max(flops / (peak * efficiency), bytes / (bandwidth * efficiency), launch interval)
//     fitted:    the curve of the kernel's family, where the device has a table (kernels/kernel_table.h)
//
// Threads: price() is const and thread-safe. Errors: "I do not know" is nullopt; OverflowError when
// a time leaves the range of its unit.
// Source: Williams, Waterman, Patterson, CACM 52(4), 2009 (roofline); REFERENCES.md 2, 9.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "cost/machine/machine.h"
#include "graph/op_graph.h"

namespace partita::cost {

enum class Phase : std::uint8_t { forward, backward, accumulate, pack, update };
inline constexpr int kPhaseCount = 5;
std::string_view name_of(Phase phase);

struct WorkSignature;

/// What a task does, apart from where.
struct Work {
    std::string_view type;  ///< operator
    Phase phase = Phase::forward;
    Flops flops;
    Bytes bytes;  ///< read and written
    graph::DType dtype = graph::DType::float32;
    bool matrix_product = false;
    bool batched = false;  ///< a matrix product whose operands both have a batch
    graph::ProductType product_type = graph::ProductType::as_stored;  ///< of a matrix product
    int row_bytes = graph::kWideRow;  ///< of a matrix product: graph::Op::row_bytes
    bool alias = false;               ///< moves no bytes (Reshape): free on every device
    const graph::GivenCosts* given = nullptr;
    // What measured works are found by; priced by size alone without it.
    const WorkSignature* signature = nullptr;  ///< null: not asked for (CostModel::uses_signatures)
    std::int64_t elements = -1;  ///< of work on elements alone: how many; -1: of an op
    std::string_view variant;    ///< of such work: optimizer, or loss
    /// Of a product or a convolution: the result that a bias is added to or, backward, whose gradient
    /// is summed for the bias's. 0: there is none. Priced where there are curves of kernels.
    Bytes biased;
};

enum class CostSource : std::uint8_t { given, measured, interpolated, fitted, analytic };
inline constexpr int kCostSourceCount = 5;

struct Price {
    Time time;
    CostSource source = CostSource::analytic;
    friend bool operator==(Price, Price) = default;
};

/// Up to 1, in 2^-32.
struct Share {
    std::int64_t raw = std::int64_t{1} << 32U;

    [[nodiscard]] bool is_whole() const { return *this == Share{}; }
    /// Of a time; rounded down.
    [[nodiscard]] Time of(Time time) const;
    friend auto operator<=>(Share, Share) = default;
};

class CostModel {
public:
    virtual ~CostModel() = default;
    [[nodiscard]] virtual std::optional<Price> price(const Work& work,
                                                     const Device& device) const = 0;
    /// Identifies model and calibration in a plan's costs.sources; part of its costs digest.
    [[nodiscard]] virtual std::string name() const = 0;

    /// Does Work::signature change what it says?
    [[nodiscard]] virtual bool uses_signatures() const { return false; }
    /// No work of this operator and phase, large or small, costs less there than this share of what
    /// the roofline says of it: what lower bounds may count on. Of given costs the whole.
    [[nodiscard]] virtual Share least_share(const Work& /*work*/, const Device& /*device*/) const {
        return {};
    }
};

/// Analytic: a curve of the device's table, else the roofline; knows every work. An alias costs nothing.
class Roofline final : public CostModel {
public:
    [[nodiscard]] std::optional<Price> price(const Work& work, const Device& device) const override;
    [[nodiscard]] std::string name() const override { return "roofline"; }
};

/// Of the curve that Roofline prices the work by there: its mean relative error on measured rows that
/// it was not fitted to; nullopt: no curve does.
std::optional<double> curve_error(const Work& work, const Device& device);

/// Costs from a workload file (Work::given), CPU or accelerator time by the kind of the device;
/// nullopt for other work. Whether an op may run there at all is for the constraints to say.
class GivenCostModel final : public CostModel {
public:
    [[nodiscard]] std::optional<Price> price(const Work& work, const Device& device) const override;
    [[nodiscard]] std::string name() const override { return "given"; }
};

/// The first model that knows. Throws std::invalid_argument when `models` is empty.
class FirstMatch final : public CostModel {
public:
    explicit FirstMatch(std::vector<std::shared_ptr<const CostModel>> models);
    [[nodiscard]] std::optional<Price> price(const Work& work, const Device& device) const override;
    [[nodiscard]] std::string name() const override;
    [[nodiscard]] bool uses_signatures() const override;
    [[nodiscard]] Share least_share(const Work& work, const Device& device) const override;

private:
    /// Shared: one roofline may stand in several chains of decorators.
    std::vector<std::shared_ptr<const CostModel>> models_;
};

/// Given costs, then roofline: what `plan` uses when there is no profile.
std::shared_ptr<const CostModel> default_cost_model();

}  // namespace partita::cost
