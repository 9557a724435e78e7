// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicate/launch.h"

#include <array>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "cost/machine/machine.h"

namespace partita::runtime {
namespace {

struct LauncherRow {
    Launcher launcher;
    const char* only_with;  ///< a variable that must be there as well
    const char* size;
    const char* rank;
};

constexpr std::array kLaunchers = {
    LauncherRow{Launcher::mpirun, "", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    LauncherRow{Launcher::torchrun, "", "WORLD_SIZE", "RANK"},
    LauncherRow{Launcher::srun, "SLURM_STEP_ID", "SLURM_NTASKS", "SLURM_PROCID"},
    LauncherRow{Launcher::mpirun, "", "PMI_SIZE", "PMI_RANK"},
};

int number(const std::string& variable, const std::string& text, int least, int most) {
    int value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (error == std::errc{} && stop == end && least <= value && value <= most) return value;
    throw UsageError("environment variable " + variable + ": expected an integer from " +
                     std::to_string(least) + " to " + std::to_string(most) + ", got '" + text +
                     "'. Start with mpirun, srun or torchrun, or unset it.");
}

int required(const Environment& environment, const std::string& variable,
             const std::string& because, int least, int most) {
    const std::optional<std::string> text = environment(variable);
    if (text) return number(variable, *text, least, most);
    throw UsageError("environment variable " + variable + ": missing, while " + because +
                     " is there. Start with mpirun, srun or torchrun, or unset that.");
}

int optional(const Environment& environment, const std::string& variable, int fallback, int least,
             int most) {
    const std::optional<std::string> text = environment(variable);
    return text ? number(variable, *text, least, most) : fallback;
}

bool started(const Environment& environment, const LauncherRow& row) {
    const std::string also = row.only_with;
    return environment(row.size) && (also.empty() || environment(also));
}

Launch read_row(const Environment& environment, const LauncherRow& row) {
    Launch launch{.launcher = row.launcher};
    // Each rank has a device, so that there are no more than a machine may have.
    launch.size = required(environment, row.size, row.size, 1, cost::kMostDevices);
    launch.rank = required(environment, row.rank, row.size, 0, launch.size - 1);
    return launch;
}

}  // namespace

std::string_view name_of(Launcher launcher) {
    switch (launcher) {
    case Launcher::none: return "none";
    case Launcher::mpirun: return "mpirun";
    case Launcher::torchrun: return "torchrun";
    case Launcher::srun: return "srun";
    }
    return "";
}

Launch read_launch(const Environment& environment) {
    Launch launch;
    for (const LauncherRow& row : kLaunchers) {
        if (!started(environment, row)) continue;
        launch = read_row(environment, row);
        break;
    }
    launch.master_address = environment("MASTER_ADDR").value_or("");
    launch.master_port = optional(environment, "MASTER_PORT", 0, 1, 65'535);
    launch.master_listens = environment("TORCHELASTIC_USE_AGENT_STORE") == "True";
    return launch;
}

Launch read_launch() {
    return read_launch([](const std::string& variable) -> std::optional<std::string> {
        const char* const value = std::getenv(variable.c_str());  // NOLINT(concurrency-mt-unsafe)
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    });
}

}  // namespace partita::runtime
