// SPDX-License-Identifier: Apache-2.0
//
// The tuner file, read back by the rules of NCCL's example plugin.
#include "plan/exporters/nccl_tuner.h"

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "cost/machine/machine_file.h"
#include "tests/plan/small_problems.h"

namespace partita::plan {
namespace {

using cost::Algorithm;
using cost::Collective;
using cost::Protocol;

/// Fields of the first row that matches, as pluginGetCollInfo() looks for it.
class Reader {
public:
    explicit Reader(const std::string& text) {
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);) {
            EXPECT_LT(line.size(), 256) << "the plugin cuts lines there";
            if (line.empty() || line[0] == '#') {
                comments += line + '\n';
                continue;
            }
            std::vector<std::string> fields;
            std::istringstream row(line);
            for (std::string field; std::getline(row, field, ',');) {
                EXPECT_FALSE(field.empty()) << "strtok joins the commas around an empty field";
                fields.push_back(field);
            }
            EXPECT_EQ(fields.size(), 10) << line;
            rows.push_back(fields);
        }
    }

    /// "tree ll", or nothing.
    [[nodiscard]] std::optional<std::string> find(const std::string& collective, std::int64_t bytes,
                                                  int nodes, int ranks) const {
        for (const auto& row : rows) {
            const bool fits = row[0] == collective && bytes >= std::stoll(row[1]) &&
                              bytes <= std::stoll(row[2]) && std::stoi(row[6]) == nodes &&
                              std::stoi(row[7]) == ranks;
            if (fits) return row[3] + ' ' + row[4];
        }
        return std::nullopt;
    }

    std::vector<std::vector<std::string>> rows;
    std::string comments;
};

/// Collectives by hand on a machine of four nodes of eight.
class NcclTuner : public testing::Test {
protected:
    void add(Collective kind, const std::vector<std::int32_t>& devices, std::int64_t bytes,
             Algorithm algorithm, Protocol protocol, Time duration = microseconds(1)) {
        const auto row = static_cast<std::int32_t>(tasks_.ranks.rows());
        tasks_.ranks.add_row(devices);
        tasks_.tasks.push_back({.kind = TaskKind::collective,
                                .device = devices[0],
                                .duration = duration,
                                .bytes = Bytes{bytes},
                                .ranks = row,
                                .collective = kind,
                                .algorithm = algorithm,
                                .protocol = protocol});
    }

    [[nodiscard]] std::string text() const {
        return nccl_tuner({.problem = problem_, .strategy = strategy_, .tasks = &tasks_});
    }

private:
    graph::OpGraph graph_ = two_layers();
    cost::Machine machine_ = cost::load_machine("dgx-h100:4");
    Problem problem_ = make_problem(graph_, machine_);
    Strategy strategy_ = on_devices(std::vector<int>(graph_.ops().size(), 0));
    TaskGraph tasks_;
};

TEST_F(NcclTuner, RunsOfSizesThatAgreeShareARow) {
    for (const std::int64_t bytes : {4096, 1024, 2048}) {
        add(Collective::all_reduce, {0, 1, 2, 3}, bytes, Algorithm::tree, Protocol::ll);
    }
    add(Collective::all_reduce, {0, 1, 2, 3}, 1 << 20, Algorithm::ring, Protocol::ll128);
    add(Collective::all_reduce, {4, 5, 6, 7}, 1 << 30, Algorithm::ring, Protocol::ll128);
    add(Collective::all_reduce, {0, 1, 8, 9}, 1 << 20, Algorithm::nvls_tree, Protocol::simple);
    add(Collective::reduce_scatter, {0, 8}, std::int64_t{1} << 34, Algorithm::pat,
        Protocol::simple);
    EXPECT_EQ(text().substr(text().find("regBuff\n") + 8),
              "allreduce,1024,4096,tree,ll,-1,1,4,-1,-1\n"
              "allreduce,1048576,1073741824,ring,ll128,-1,1,4,-1,-1\n"
              "allreduce,1048576,1048576,nvls_tree,simple,-1,2,4,-1,-1\n"
              "reducescatter,17179869184,17179869184,pat,simple,-1,2,2,-1,-1\n");
}

TEST_F(NcclTuner, WhatNcclDoesNotHaveIsLeftOutAndSaid) {
    add(Collective::all_to_all, {0, 1}, 64, Algorithm::direct, Protocol::none);
    add(Collective::all_reduce, {0, 1}, 64, Algorithm::library, Protocol::none);
    add(Collective::all_reduce, {0, 1}, 32, Algorithm::library, Protocol::none);
    add(Collective::all_reduce, {0, 1, 2}, 64, Algorithm::halving_doubling, Protocol::none);
    add(Collective::all_gather, {0, 8}, 64, Algorithm::ring, Protocol::none);
    const Reader read(text());
    EXPECT_TRUE(read.rows.empty()) << text();
    for (const char* line :
         {"# left out: all-reduce on 2 ranks of 1 node, 2 calls of 32 to 64 bytes, library: its "
          "measured time is of NCCL's own choice\n",
          "# left out: all-reduce on 3 ranks of 1 node, 1 call of 64 to 64 bytes, "
          "halving-doubling: NCCL does not have this algorithm\n",
          "# left out: all-gather on 2 ranks of 2 nodes, 1 call of 64 to 64 bytes, ring: the "
          "plan's cost model knows no protocols\n",
          "# left out: all-to-all on 2 ranks of 1 node, 1 call of 64 to 64 bytes, direct: NCCL "
          "does not tune this collective\n"}) {
        EXPECT_NE(read.comments.find(line), std::string::npos) << line << text();
    }
}

TEST_F(NcclTuner, WhereGroupsDifferTheLongerTimeWins) {
    add(Collective::broadcast, {0, 1}, 64, Algorithm::ring, Protocol::simple, microseconds(5));
    add(Collective::broadcast, {2, 3}, 64, Algorithm::ring, Protocol::ll, microseconds(3));
    add(Collective::broadcast, {4, 5}, 64, Algorithm::ring, Protocol::ll, microseconds(3));
    const Reader read(text());
    ASSERT_EQ(read.rows.size(), 1) << text();
    EXPECT_EQ(read.find("broadcast", 64, 1, 2), "ring ll");
    EXPECT_NE(read.comments.find("64 bytes: groups differ, ring ll takes most time"),
              std::string::npos)
        << text();
}

TEST_F(NcclTuner, WithoutTasksThereAreOnlyComments) {
    EXPECT_TRUE(Reader(text()).rows.empty());
}

RC_GTEST_FIXTURE_PROP(NcclTuner, EveryCallFindsItsOwnChoiceAndRowsNeverOverlap, ()) {
    const std::vector<Algorithm> algorithms = {Algorithm::ring, Algorithm::tree, Algorithm::nvls};
    const std::vector<Protocol> protocols = {Protocol::ll, Protocol::ll128, Protocol::simple};
    const std::vector<std::vector<std::int32_t>> groups = {{0, 1}, {0, 8}, {0, 1, 8, 9}};
    // One choice for each shape and size: the plan does not contradict itself.
    std::map<std::pair<std::size_t, std::int64_t>, std::pair<Algorithm, Protocol>> choices;
    const int calls = *rc::gen::inRange(0, 40);
    for (int i = 0; i < calls; ++i) {
        const auto group = *rc::gen::inRange<std::size_t>(0, groups.size());
        const auto bytes = *rc::gen::inRange<std::int64_t>(0, 12);
        choices.try_emplace({group, bytes}, *rc::gen::elementOf(algorithms),
                            *rc::gen::elementOf(protocols));
        const auto [algorithm, protocol] = choices[{group, bytes}];
        add(Collective::all_reduce, groups[group], bytes, algorithm, protocol);
    }
    const Reader read(text());
    for (const auto& [call, choice] : choices) {
        const auto& group = groups[call.first];
        const int nodes = call.first == 0 ? 1 : 2;
        const auto found =
            read.find("allreduce", call.second, nodes, static_cast<int>(group.size()));
        RC_ASSERT(found.has_value());
        std::string expected(name_of(choice.first));
        RC_ASSERT(*found == expected + ' ' + std::string(name_of(choice.second)));
    }
    for (std::size_t i = 0; i < read.rows.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            const auto& [a, b] = std::pair(read.rows[i], read.rows[j]);
            if (a[6] != b[6] || a[7] != b[7]) continue;
            RC_ASSERT(std::stoll(a[1]) > std::stoll(b[2]) || std::stoll(b[1]) > std::stoll(a[2]));
        }
    }
}

}  // namespace
}  // namespace partita::plan
