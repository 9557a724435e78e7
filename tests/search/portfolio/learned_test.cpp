// SPDX-License-Identifier: Apache-2.0
#include "search/portfolio/learned.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "search/portfolio/search_run.h"
#include "search/portfolio/searcher_table.h"
#include "tests/plan/small_problems.h"

namespace partita::search {
namespace {

using plan::Problem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Places everything on one device, then on the other, and says so.
class Pupil final : public Searcher {
public:
    Pupil(std::string name, std::vector<std::string>& calls)
        : name_(std::move(name)), calls_(calls) {
        calls_.push_back("make " + name_);
    }
    ~Pupil() override { calls_.push_back("end " + name_); }

    Status step(Engine& engine) override {
        if (engine.best() != nullptr && lesson_ == 0) calls_.emplace_back("from the best");
        engine.set_detail(name_ + ", lesson " + std::to_string(lesson_));
        static_cast<void>(engine.evaluate(plan::on_devices({lesson_, lesson_})));
        return ++lesson_ == 2 ? Status::found : Status::in_progress;
    }

private:
    std::string name_;
    std::vector<std::string>& calls_;
    int lesson_ = 0;
};

class School final : public LearnedSearchers {
public:
    std::unique_ptr<Searcher> make(std::string_view name, Engine& /*engine*/) override {
        return std::make_unique<Pupil>(std::string(name), calls);
    }
    void finish() override { calls.emplace_back("finish"); }

    std::vector<std::string> calls;
};

// Two independent nodes of 10 us on two GPUs: 20 us together, 10 us apart, which is the bound.
class Learned : public testing::Test {
protected:
    SearchResult run(std::vector<std::string> searchers, EngineOptions options = {}) {
        options.searchers = std::move(searchers);
        options.learned = &school_;
        return search(problem_, std::move(options));
    }

    graph::OpGraph graph_ = plan::WorkloadBuilder().node("a", 10).node("b", 10).build();
    cost::Machine machine_ = plan::switched_machine(2);
    Problem problem_ = plan::make_problem(graph_, machine_);
    School school_;
};

TEST_F(Learned, SearchersComeFromWhatTheOptionsHold) {
    const SearchResult result = run({"rl", "rl-hierarchical"});
    EXPECT_THAT(school_.calls, ElementsAre("make rl", "end rl", "make rl-hierarchical",
                                           "from the best", "end rl-hierarchical", "finish"));
    EXPECT_EQ(result.searcher, "rl");
    EXPECT_EQ(result.status, Status::found);
}

TEST_F(Learned, WithoutThemTheSearchDoesNotBegin) {
    for (const std::string name : {"rl", "rl-hierarchical"}) {
        try {
            static_cast<void>(search(problem_, {.searchers = {"single-device", name}}));
            ADD_FAILURE() << name;
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), HasSubstr("scripts/setup"));
        }
    }
}

TEST_F(Learned, AnInterruptedSearchIsFinished) {
    const std::atomic<bool> cancelled = true;
    EngineOptions options;
    options.cancelled = &cancelled;
    EXPECT_EQ(run({"rl"}, options).status, Status::budget_exhausted);
    EXPECT_THAT(school_.calls, ElementsAre("make rl", "end rl", "finish"));
}

TEST_F(Learned, NothingIsMadeOrFinishedWhereTheSearchIsOver) {
    EXPECT_EQ(run({"heft", "rl"}).status, Status::optimal);
    EXPECT_THAT(school_.calls, IsEmpty());
}

TEST_F(Learned, AutoAndItsQuickSearchersNeverLearn) {
    static_cast<void>(run({"auto", "mcmc", "local-search"}, {.evaluations = 30}));
    EXPECT_THAT(school_.calls, IsEmpty());
    for (const SearcherRow& row : searcher_table()) {
        EXPECT_FALSE(row.in_auto && row.learned) << row.name;
    }
    EXPECT_FALSE(any_learned(std::vector<std::string>{"auto", "mcmc", "nobody"}));
    EXPECT_TRUE(any_learned(std::vector<std::string>{"mcmc", "rl"}));
    EXPECT_TRUE(any_learned(std::vector<std::string>{"rl-hierarchical"}));
}

TEST_F(Learned, ProgressTellsTheDetailOfTheSearcherAtWork) {
    std::vector<std::string> details;
    EngineOptions options;
    options.progress = [&](const Progress& progress) {
        details.emplace_back(std::string(progress.searcher) + ": " + std::string(progress.detail));
    };
    static_cast<void>(run({"rl", "hash"}, options));
    EXPECT_THAT(details, ElementsAre("rl: rl, lesson 0", "rl: rl, lesson 1", "hash: "));
}

}  // namespace
}  // namespace partita::search
