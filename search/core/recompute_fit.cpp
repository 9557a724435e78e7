// SPDX-License-Identifier: Apache-2.0
#include "search/core/recompute_fit.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "plan/problem/problem.h"
#include "plan/problem/recompute_regions.h"

namespace partita::search {

using plan::LayerBlock;
using plan::Recompute;

namespace {

/// Blocks on the same devices, and how many of them, from the front, recompute more than the rest.
struct StageBlocks {
    plan::DeviceSet devices;
    std::vector<const LayerBlock*> blocks;
    std::size_t too_few = 0;
    std::size_t enough = 0;
    [[nodiscard]] bool is_open() const { return too_few + 1 < enough; }
};

class Fit {
public:
    Fit(Engine& engine, plan::Strategy strategy)
        : engine_(engine),
          regions_(engine.problem().facts().recompute()),
          strategy_(std::move(strategy)) {}

    std::optional<FittedStrategy> run() {
        const auto evaluation = engine_.evaluate(strategy_);
        if (!evaluation) return std::nullopt;
        const bool free = engine_.problem().policy().recompute == Recompute::automatic;
        FittedStrategy plain{strategy_, *evaluation};
        if (evaluation->feasible() || !free || !regions_.any()) return plain;
        Recompute less = Recompute::none;
        plan::Evaluation with_less = *evaluation;
        for (const Recompute more : {Recompute::selective, Recompute::full}) {
            if (!regions_.has(more)) continue;
            set_all(less, more);
            const auto tried = engine_.evaluate(strategy_);
            if (!tried) return plain;
            if (tried->feasible()) return fewest(less, more, with_less, *tried);
            less = more;
            with_less = *tried;
        }
        return plain;
    }

private:
    /// A block that has no such region does what it can.
    static Recompute at_most(const LayerBlock& block, Recompute choice) {
        if (block.region(choice) != nullptr) return choice;
        const bool attention = choice == Recompute::full && block.region(Recompute::selective);
        return attention ? Recompute::selective : Recompute::none;
    }

    void set_all(Recompute less, Recompute more) {
        for (const LayerBlock& block : regions_.blocks()) {
            const Recompute most = at_most(block, more);
            set_recompute(block, most == Recompute::none ? at_most(block, less) : most, strategy_);
        }
    }

    [[nodiscard]] std::vector<StageBlocks> stages() const {
        std::vector<StageBlocks> stages;
        for (const LayerBlock& block : regions_.blocks()) {
            const plan::DeviceSet& devices = strategy_.config(block.ops.front()).devices;
            const auto known = std::ranges::find(stages, devices, &StageBlocks::devices);
            StageBlocks& stage = known != stages.end() ? *known : stages.emplace_back();
            stage.devices = devices;
            stage.blocks.push_back(&block);
            stage.enough = stage.blocks.size();
        }
        return stages;
    }

    [[nodiscard]] bool fits(const StageBlocks& stage, const plan::Evaluation& evaluation) const {
        for (int i = 0; i < stage.devices.size(); ++i) {
            const int device = stage.devices[i];
            const Bytes used = evaluation.devices[static_cast<std::size_t>(device)].memory;
            if (used > engine_.problem().constraints().memory_capacity(device)) return false;
        }
        return true;
    }

    void set_first(const StageBlocks& stage, std::size_t count, Recompute less, Recompute more) {
        for (std::size_t i = 0; i < stage.blocks.size(); ++i) {
            const LayerBlock& block = *stage.blocks[i];
            set_recompute(block, at_most(block, i < count ? more : less), strategy_);
        }
    }

    /// All blocks at `less` do not fit, all at `more` do.
    FittedStrategy fewest(Recompute less, Recompute more, const plan::Evaluation& with_less,
                          const plan::Evaluation& with_more) {
        std::vector<StageBlocks> stages = this->stages();
        for (StageBlocks& stage : stages) {
            if (fits(stage, with_less)) stage.enough = 0;
        }
        FittedStrategy best{strategy_, with_more};
        const auto is_open = [](const StageBlocks& stage) { return stage.is_open(); };
        for (bool last = false; !last;) {
            last = std::ranges::none_of(stages, is_open);
            std::vector<std::size_t> counts;
            for (const StageBlocks& stage : stages) {
                counts.push_back(stage.is_open() ? (stage.too_few + stage.enough) / 2
                                                 : stage.enough);
                set_first(stage, counts.back(), less, more);
            }
            if (strategy_ == best.strategy) break;
            const auto tried = engine_.evaluate(strategy_);
            if (!tried) break;
            for (std::size_t s = 0; s < stages.size(); ++s) {
                if (!stages[s].is_open()) continue;
                (fits(stages[s], *tried) ? stages[s].enough : stages[s].too_few) = counts[s];
            }
            const bool better = tried->feasible() && tried->value <= best.evaluation.value;
            if (better) best = {strategy_, *tried};
        }
        return best;
    }

    Engine& engine_;
    const plan::RecomputeRegions& regions_;
    plan::Strategy strategy_;
};

}  // namespace

std::optional<FittedStrategy> evaluate_and_recompute(Engine& engine, plan::Strategy strategy) {
    return Fit(engine, std::move(strategy)).run();
}

}  // namespace partita::search
