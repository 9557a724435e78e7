// SPDX-License-Identifier: Apache-2.0
//
// What the shared library shows to who loads it.
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "plan/files/plan_file.h"
#include "rl/policy_file.h"
#include "rl/rl.h"
#include "rl/rl_search.h"
#include "search/portfolio/search_run.h"

namespace partita::rl {
namespace {

/// Placers that the curve shows beside what was learned.
constexpr std::array kReferences = {"single-device", "hash", "critical-path", "multi-objective",
                                    "heft"};

/// Of rl-hierarchical.
constexpr std::int64_t kGroups = 32;

bool is_cancelled(const search::Engine& engine) {
    const std::atomic<bool>* const cancelled = engine.options().cancelled;
    return cancelled != nullptr && cancelled->load();
}

/// What the others find, in the terms of the learner's reward: predicted, or as it ran. One whose
/// plan fails has no line.
std::vector<CurveReference> references_of(const search::Engine& engine) {
    constexpr std::int64_t kEvaluations = 100;
    const search::Measure& measure = engine.options().measure;
    std::vector<CurveReference> references;
    for (const char* const name : kReferences) {
        if (measure && is_cancelled(engine)) break;  // running plans takes as long as it takes
        search::EngineOptions options;
        options.searchers = {name};
        options.evaluations = kEvaluations;
        const search::SearchResult result = search::search(engine.problem(), options);
        if (!result.has_plan()) continue;
        const std::optional<Time> value =
            measure ? measure(result.strategy) : std::optional(result.evaluation.value);
        if (value) references.push_back({name, to_seconds(*value)});
    }
    return references;
}

class Learners final : public search::LearnedSearchers {
public:
    explicit Learners(const LearnOptions& options) : options_(options) {
        if (!options.load_policy.empty()) policy_ = read_policy(options.load_policy);
    }

    std::unique_ptr<search::Searcher> make(std::string_view name, search::Engine& engine) override {
        name_ = name;
        engine_ = &engine;
        RlOptions options{.learner = {}, .policy = policy_, .zero_shot = options_.zero_shot};
        const bool hierarchical = name == "rl-hierarchical";
        if (hierarchical) options.learner.net.groups = kGroups;
        if (policy_ && (policy_->groups() > 0) != hierarchical) {
            throw UsageError("--load-policy " + options_.load_policy.string() +
                             ": this is a policy of " + (hierarchical ? "rl" : "rl-hierarchical") +
                             ". Use --searcher with that name.");
        }
        return std::make_unique<RlSearch>(std::move(options), lessons_);
    }

    void finish() override {
        if (!options_.save_policy.empty() && lessons_.policy) {
            write_policy(options_.save_policy, *lessons_.policy);
        }
        if (options_.curve.empty() || engine_ == nullptr) return;
        lessons_.curve.references = references_of(*engine_);
        write_file(options_.curve, to_csv(lessons_.curve));
        write_file(options_.picture(), to_svg(lessons_.curve, name_ + ": time of a plan"));
    }

private:
    LearnOptions options_;
    std::shared_ptr<PolicyNet> policy_;
    const search::Engine* engine_ = nullptr;  ///< that searches
    std::string name_;
    Lessons lessons_;
};

}  // namespace
}  // namespace partita::rl

extern "C" partita::search::LearnedSearchers* partita_make_learned(
    const partita::rl::LearnOptions& options) {
    return new partita::rl::Learners(options);
}
