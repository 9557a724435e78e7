// SPDX-License-Identifier: Apache-2.0
//
// One placement in the making, and what a policy sees of it before each decision: for every block,
// and for every option on the block that it then chose, a row of features.
//
//     decision d     block 0   [size, first, ..., would finish at, load then, memory then, ...]
//                    block 1   [ ... ]                                 └─ given what was decided before
//
// Finishing times are those of a list schedule without interference: a decision starts when what it
// reads has arrived and all devices of its block are free. Lengths of time are measured by an even
// share of all work and by the decision itself, amounts by what there is, so that features mean the
// same in graphs of any size.
//
// kFeatureVersion changes with the meaning of any feature: policies that were saved with another
// are refused.
// Source: the idea of features of a partial placement, Addanki et al., Placeto, NeurIPS 2019.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "rl/action_space.h"
#include "rl/option_prices.h"

namespace partita::rl {

inline constexpr int kFeatureVersion = 1;
inline constexpr std::size_t kBlockFeatures = 16;
inline constexpr std::size_t kKindFeatures = 2 * kAxisClasses + 10;

class Walk {
public:
    /// Both must outlive it.
    Walk(ActionSpace& space, OptionPrices& prices);

    void start(std::size_t iteration);
    /// Looks at the options of a decision. What it reads counts as far as that was decided before.
    void look(std::size_t decision);

    // Of the decision looked at.

    /// kBlockFeatures of each of its places, in their order.
    void write_block_features(float* rows) const;
    /// May the place be chosen: has it an option that is legal and seems to fit the memory? Where
    /// no place has one, those that are legal.
    [[nodiscard]] bool is_open_place(std::size_t place) const { return open_[place] != 0; }
    /// kKindFeatures of each option on the place, in their order.
    void write_kind_features(std::size_t place, float* rows) const;
    [[nodiscard]] bool is_open_option(std::size_t option) const { return views_[option].open; }

    void take(std::size_t option);

    [[nodiscard]] std::span<const std::int32_t> options() const { return chosen_; }

private:
    /// What choosing an option would mean.
    struct View {
        double compute = 0;
        double sync = 0;
        double transfer = 0;
        double wait = 0;  ///< between arrival of its operands and its start
        double end = 0;
        double load = 0;   ///< of the busiest device of the block, afterwards
        double fill = 0;   ///< of the fullest, as a share of its capacity
        double alike = 0;  ///< share of what it reads that was made by the same kind of split
        bool legal = false;
        bool open = false;
    };

    void view(std::size_t option);
    [[nodiscard]] std::size_t best_on(std::size_t place) const;
    [[nodiscard]] double unit() const;
    [[nodiscard]] bool overlaps(std::int32_t a, std::int32_t b) const {
        return overlaps_[static_cast<std::size_t>(a) * space_.blocks().size() +
                         static_cast<std::size_t>(b)] != 0;
    }

    ActionSpace& space_;
    OptionPrices& prices_;
    std::size_t iteration_ = 0;
    std::vector<double> free_;      ///< per device: when
    std::vector<double> load_;      ///< per device
    std::vector<double> bytes_;     ///< per device
    std::vector<double> capacity_;  ///< per device
    std::vector<char> overlaps_;    ///< per two blocks: have they a device in common?
    std::vector<double> end_;       ///< per decision
    std::vector<std::int32_t> chosen_;
    std::size_t decision_ = 0;
    std::vector<View> views_;  ///< per option
    std::vector<char> open_;   ///< per place
    double least_end_ = 0;
    double least_load_ = 0;
    double least_compute_ = 0;
    double incoming_ = 0;  ///< bytes
};

/// Micro-batches, whether they are in order, and where parameters are kept.
inline constexpr std::size_t kIterationFeatures = 5;
std::array<float, kIterationFeatures> iteration_features(const Iteration& iteration);

}  // namespace partita::rl
