// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

extern char** environ;  // NOLINT: POSIX

namespace partita::tests {
namespace {

constexpr useconds_t kGlance = 1'000;

std::string read_all(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

/// From /proc/PID/stat, behind the name, which may hold anything but the last ')'.
pid_t parent_of(const std::filesystem::path& process) {
    const std::string stat = read_all(process / "stat");
    std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 1)));
    std::string state;
    pid_t parent = -1;
    rest >> state >> parent;
    return parent;
}

bool has_variable(const std::filesystem::path& process, const std::string& variable) {
    return ('\0' + read_all(process / "environ")).find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

Process::Process(std::vector<std::string> arguments) {
    static int count = 0;
    output_ = std::filesystem::temp_directory_path() /
              ("partita_process_" + std::to_string(getpid()) + "_" + std::to_string(++count));
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    std::vector<char*> raw;
    for (std::string& argument : arguments) raw.push_back(argument.data());
    raw.push_back(nullptr);
    is_over_ = posix_spawnp(&pid_, raw[0], &files, nullptr, raw.data(), environ) != 0;
    posix_spawn_file_actions_destroy(&files);
}

Process::~Process() {
    if (!is_over_) (void)end(Clock::now());
    std::filesystem::remove(output_);
}

bool Process::is_over() {
    if (!is_over_) is_over_ = waitpid(pid_, &status_, WNOHANG) != 0;
    return is_over_;
}

Ended Process::end(Clock::time_point deadline) {
    while (!is_over()) {
        if (Clock::now() > deadline) {
            kill(pid_, SIGKILL);
            waitpid(pid_, &status_, 0);
            status_ = SIGALRM;
            is_over_ = true;
            break;
        }
        usleep(kGlance);
    }
    return {.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_),
            .output = output()};
}

std::string Process::output() const {
    return read_all(output_);
}

bool Process::prints(std::string_view text, Clock::time_point deadline) {
    while (output().find(text) == std::string::npos) {
        if (is_over() || Clock::now() > deadline) return false;
        usleep(kGlance);
    }
    return true;
}

std::vector<std::string> mpirun_arguments(const std::string& mpirun, int ranks) {
    return {mpirun, "--allow-run-as-root", "--oversubscribe", "-n", std::to_string(ranks)};
}

pid_t process_of_rank(pid_t mpirun, int rank) {
    const std::string variable = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        pid_t pid = -1;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc() || *end != '\0') continue;
        if (parent_of(entry.path()) == mpirun && has_variable(entry.path(), variable)) return pid;
    }
    return -1;
}

std::vector<std::string> torchrun_arguments(int rank, int ranks, int port) {
    return {"env", "WORLD_SIZE=" + std::to_string(ranks), "RANK=" + std::to_string(rank),
            "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + std::to_string(port)};
}

int free_port() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    const bool is_bound =
        bind(listener, generic, size) == 0 && getsockname(listener, generic, &size) == 0;
    close(listener);
    if (!is_bound) throw std::runtime_error("no free port on the loopback interface");
    return ntohs(address.sin_port);
}

}  // namespace partita::tests
