// SPDX-License-Identifier: Apache-2.0
#include "rl/learner.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/utils.h>

namespace partita::rl {

using torch::Tensor;

namespace {

constexpr int kKeepEvery = 20;  ///< steps between two copies of good weights

/// LibTorch's sums depend on the number of threads.
class OneThread {
public:
    OneThread() : before_(at::get_num_threads()) { at::set_num_threads(1); }
    ~OneThread() { at::set_num_threads(before_); }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

private:
    int before_;
};

}  // namespace

Learner::Learner(ActionSpace& space, OptionPrices& prices, LearnerOptions options,
                 std::shared_ptr<PolicyNet> net, std::uint64_t seed)
    : space_(space),
      sampler_(space, prices),
      options_(options),
      graph_(graph_features(space, prices)),
      net_(std::move(net)),
      rate_(options.rate) {
    torch::manual_seed(seed);
    net_ = net_ ? net_->copy() : std::make_shared<PolicyNet>(options.net);
    optimizer_ = std::make_unique<torch::optim::Adam>(net_->parameters(), rate_);
    keep();
}

Learner::~Learner() = default;

Batch Learner::sample(std::int64_t count, search::Random& random) {
    const OneThread one;
    const auto whims = static_cast<std::int64_t>(options_.explore * static_cast<double>(count));
    const Draws draws{.count = count, .greedy = 0, .whims = whims, .deviation = options_.whim};
    return sampler_.sample(*net_, graph_, draws, random);
}

Batch Learner::sample_policy(std::int64_t count, std::int64_t greedy, search::Random& random) {
    const OneThread one;
    Draws draws;
    draws.count = count;
    draws.greedy = std::min(count, greedy);
    return sampler_.sample(*net_, graph_, draws, random);
}

void Learner::add_elite(const Choices& choices, double reward) {
    if (!is_elite(choices, reward)) return;
    put_elite({choices, reward, sampler_.replay(std::span(&choices, 1)).episodes});
}

void Learner::add_elite(const Batch& batch, std::size_t episode, double reward) {
    if (!is_elite(batch.choices[episode], reward)) return;
    Elite elite{batch.choices[episode], reward, Episodes(space_, 1, net_->groups())};
    elite.episodes.copy(0, batch.episodes, static_cast<std::int64_t>(episode));
    put_elite(std::move(elite));
}

/// Is it better than one of the elites, and none of them?
bool Learner::is_elite(const Choices& choices, double reward) const {
    if (options_.elites == 0) return false;
    const auto same = [&](const Elite& elite) {
        return elite.choices.iteration == choices.iteration &&
               elite.choices.options == choices.options;
    };
    if (std::ranges::any_of(elites_, same)) return false;
    return elites_.size() < options_.elites || reward > elites_.back().reward;
}

void Learner::put_elite(Elite elite) {
    if (elites_.size() == options_.elites) elites_.pop_back();
    const auto at = std::ranges::find_if(
        elites_, [&](const Elite& other) { return other.reward < elite.reward; });
    elites_.insert(at, std::move(elite));
}

std::vector<double> Learner::advantages(std::span<const double> rewards) {
    constexpr double kDecay = 0.9;
    const auto count = static_cast<double>(rewards.size());
    const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / count;
    expected_ = kDecay * expected_.value_or(mean) + (1 - kDecay) * mean;
    double square = 0;
    for (const double reward : rewards) square += (reward - mean) * (reward - mean);
    constexpr double kLeastSpread = 1e-6;
    constexpr double kMost = 3;
    const double spread = std::max(kLeastSpread, std::sqrt(square / count));
    std::vector<double> advantages;
    for (const double reward : rewards) {
        advantages.push_back(std::clamp((reward - mean) / spread, -kMost, kMost));
    }
    return advantages;
}

Episodes Learner::with_elites(const Batch& batch) const {
    const auto elites = static_cast<std::int64_t>(elites_.size());
    Episodes all(space_, batch.own + elites, net_->groups());
    for (std::int64_t e = 0; e < batch.own; ++e) all.copy(e, batch.episodes, e);
    for (std::int64_t e = 0; e < elites; ++e) {
        all.copy(batch.own + e, elites_[static_cast<std::size_t>(e)].episodes, 0);
    }
    return all;
}

LearnerStep Learner::learn(const Batch& batch, std::span<const double> rewards, double spent) {
    const OneThread one;
    LearnerStep step;
    const std::vector<double> advantages =
        this->advantages(rewards.first(static_cast<std::size_t>(batch.own)));
    step.expected = *expected_;
    Episodes episodes = with_elites(batch);
    step.undone = !update(episodes, advantages, spent, step);
    if (step.undone) {
        go_back();
    } else if (++steps_ % kKeepEvery == 0) {
        keep();
    }
    return step;
}

/// False: something was not finite.
bool Learner::update(Episodes& episodes, std::span<const double> advantages, double spent,
                     LearnerStep& step) {
    const auto samples = static_cast<std::int64_t>(advantages.size());
    const std::int64_t elites = episodes.count - samples;
    const double steps = static_cast<double>(std::max<std::int64_t>(1, episodes.steps));
    const PolicyNet::Scores scores = net_->score(graph_, episodes);
    const Tensor weight =
        at::from_blob(const_cast<double*>(advantages.data()), {samples}, at::kDouble)
            .to(at::kFloat);
    const Tensor own = scores.log_probability.slice(0, 0, samples);
    Tensor loss = -(own * weight).mean() / steps;
    if (elites > 0) {
        const Tensor best = scores.log_probability.slice(0, samples);
        loss = loss - options_.elite_weight / steps * best.mean();
    }
    loss = loss - options_.entropy * std::max(0.0, 1 - spent) * scores.entropy;
    step.entropy = scores.entropy.item<double>();
    if (!std::isfinite(loss.item<double>())) return false;
    optimizer_->zero_grad();
    loss.backward();
    const double norm =
        torch::nn::utils::clip_grad_norm_(net_->parameters(), options_.gradient_norm);
    if (!std::isfinite(norm)) return false;
    optimizer_->step();
    return std::ranges::all_of(net_->parameters(), [](const Tensor& parameter) {
        return parameter.isfinite().all().item<bool>();
    });
}

void Learner::keep() {
    good_.clear();
    for (const Tensor& parameter : net_->parameters()) good_.push_back(parameter.detach().clone());
}

void Learner::go_back() {
    constexpr double kSlower = 0.5;
    const at::NoGradGuard no_grad;
    const std::vector<Tensor> parameters = net_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].copy_(good_[i]);
    rate_ *= kSlower;
    optimizer_ = std::make_unique<torch::optim::Adam>(net_->parameters(), rate_);
    ++restarts_;
}

}  // namespace partita::rl
