// SPDX-License-Identifier: Apache-2.0
#include "plan/folding/folding.h"

#include <algorithm>
#include <ranges>
#include <span>
#include <utility>

#include "plan/folding/resource_classes.h"
#include "plan/folding/tensor_folding.h"

namespace partita::plan {

namespace {

constexpr int kMostRounds = 16;

/// All that is different in a strategy: micro-batches and tensors that are alike are there once.
class Refinement {
public:
    Refinement(const Problem& problem, StrategyTensors& tensors, const ResourceSets& resource_sets)
        : problem_(problem), tensors_(tensors), resource_sets_(resource_sets), classes_(problem) {
        find_ops();
        find_tensors();
    }

    /// False: it does not end in a few rounds.
    bool run() {
        const std::vector<std::int32_t> sets = sets_in_use();
        begin(sets);
        FoldingScratch scratch;
        std::vector<std::uint64_t> of_sets(resource_sets_.resources().rows());
        for (int round = 0; round < kMostRounds; ++round) {
            for (std::size_t i = 0; i < lists_.size(); ++i) tell(i);
            for (const std::int32_t set : sets) {
                const auto s = static_cast<std::size_t>(set);
                of_sets[s] = classes_.hash_of(resource_sets_.resources()[s]);
            }
            for (TensorFolding& tensor : different_)
                tensor.classify(resource_sets_, of_sets, classes_, scratch);
            if (!classes_.part()) return true;
        }
        return false;
    }

    /// Chooses devices, and the parts on them.
    void keep_parts() {
        representatives_ = classes_.representatives();
        for (const auto& [devices, places] : places_) {
            FoldedParts& parts = parts_[devices];
            parts.place.assign(places.size(), -1);
            std::unordered_map<std::int64_t, std::int32_t> known;
            const auto key = [&](const PartPlace& place, std::int32_t device) {
                return std::int64_t{device} * kMostParts + place.number;
            };
            for (std::size_t p = 0; p < places.size(); ++p) {
                if (representative(places[p].device) != places[p].device) continue;
                known.emplace(key(places[p], places[p].device), std::ssize(parts.kept));
                parts.kept.push_back(static_cast<std::int32_t>(p));
            }
            parts.copies.assign(parts.kept.size(), 0);
            for (std::size_t p = 0; p < places.size(); ++p) {
                parts.place[p] = known.at(key(places[p], representative(places[p].device)));
                ++parts.copies[static_cast<std::size_t>(parts.place[p])];
            }
        }
    }

    /// Per row of events; empty: something does not fold.
    std::vector<const FoldedTasks*> fold(std::vector<std::unique_ptr<FoldedTasks>>& folded) {
        FoldingRules rules{.resource_sets = resource_sets_,
                           .classes = classes_,
                           .representatives = representatives_,
                           .channels = {}};
        for (const TensorFolding& tensor : different_) {
            folded.push_back(tensor.folded(rules));
            if (folded.back() == nullptr) return {};
        }
        std::vector<const FoldedTasks*> of_rows(number_.size(), nullptr);
        for (std::size_t row = 0; row < number_.size(); ++row) {
            if (number_[row] >= 0)
                of_rows[row] = folded[static_cast<std::size_t>(number_[row])].get();
        }
        return of_rows;
    }

    [[nodiscard]] const std::vector<std::int32_t>& representatives() const {
        return representatives_;
    }
    /// When nothing is folded any more.
    [[nodiscard]] std::unordered_map<const std::int32_t*, FoldedParts> take_parts() {
        return std::move(parts_);
    }
    /// Parameters are fetched for each use: what limits that refers to parts by number.
    [[nodiscard]] bool fetches() const { return fetches_; }

private:
    [[nodiscard]] std::int32_t representative(std::int32_t device) const {
        return representatives_[static_cast<std::size_t>(device)];
    }

    /// A partition that needs no look at the tasks themselves, to spare rounds that do: what these
    /// do not tell apart uses sets of resources that are alike.
    void begin(std::span<const std::int32_t> sets) {
        bool finer = true;
        for (int round = 0; finer && round < kMostRounds; ++round) {
            for (std::size_t i = 0; i < lists_.size(); ++i) tell(i);
            classes_.saw_sets(resource_sets_.resources(), sets);
            finer = classes_.part();
        }
    }

    [[nodiscard]] std::vector<std::int32_t> sets_in_use() const {
        std::vector<bool> used(resource_sets_.resources().rows(), false);
        for (const TensorFolding& tensor : different_) {
            for (const Task& task : tensor.tasks())
                used[static_cast<std::size_t>(task.resource_set)] = true;
        }
        std::vector<std::int32_t> sets;
        for (std::size_t set = 0; set < used.size(); ++set) {
            if (used[set]) sets.push_back(static_cast<std::int32_t>(set));
        }
        return sets;
    }

    void find_ops() {
        const MicroBatchRows& rows = tensors_.rows();
        for (std::size_t i = 0; i < problem_.graph().op_count(); ++i) {
            const graph::OpId op(i);
            const OpLayouts* latest = nullptr;
            for (int m = 0; m < rows.micro_batches() && rows.runs_in(op, m); ++m) {
                const OpLayouts* const layouts = &tensors_.of(op, m);
                if (layouts != std::exchange(latest, layouts)) add_places(layouts->devices);
            }
        }
    }

    void add_places(std::span<const std::int32_t> devices) {
        const auto [known, is_new] = places_.try_emplace(devices.data());
        if (!is_new) return;
        lists_.push_back(devices);
        std::unordered_map<std::int32_t, std::int32_t> met;
        for (const std::int32_t device : devices) {
            known->second.push_back({.device = device, .number = met[device]++});
        }
        parts_[devices.data()];
    }

    void find_tensors() {
        std::unordered_map<const TensorTasks*, std::int32_t> numbers;
        number_.assign(tensors_.events().size(), -1);
        for (std::size_t row = 0; row < number_.size(); ++row) {
            const TensorEvents& events = tensors_.events()[row];
            if (events.events.empty()) continue;
            const std::size_t alike = tensors_.row_alike(row);
            if (alike < row) {
                number_[row] = number_[alike];
                continue;
            }
            const TensorTasks& tasks = tensors_.tasks(row);
            fetches_ = fetches_ || tasks.fetches;
            const auto next = static_cast<std::int32_t>(different_.size());
            const auto [known, is_new] = numbers.emplace(&tasks, next);
            number_[row] = known->second;
            if (!is_new) continue;
            std::vector<TensorFolding::Block> blocks;
            for (const PartBlock& block : events.blocks) {
                const std::int32_t* const devices =
                    tensors_.of(block.op, block.micro_batch).devices.data();
                blocks.push_back({places_.at(devices), &parts_.at(devices)});
            }
            different_.emplace_back(events, tasks, std::move(blocks));
        }
    }

    /// Parts of some ops are on these devices: which ops, tells none of these devices from another.
    void tell(std::size_t list) {
        for (const std::int32_t device : lists_[list]) classes_.device_saw(device, list);
    }

    const Problem& problem_;
    StrategyTensors& tensors_;
    const ResourceSets& resource_sets_;
    ResourceClasses classes_;
    /// Of devices that ops are on; all different.
    std::vector<std::span<const std::int32_t>> lists_;
    // By these:
    std::unordered_map<const std::int32_t*, std::vector<PartPlace>> places_;
    std::unordered_map<const std::int32_t*, FoldedParts> parts_;
    std::vector<TensorFolding> different_;
    std::vector<std::int32_t> number_;  ///< per row of events: of different_; -1: it has none
    std::vector<std::int32_t> representatives_;
    bool fetches_ = false;
};

}  // namespace

std::optional<Folding> Folding::find(const Problem& problem, StrategyTensors& tensors,
                                     const ResourceSets& resource_sets) {
    Refinement refinement(problem, tensors, resource_sets);
    if (refinement.fetches() || !refinement.run()) return std::nullopt;
    Folding folding;
    refinement.keep_parts();
    folding.representatives_ = refinement.representatives();
    const auto stands_for_itself = [&](std::int32_t device) {
        return folding.representatives_[static_cast<std::size_t>(device)] == device;
    };
    if (std::ranges::all_of(std::views::iota(0, problem.device_count()), stands_for_itself))
        return std::nullopt;
    folding.rows_ = refinement.fold(folding.folded_);
    if (folding.rows_.empty()) return std::nullopt;
    folding.parts_ = refinement.take_parts();
    return folding;
}

}  // namespace partita::plan
