// SPDX-License-Identifier: Apache-2.0
//
// Which of several processes this one is, from the environment of what started it. The first whose
// variable for the number of processes is there wins:
//
//     mpirun     OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_RANK     Open MPI
//     torchrun   WORLD_SIZE, RANK
//     srun       SLURM_NTASKS, SLURM_PROCID
//     mpirun     PMI_SIZE, PMI_RANK                             MPICH and its kin
//
// None: one process alone. SLURM counts only inside srun (SLURM_STEP_ID): a batch script has
// SLURM_NTASKS too, and is one process. MASTER_ADDR and MASTER_PORT, which torchrun sets, say where
// processes without MPI meet; with TORCHELASTIC_USE_AGENT_STORE=True somebody listens there
// already.
//
// Pure: the environment is a function handed in. Errors: UsageError names the variable that is
// missing, no number, or out of range.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace partita::runtime {

enum class Launcher : std::uint8_t { none, mpirun, torchrun, srun };
std::string_view name_of(Launcher launcher);

struct Launch {
    Launcher launcher = Launcher::none;
    int rank = 0;
    int size = 1;
    std::string master_address;  ///< empty: not said
    int master_port = 0;
    bool master_listens = false;  ///< torchrun's agent has opened a TCPStore there

    friend bool operator==(const Launch&, const Launch&) = default;
};

using Environment = std::function<std::optional<std::string>(const std::string& variable)>;

Launch read_launch(const Environment& environment);
/// From the environment of this process.
Launch read_launch();

}  // namespace partita::runtime
