// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace partita::plan {

/// Of an iteration over the ops. The loss of an output belongs to the backward, and so does the
/// update of a parameter. What is recomputed is a forward once more, for the backward. Where a
/// schedule has the gradients of weights apart, the backward is that of activations alone.
enum class Pass : std::uint8_t { forward, backward, recompute, weights };
inline constexpr std::array kPasses = {Pass::forward, Pass::backward, Pass::recompute,
                                       Pass::weights};
inline constexpr std::array kPassesOnce = {Pass::forward, Pass::backward, Pass::weights};

/// Does it find gradients of operands? These are found against the order of the ops.
constexpr bool is_backward(Pass pass) {
    return pass == Pass::backward || pass == Pass::weights;
}

/// Which passes the ops of a problem may have, and numbers of ops' passes where things have one per
/// op and pass. Forward and backward come first, side by side, so that without the others nothing
/// is left empty.
class PassRows {
public:
    /// `ops`: of all rows.
    constexpr PassRows(std::size_t ops, bool recomputes, bool splits_backward)
        : ops_(ops), recomputes_(recomputes), splits_backward_(splits_backward) {}

    [[nodiscard]] constexpr std::span<const Pass> passes() const {
        const std::span<const Pass> all =
            recomputes_ ? std::span<const Pass>(kPasses) : std::span<const Pass>(kPassesOnce);
        return all.first(all.size() - (splits_backward_ ? 0 : 1));
    }
    [[nodiscard]] constexpr std::size_t size() const { return passes().size() * ops_; }
    /// The pass must be one of passes().
    [[nodiscard]] constexpr std::size_t row(std::size_t op, Pass pass) const {
        switch (pass) {
        case Pass::recompute: return 2 * ops_ + op;
        case Pass::weights: return (recomputes_ ? 3 : 2) * ops_ + op;
        default: return 2 * op + static_cast<std::size_t>(pass);
        }
    }

    struct OpPass {
        std::size_t op = 0;
        Pass pass = Pass::forward;
    };
    /// What row() numbers so.
    [[nodiscard]] constexpr OpPass at(std::size_t row) const {
        if (row < 2 * ops_) return {row / 2, static_cast<Pass>(row % 2)};
        const bool recompute = recomputes_ && row < 3 * ops_;
        return {row % ops_, recompute ? Pass::recompute : Pass::weights};
    }

private:
    std::size_t ops_;
    bool recomputes_;
    bool splits_backward_;
};

}  // namespace partita::plan
