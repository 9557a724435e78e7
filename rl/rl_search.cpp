// SPDX-License-Identifier: Apache-2.0
#include "rl/rl_search.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "rl/action_space.h"
#include "rl/learner.h"
#include "rl/option_prices.h"
#include "search/engine.h"
#include "search/repair.h"

namespace partita::rl {

using plan::Evaluation;
using search::Engine;
using search::Status;

namespace {

constexpr std::int64_t kIdleBatches = 50;
constexpr std::size_t kMostKnown = 100'000;

std::string key_of(const Choices& choices) {
    std::string key(reinterpret_cast<const char*>(choices.options.data()),
                    choices.options.size() * sizeof(std::int32_t));
    key += static_cast<char>(choices.policy);
    return key;
}

}  // namespace

RlSearch::RlSearch(const LearnerOptions& options, LearningCurve* curve)
    : options_(std::make_unique<LearnerOptions>(options)), curve_(curve) {}

RlSearch::~RlSearch() = default;

void RlSearch::open(Engine& engine) {
    space_ = std::make_unique<ActionSpace>(engine.groups());
    prices_ = std::make_unique<OptionPrices>(*space_);
    learner_ = std::make_unique<Learner>(*space_, *prices_, *options_, engine.random().next());
    const plan::Problem& problem = engine.problem();
    double capacity = 0;
    for (int d = 0; d < problem.device_count(); ++d) {
        capacity += static_cast<double>(problem.memory_capacity(d).raw());
    }
    capacity_ = std::max(1.0, capacity);
    scale_ = static_cast<double>(engine.lower_bound().raw());
    if (engine.best() != nullptr && space_->size() > 0) {
        learner_->add_elite(space_->nearest(*engine.best()), 0);
    }
}

std::vector<Evaluation> RlSearch::price(Engine& engine, const Batch& batch) {
    std::vector<std::string> keys;
    std::vector<std::size_t> fresh;
    std::vector<plan::Strategy> strategies;
    std::int64_t known = 0;
    for (std::size_t i = 0; i < batch.choices.size(); ++i) {
        keys.push_back(key_of(batch.choices[i]));
        if (known_.contains(keys[i])) {
            ++known;
            continue;
        }
        fresh.push_back(i);
        strategies.push_back(
            space_->strategy(batch.choices[i].policy, batch.choices[i].options));
    }
    idle_ = fresh.empty() ? idle_ + 1 : 0;
    const std::vector<Evaluation> priced = engine.evaluate(strategies);
    if (known > 0) static_cast<void>(engine.grant(known));  // they count as well
    if (known_.size() > kMostKnown) known_.clear();
    std::vector<Evaluation> all;
    std::size_t next = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
        if (next < fresh.size() && fresh[next] == i) {
            if (next == priced.size()) break;
            Evaluation evaluation = priced[next++];
            evaluation.devices.clear();
            known_.insert_or_assign(keys[i], evaluation);
        }
        const auto at = known_.find(keys[i]);
        if (at == known_.end()) break;
        all.push_back(at->second);
    }
    return all;
}

std::vector<double> RlSearch::rewards(const std::vector<Evaluation>& evaluations) {
    std::vector<double> rewards;
    for (const Evaluation& evaluation : evaluations) {
        const auto value = static_cast<double>(evaluation.value.raw());
        if (scale_ <= 0) scale_ = std::max(1.0, value);
        double reward = -std::sqrt(value / scale_);
        if (evaluation.feasible()) worst_ = std::min(worst_, reward);
        rewards.push_back(reward);
    }
    for (std::size_t i = 0; i < rewards.size(); ++i) {
        if (evaluations[i].feasible()) continue;
        const double over = static_cast<double>(evaluations[i].overflow.raw()) / capacity_;
        rewards[i] = worst_ - 1 - std::min(1.0, over);
    }
    return rewards;
}

/// Nothing of the first batch fits: moves groups until one does.
void RlSearch::fit(Engine& engine, const Batch& batch) {
    const search::GroupGraph& groups = engine.groups();
    const Choices& choices = batch.choices.front();
    const plan::Strategy strategy = space_->strategy(choices.policy, choices.options);
    search::Placement placement(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const int device = strategy.device_of(groups.groups().members[g].front());
        const std::vector<int>& allowed = groups.devices(g);
        placement[g] = std::ranges::count(allowed, device) > 0 ? device : allowed.front();
    }
    if (search::evaluate_and_repair(engine, std::move(placement))) {
        learner_->add_elite(space_->nearest(*engine.best()), 0);
    }
}

Status RlSearch::step(Engine& engine) {
    if (!space_) open(engine);
    if (space_->size() == 0) {
        static_cast<void>(engine.evaluate(space_->strategy(0, {})));
        return Status::found;
    }
    const bool first = samples_ == 0;
    Batch batch = learner_->sample(options_->batch, engine.random());
    const std::vector<Evaluation> evaluations = price(engine, batch);
    if (evaluations.size() < batch.choices.size()) return Status::in_progress;  // the budget is spent
    samples_ += static_cast<std::int64_t>(evaluations.size());
    const std::vector<double> rewards = this->rewards(evaluations);
    for (std::size_t i = 0; i < rewards.size(); ++i) {
        if (evaluations[i].feasible()) learner_->add_elite(batch.choices[i], rewards[i]);
    }
    const bool none_fits = std::ranges::none_of(
        evaluations, [](const Evaluation& evaluation) { return evaluation.feasible(); });
    if (first && none_fits && !engine.exhausted()) fit(engine, batch);
    const double spent =
        engine.spent().value_or(static_cast<double>(samples_) / static_cast<double>(kSamples));
    const LearnerStep done = learner_->learn(batch, rewards, spent);
    if (curve_ != nullptr) {
        CurvePoint point{.samples = samples_, .baseline = done.baseline, .entropy = done.entropy};
        double sum = 0;
        int fitting = 0;
        for (const Evaluation& evaluation : evaluations) {
            if (!evaluation.feasible()) continue;
            sum += to_seconds(evaluation.value);
            ++fitting;
        }
        point.mean = fitting > 0 ? sum / fitting : 0;
        if (engine.best_evaluation()->feasible()) point.best = to_seconds(engine.best_evaluation()->value);
        point.baseline = done.baseline * done.baseline * scale_ * 1e-12;
        curve_->push_back(point);
    }
    const bool over = !engine.spent() && samples_ >= kSamples;
    return over || idle_ >= kIdleBatches ? Status::found : Status::in_progress;
}

}  // namespace partita::rl
