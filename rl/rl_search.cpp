// SPDX-License-Identifier: Apache-2.0
#include "rl/rl_search.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

#include "rl/action_space.h"
#include "rl/learner.h"
#include "rl/option_prices.h"
#include "search/core/engine.h"
#include "search/list_scheduling/memory_repair.h"

namespace partita::rl {

using plan::Evaluation;
using search::Engine;
using search::Status;

namespace {

constexpr std::int64_t kIdleBatches = 50;
constexpr std::size_t kMostKnown = 100'000;

/// A plan that ran is worth the time that it took, one that failed is like one that does not fit.
std::vector<Evaluation> evaluate(Engine& engine, std::span<const plan::Strategy> strategies) {
    if (!engine.options().measure) return engine.evaluate(strategies);
    std::vector<Evaluation> evaluations;
    for (search::Measured& measured : engine.measure(strategies)) {
        Evaluation evaluation = std::move(measured.evaluation);
        const bool failed = evaluation.feasible() && !measured.time;
        if (measured.time) evaluation.value = *measured.time;
        if (failed) evaluation.keeps_schedule = false;
        evaluations.push_back(std::move(evaluation));
    }
    return evaluations;
}

const search::Clock& clock_of(const Engine& engine) {
    return engine.options().clock != nullptr ? *engine.options().clock : search::steady_clock();
}

std::string key_of(const Choices& choices) {
    std::string key(reinterpret_cast<const char*>(choices.options.data()),
                    choices.options.size() * sizeof(std::int32_t));
    key += static_cast<char>(choices.iteration);
    return key;
}

}  // namespace

RlSearch::RlSearch(RlOptions options, Lessons& lessons)
    : options_(std::move(options)), lessons_(lessons) {}

RlSearch::~RlSearch() = default;

void RlSearch::open(Engine& engine) {
    begin_ = clock_of(engine).now();
    space_ = std::make_unique<ActionSpace>(engine.groups());
    prices_ = std::make_unique<OptionPrices>(*space_);
    const std::uint64_t seed = engine.random().next();
    learner_ =
        std::make_unique<Learner>(*space_, *prices_, options_.learner, options_.policy, seed);
    lessons_.policy = learner_->net();
    const plan::Problem& problem = engine.problem();
    double capacity = 0;
    for (int d = 0; d < problem.device_count(); ++d) {
        capacity += static_cast<double>(problem.constraints().memory_capacity(d).raw());
    }
    capacity_ = std::max(1.0, capacity);
    scale_ = static_cast<double>(engine.lower_bound().raw());
    const bool can_imitate = learner_->net()->groups() == 0;  // else there are no groups to imitate
    if (engine.best() != nullptr && space_->size() > 0 && can_imitate) imitate_best(engine);
}

/// What the policy can choose that is most like the best plan so far.
void RlSearch::imitate_best(Engine& engine) {
    const Choices choices = space_->nearest(*engine.best());
    const plan::Strategy strategy = space_->strategy(choices.iteration, choices.options);
    const std::vector<Evaluation> evaluations = evaluate(engine, std::span(&strategy, 1));
    if (evaluations.empty() || !evaluations.front().feasible()) return;
    learner_->add_elite(choices, rewards(evaluations).front());
}

std::vector<Evaluation> RlSearch::price(Engine& engine, const Batch& batch) {
    if (known_.size() > kMostKnown) known_.clear();
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
            space_->strategy(batch.choices[i].iteration, batch.choices[i].options));
    }
    idle_ = fresh.empty() ? idle_ + 1 : 0;
    const std::vector<Evaluation> priced = evaluate(engine, strategies);
    if (known > 0) static_cast<void>(engine.grant(known));  // they count as well
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
    const plan::Strategy strategy = space_->strategy(choices.iteration, choices.options);
    search::Placement placement(groups.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
        const int device = strategy.device_of(groups.groups().members[g].front());
        const std::vector<int>& allowed = groups.devices(g);
        placement[g] = std::ranges::count(allowed, device) > 0 ? device : allowed.front();
    }
    if (search::evaluate_and_repair(engine, std::move(placement))) {
        if (learner_->net()->groups() == 0) imitate_best(engine);
    }
}

Status RlSearch::step(Engine& engine) {
    if (!space_) open(engine);
    if (space_->size() == 0) {
        static_cast<void>(engine.evaluate(space_->strategy(0, {})));
        return Status::found;
    }
    const bool first = samples_ == 0;
    const Batch batch =
        options_.zero_shot
            ? learner_->sample_policy(options_.learner.batch, first ? 1 : 0, engine.random())
            : learner_->sample(options_.learner.batch, engine.random());
    const std::vector<Evaluation> evaluations = price(engine, batch);
    if (evaluations.size() < batch.choices.size()) return Status::in_progress;  // budget spent
    samples_ += static_cast<std::int64_t>(evaluations.size());
    const std::vector<double> rewards = this->rewards(evaluations);
    for (std::size_t i = 0; i < rewards.size(); ++i) {
        if (evaluations[i].feasible()) learner_->add_elite(batch, i, rewards[i]);
    }
    const bool none_fits = std::ranges::none_of(
        evaluations, [](const Evaluation& evaluation) { return evaluation.feasible(); });
    if (first && none_fits && !engine.exhausted()) fit(engine, batch);
    const double spent = engine.spent().value_or(static_cast<double>(samples_) /
                                                 static_cast<double>(most_samples()));
    note(engine, evaluations,
         options_.zero_shot ? LearnerStep{} : learner_->learn(batch, rewards, spent));
    const bool over = (options_.zero_shot || !engine.spent()) && samples_ >= most_samples();
    return over || idle_ >= kIdleBatches ? Status::found : Status::in_progress;
}

/// For the curve, and for whoever watches.
void RlSearch::note(Engine& engine, const std::vector<Evaluation>& evaluations,
                    const LearnerStep& step) {
    const search::Duration elapsed = clock_of(engine).now() - begin_;
    CurvePoint point{.samples = samples_,
                     .seconds = std::chrono::duration<double>(elapsed).count(),
                     .entropy = step.entropy};
    int fitting = 0;
    for (const Evaluation& evaluation : evaluations) {
        if (!evaluation.feasible()) continue;
        point.mean += to_seconds(evaluation.value);
        if (!best_ || evaluation.value < *best_) best_ = evaluation.value;
        ++fitting;
    }
    point.mean = fitting > 0 ? point.mean / fitting : 0;
    const Evaluation& best = *engine.best_evaluation();  // of those before, too
    if (!engine.options().measure && best.feasible()) best_ = best.value;
    if (best_) point.best = to_seconds(*best_);
    point.baseline = step.expected * step.expected * scale_ * 1e-12;
    lessons_.curve.points.push_back(point);
    std::array<char, 96> words{};
    std::snprintf(words.data(), words.size(), "%.0f/s, entropy %.2f",
                  point.seconds > 0 ? static_cast<double>(samples_) / point.seconds : 0.0,
                  point.entropy);
    engine.set_detail(words.data());
}

}  // namespace partita::rl
