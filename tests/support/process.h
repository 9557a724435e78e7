// SPDX-License-Identifier: Apache-2.0
//
// Programs that run beside the test, alone or several together as ranks.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace partita::tests {

struct Ended {
    int exit_code = -1;  ///< negative: by that signal; -SIGALRM: it had to be killed
    std::string output;  ///< stdout and stderr
};

/// A program with all that it prints in a file; killed when it goes out of scope.
class Process {
public:
    using Clock = std::chrono::steady_clock;

    explicit Process(std::vector<std::string> arguments);
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    Ended end(Clock::time_point deadline);
    /// So far.
    [[nodiscard]] std::string output() const;
    /// Waits until it has printed that. False when it ended before, or by the deadline.
    bool prints(std::string_view text, Clock::time_point deadline);
    [[nodiscard]] pid_t pid() const { return pid_; }

private:
    bool is_over();

    std::filesystem::path output_;
    pid_t pid_ = -1;
    int status_ = 0;
    bool is_over_ = false;
};

/// Arguments that start so many ranks of a program; as root, and on fewer cores, too. `mpirun`: the
/// program.
std::vector<std::string> mpirun_arguments(const std::string& mpirun, int ranks);
/// Its process of that rank; -1: there is none.
pid_t process_of_rank(pid_t mpirun, int rank);

/// What torchrun would set, as arguments of `env`; one port for all ranks.
std::vector<std::string> torchrun_arguments(int rank, int ranks, int port);
/// On the loopback interface, at this moment.
int free_port();

}  // namespace partita::tests
