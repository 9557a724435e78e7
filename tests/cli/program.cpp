// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/support/paths.h"

namespace partita::tests {
namespace {

std::string read_all(const std::filesystem::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

[[noreturn]] void become_program(const std::filesystem::path& folder, const std::string& out,
                                 int err, const std::vector<std::string>& arguments) {
    const int out_descriptor = ::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    const bool ready = out_descriptor >= 0 && ::dup2(out_descriptor, STDOUT_FILENO) >= 0 &&
                       ::dup2(err, STDERR_FILENO) >= 0 && ::chdir(folder.c_str()) == 0;
    std::string program = tests::program().string();
    std::vector<char*> argv{program.data()};
    for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    if (ready) ::execv(program.c_str(), argv.data());
    ::_exit(127);
}

}  // namespace

ProgramTest::ProgramTest() {
    std::filesystem::create_directory(folder_);
}

Outcome ProgramTest::run(const std::vector<std::string>& arguments) {
    return run_with(out_.string(), arguments, {});
}

Outcome ProgramTest::run_into(const std::string& file, const std::vector<std::string>& arguments) {
    return run_with(file, arguments, {});
}

Outcome ProgramTest::run_and_interrupt_at(std::string_view text,
                                          const std::vector<std::string>& arguments) {
    return run_with(out_.string(), arguments, text);
}

void ProgramTest::expect_refused(const std::string& message,
                                 const std::vector<std::string>& arguments) {
    const Outcome result = run(arguments);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr(message));
    EXPECT_THAT(files(), testing::IsEmpty());
}

std::string ProgramTest::libraries_of(const std::vector<std::string>& arguments) {
    ::setenv("LD_DEBUG", "files", 1);
    const Outcome result = run(arguments);
    ::unsetenv("LD_DEBUG");
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("libpartita.so"), std::string::npos) << "it says nothing of files";
    return result.err;
}

Outcome ProgramTest::run_with(const std::string& out, const std::vector<std::string>& arguments,
                              std::string_view interrupt_at) {
    int ends[2];  // stderr comes through a pipe, so that its text can be waited for
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    const pid_t child = ::fork();
    if (child == 0) become_program(folder_, out, ends[1], arguments);
    ::close(ends[1]);
    Outcome result;
    char buffer[4096];
    bool interrupted = interrupt_at.empty();
    for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
        result.err.append(buffer, static_cast<std::size_t>(got));
        if (!interrupted && result.err.find(interrupt_at) != std::string::npos) {
            interrupted = ::kill(child, SIGINT) == 0;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
            ::kill(child, SIGINT);
        }
    }
    ::close(ends[0]);
    int status = 0;
    rusage usage{};
    ::wait4(child, &status, 0, &usage);
    result.memory = usage.ru_maxrss * 1024;
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (out == out_) result.out = read_all(out_);
    return result;
}

std::filesystem::path ProgramTest::write(const std::string& name, std::string_view text) {
    std::ofstream stream(folder_ / name, std::ios::binary);
    stream << text;
    return folder_ / name;
}

std::string ProgramTest::read(const std::string& name) const {
    return read_all(folder_ / name);
}

std::vector<std::string> ProgramTest::files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
        names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
}

bool has_runtime() {
    return std::filesystem::exists(program().parent_path() / "libpartita_runtime.so");
}

std::string example(std::string_view path) {
    return (tests::repository() / "examples" / path).string();
}

std::vector<std::string> plan_mlp(const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"plan", example("runnable/mlp/model.onnx"), "--batch",
                                          "8"};
    if (std::ranges::find(more, "--machine") == more.end()) {
        arguments.insert(arguments.end(), {"--machine", "cpu:2"});
    }
    if (std::ranges::find(more, "--searcher") == more.end()) {
        arguments.insert(arguments.end(), {"--searcher", "critical-path"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

}  // namespace partita::tests
