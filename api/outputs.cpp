// SPDX-License-Identifier: Apache-2.0
#include "api/outputs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "base/error.h"

namespace partita::api {
namespace {

[[noreturn]] void fail(const Output& output, std::string_view why) {
    throw UsageError(fmt::format("{} {}: {}", output.option, output.file.string(), why));
}

/// Creates and removes a file beside `output`: what access() says is not always true.
void check_folder(const Output& output) {
    std::filesystem::path probe = output.file;
    probe += fmt::format(".{}.probe", ::getpid());
    const int descriptor = ::open(probe.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        fail(output, fmt::format("cannot be written: {}. Give a file in a folder that exists and "
                                 "may be written.",
                                 std::strerror(errno)));
    }
    ::close(descriptor);
    ::unlink(probe.c_str());
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    return std::filesystem::weakly_canonical(a, error) ==
           std::filesystem::weakly_canonical(b, error);
}

}  // namespace

void check_outputs(const std::vector<Output>& outputs,
                   const std::vector<std::filesystem::path>& inputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const Output& output = outputs[i];
        if (output.file.empty()) continue;
        std::error_code error;
        const auto status = std::filesystem::status(output.file, error);
        if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
            fail(output, "is no regular file. Give the name of a file.");
        }
        for (const auto& input : inputs) {
            if (input.empty() || input == output.replaces) continue;
            if (same_file(output.file, input)) {
                fail(output, "is an input. Give another name.");
            }
        }
        for (std::size_t j = 0; j < i; ++j) {
            if (!outputs[j].file.empty() && same_file(output.file, outputs[j].file)) {
                fail(output,
                     fmt::format("is also the file of {}. Give another name.", outputs[j].option));
            }
        }
        check_folder(output);
    }
}

}  // namespace partita::api
