// SPDX-License-Identifier: Apache-2.0
//
// What a policy that learned on some models is worth on others. It learns on one model of each of
// three families in turn, a few rounds; then, on models that it has not seen, all on 4 P100 in
// training:
//
//     first weights, zero shot     256 placements of a policy that has learned nothing: what its prior knows
//     trained, zero shot           256 placements of the trained one, whose weights stay as they are
//     from scratch                 a policy learns on this model alone
//     fine-tuned                   the trained one goes on learning on this model; and after how many placements
//                                  it is as good as the one from scratch after half of its placements, and at its
//                                  end
//
//     transfer_bench --evaluations 2000 --rounds 3 --seeds 3 --csv FILE
//
// Medians over seeds, every seed with a policy of its own; with --csv all seeds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/statistics.h"
#include "bench/case_models.h"
#include "bench/learner_flags.h"
#include "bench/run_main.h"
#include "rl/learner_options.h"
#include "rl/rl_search.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"

namespace partita::bench {
namespace {

struct Options {
    std::int64_t evaluations = 2'000;  ///< of a search that learns
    int rounds = 3;                    ///< over the models that it learns on
    std::uint64_t seeds = 3;
    int threads = 2;
    std::string only;
    std::string csv;
};

constexpr const char* kMachine = "p100-cluster:1x4";

/// Convolutions, recurrence, attention.
std::vector<Case> taught() {
    return {{.name = "alexnet", .make = network("alexnet", 256, kMachine)},
            {.name = "language-model", .make = network("language-model", 64, kMachine)},
            {.name = "bert-base",
             .make = onnx("bert-base", {{"batch", 16}, {"sequence", 128}}, kMachine)}};
}

/// Of the same families.
std::vector<Case> unseen() {
    return {
        {.name = "vgg16", .make = onnx("vgg16", {{"batch", 64}}, kMachine)},
        {.name = "resnet50", .make = onnx("resnet50", {{"batch", 64}}, kMachine)},
        {.name = "inception_v3", .make = onnx("inception_v3", {{"batch", 64}}, kMachine)},
        {.name = "gpt2-small",
         .make = onnx("gpt2-small", {{"batch", 16}, {"sequence", 128}}, kMachine)},
        {.name = "vit_b_16", .make = onnx("vit_b_16", {{"batch", 64}}, kMachine)},
    };
}

/// The policy that the next search begins with, and what that one leaves.
struct Pupil {
    rl::LearnerOptions learner;
    rl::RlOptions options;
    rl::Lessons lessons;
};

Pupil& pupil() {
    static Pupil pupil;
    return pupil;
}

std::unique_ptr<search::Searcher> make_rl(search::Engine& /*engine*/) {
    pupil().lessons = {};
    return std::make_unique<rl::RlSearch>(pupil().options, pupil().lessons);
}

/// The best so far after so many placements, whenever there was a better one.
struct Course {
    std::vector<std::pair<std::int64_t, Time>> falls;

    [[nodiscard]] Time last() const { return falls.empty() ? Time::max() : falls.back().second; }
    [[nodiscard]] Time after(std::int64_t placements) const {
        Time best = Time::max();
        for (const auto& [at, value] : falls) {
            if (at <= placements) best = value;
        }
        return best;
    }
    [[nodiscard]] std::optional<std::int64_t> reaches(Time value) const {
        const auto at =
            std::ranges::find_if(falls, [&](const auto& fall) { return fall.second <= value; });
        return at == falls.end() ? std::nullopt : std::optional(at->first);
    }
};

Course run(const plan::Problem& problem, std::shared_ptr<rl::PolicyNet> policy, bool zero_shot,
           std::int64_t evaluations, std::uint64_t seed, int threads) {
    pupil().options = {
        .learner = pupil().learner, .policy = std::move(policy), .zero_shot = zero_shot};
    Course course;
    search::EngineOptions engine =
        engine_options("auto", {.evaluations = evaluations, .seed = seed, .threads = threads});
    engine.progress = [&](const search::Progress& progress) {
        if (progress.best && *progress.best < course.last()) {
            course.falls.emplace_back(progress.evaluations, *progress.best);
        }
    };
    const std::array rows = {search::SearcherRow{.name = "rl", .summary = "", .make = make_rl}};
    static_cast<void>(search::search(problem, engine, rows));
    return course;
}

std::shared_ptr<rl::PolicyNet> teach(const std::vector<Case>& cases, const Options& options,
                                     std::uint64_t seed) {
    std::shared_ptr<rl::PolicyNet> policy;
    for (int round = 0; round < options.rounds; ++round) {
        for (const Case& of : cases) {
            const CaseModel model = of.make();
            const plan::Problem problem = make_problem(of, model);
            const Course course =
                run(problem, policy, false, options.evaluations, seed, options.threads);
            policy = pupil().lessons.policy;
            fmt::print(stderr, "seed {} round {}: {} {:.4f} ms\n", seed, round + 1, of.name,
                       to_milliseconds(course.last()));
        }
    }
    return policy;
}

/// Of one model and seed; milliseconds.
struct Result {
    double first_weights = 0;
    double zero_shot = 0;
    double half_scratch = 0;
    double scratch = 0;
    double fine_tuned = 0;
    double to_half = 0;     ///< placements until as good as `half_scratch`; evaluations + 1: never
    double to_scratch = 0;  ///< the same for `scratch`
};

constexpr std::array kMembers = {&Result::first_weights, &Result::zero_shot,  &Result::half_scratch,
                                 &Result::scratch,       &Result::fine_tuned, &Result::to_half,
                                 &Result::to_scratch};

Result transfer(const plan::Problem& problem, const std::shared_ptr<rl::PolicyNet>& taught,
                const Options& options, std::uint64_t seed) {
    const std::int64_t most = options.evaluations;
    const auto search = [&](const std::shared_ptr<rl::PolicyNet>& policy, bool zero_shot) {
        return run(problem, policy, zero_shot, most, seed, options.threads);
    };
    const Course scratch = search(nullptr, false);
    const Course tuned = search(taught, false);
    const auto placements = [&](Time value) {
        return static_cast<double>(tuned.reaches(value).value_or(most + 1));
    };
    const Time half = scratch.after(most / 2);
    return {.first_weights = to_milliseconds(search(nullptr, true).last()),
            .zero_shot = to_milliseconds(search(taught, true).last()),
            .half_scratch = to_milliseconds(half),
            .scratch = to_milliseconds(scratch.last()),
            .fine_tuned = to_milliseconds(tuned.last()),
            .to_half = placements(half),
            .to_scratch = placements(scratch.last())};
}

Result medians(const std::vector<Result>& results) {
    Result medians;
    for (double Result::*const member : kMembers) {
        std::vector<double> values;
        for (const Result& result : results) values.push_back(result.*member);
        medians.*member = median(std::move(values));
    }
    return medians;
}

std::string placements_text(double placements, std::int64_t most) {
    return placements > static_cast<double>(most) ? "more" : fmt::format("{:.0f}", placements);
}

void print(const std::string& name, const std::vector<Result>& results, double best,
           std::int64_t most) {
    const Result of = medians(results);
    fmt::print("{:<14}{:>11.3f}{:>14.3f}{:>11.3f}{:>11.3f}{:>11.3f}{:>11.3f}{:>9}{:>9}\n", name,
               best, of.first_weights, of.zero_shot, of.half_scratch, of.scratch, of.fine_tuned,
               placements_text(of.to_half, most), placements_text(of.to_scratch, most));
    std::fflush(stdout);
}

void write(const Options& options, const std::string& name, const std::vector<Result>& results) {
    if (options.csv.empty()) return;
    std::ofstream csv(options.csv, std::ios::app);
    for (std::size_t i = 0; i < results.size(); ++i) {
        csv << fmt::format("{},{},{},{}", name, i + 1, options.rounds, options.evaluations);
        for (double Result::*const member : kMembers)
            csv << fmt::format(",{:.4f}", results[i].*member);
        csv << '\n';
    }
}

void run(const Options& options) {
    std::vector<std::shared_ptr<rl::PolicyNet>> policies;
    const std::vector<Case> models = taught();
    for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
        policies.push_back(teach(models, options, seed));
    }
    fmt::print("{:<14}{:>11}{:>14}{:>11}{:>11}{:>11}{:>11}{:>9}{:>9}\n", "ms", "auto",
               "first weights", "zero shot", "half", "scratch", "tuned", "to half", "to end");
    for (const Case& of : unseen()) {
        if (of.name.find(options.only) == std::string::npos) continue;
        const CaseModel model = of.make();
        const plan::Problem problem = make_problem(of, model);
        std::vector<Result> results;
        for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
            results.push_back(transfer(problem, policies[seed - 1], options, seed));
        }
        const auto best = search::search(
            problem, engine_options("auto", {.seconds = 10, .threads = options.threads}));
        print(of.name, results, to_milliseconds(best.evaluation.value), options.evaluations);
        write(options, of.name, results);
    }
}

int start(int argc, char** argv) {
    Options options;
    CLI::App app("What a policy is worth on models that it has not seen.");
    app.add_option("--evaluations", options.evaluations, "of a search, default 2000");
    app.add_option("--rounds", options.rounds, "over the models to learn on, default 3");
    app.add_option("--seeds", options.seeds, "default 3")->check(CLI::Range(1, 1'000));
    app.add_option("--threads", options.threads)->check(CLI::Range(1, 1'024));
    app.add_option("--only", options.only, "unseen models whose name contains this");
    app.add_option("--csv", options.csv, "adds a line for every model and seed to this file");
    add_learner_flags(app, pupil().learner);
    CLI11_PARSE(app, argc, argv);
    run(options);
    return 0;
}

}  // namespace
}  // namespace partita::bench

int main(int argc, char** argv) {
    return partita::bench::run_main("transfer_bench", partita::bench::start, argc, argv);
}
