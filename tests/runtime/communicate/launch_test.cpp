// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/launch.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace partita::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_of(const Variables& variables) {
    return read_launch([&](const std::string& name) -> std::optional<std::string> {
        const auto it = variables.find(name);
        return it == variables.end() ? std::nullopt : std::optional(it->second);
    });
}

std::string error_of(const Variables& variables) {
    try {
        (void)launch_of(variables);
    } catch (const UsageError& error) {
        return error.what();
    }
    return "";
}

TEST(Launch, WithoutALauncherIsOneProcess) {
    EXPECT_EQ(launch_of({}), Launch{});
}

TEST(Launch, ReadsOpenMpi) {
    const Launch expected{.launcher = Launcher::mpirun, .rank = 5, .size = 8};
    EXPECT_EQ(launch_of({{"OMPI_COMM_WORLD_SIZE", "8"}, {"OMPI_COMM_WORLD_RANK", "5"}}), expected);
}

TEST(Launch, ReadsMpich) {
    const Launch expected{.launcher = Launcher::mpirun, .rank = 1, .size = 2};
    EXPECT_EQ(launch_of({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}), expected);
}

TEST(Launch, ReadsTorchrun) {
    const Launch expected{.launcher = Launcher::torchrun,
                          .rank = 3,
                          .size = 4,
                          .master_address = "node0",
                          .master_port = 29500,
                          .master_listens = true};
    EXPECT_EQ(launch_of({{"WORLD_SIZE", "4"},
                         {"RANK", "3"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "True"}}),
              expected);
}

TEST(Launch, ReadsSrun) {
    const Launch expected{.launcher = Launcher::srun, .rank = 2, .size = 3};
    EXPECT_EQ(launch_of({{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "3"}, {"SLURM_PROCID", "2"}}),
              expected);
}

TEST(Launch, SlurmsBatchScriptIsOneProcess) {
    EXPECT_EQ(launch_of({{"SLURM_NTASKS", "3"}, {"SLURM_PROCID", "0"}}), Launch{});
}

TEST(Launch, MpirunInsideASlurmJobWins) {
    const Launch launch = launch_of({{"SLURM_STEP_ID", "0"},
                                     {"SLURM_NTASKS", "1"},
                                     {"SLURM_PROCID", "0"},
                                     {"OMPI_COMM_WORLD_SIZE", "2"},
                                     {"OMPI_COMM_WORLD_RANK", "1"}});
    EXPECT_EQ(launch.launcher, Launcher::mpirun);
    EXPECT_EQ(launch.rank, 1);
}

TEST(Launch, NamesTheWrongVariable) {
    EXPECT_EQ(error_of({{"WORLD_SIZE", "4"}, {"RANK", "4"}}),
              "environment variable RANK: expected an integer from 0 to 3, got '4'. Start with "
              "mpirun, srun or torchrun, or unset it.");
    EXPECT_EQ(error_of({{"WORLD_SIZE", "four"}, {"RANK", "0"}}),
              "environment variable WORLD_SIZE: expected an integer from 1 to 65536, got "
              "'four'. Start with mpirun, srun or torchrun, or unset it.");
    EXPECT_EQ(
        error_of({{"WORLD_SIZE", "99999999"}, {"RANK", "0"}}),
        "environment variable WORLD_SIZE: expected an integer from 1 to 65536, got '99999999'. "
        "Start with mpirun, srun or torchrun, or unset it.");
    EXPECT_EQ(error_of({{"OMPI_COMM_WORLD_SIZE", "4"}}),
              "environment variable OMPI_COMM_WORLD_RANK: missing, while OMPI_COMM_WORLD_SIZE is "
              "there. Start with mpirun, srun or torchrun, or unset that.");
    EXPECT_THAT(error_of({{"MASTER_PORT", "99999"}}), testing::HasSubstr("variable MASTER_PORT: "));
}

}  // namespace
}  // namespace partita::runtime
