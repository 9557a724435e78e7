// SPDX-License-Identifier: Apache-2.0
#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <random>
#include <system_error>
#include <vector>

#include "base/error.h"

namespace partita {

namespace {

constexpr std::size_t kMostFileBytes = std::size_t{1} << 30;

/// A new file beside `file` of a name that nobody can guess and prepare; mode by the umask. The
/// descriptor, or -1 with errno set; `temporary` becomes its name.
int create_beside(const std::filesystem::path& file, std::filesystem::path& temporary) {
    constexpr mode_t kAnybody = 0666;
    std::random_device random;
    for (int attempt = 0; attempt < 100; ++attempt) {
        temporary = file;
        temporary += fmt::format(".{:08x}{:08x}.tmp", random(), random());
        const int descriptor =
            ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAnybody);
        if (descriptor >= 0 || errno != EEXIST) return descriptor;
    }
    return -1;
}

/// All of `text`. False with errno set.
bool write_all(int descriptor, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(descriptor, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

/// False with errno set. EINVAL: a file system that cannot synchronize has nothing to wait for.
bool reach_disk(int descriptor) {
    return ::fsync(descriptor) == 0 || errno == EINVAL;
}

/// A pipe, /dev/null: there, and nothing that a file may take the place of.
bool is_no_file(const std::filesystem::path& path) {
    std::error_code none;
    const auto status = std::filesystem::status(path, none);
    return std::filesystem::is_character_file(status) || std::filesystem::is_fifo(status);
}

/// 0, or the reason as errno has it.
int write_in_place(const std::filesystem::path& path, std::string_view text) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    const int reason = write_all(descriptor, text) ? 0 : errno;
    return ::close(descriptor) != 0 && reason == 0 ? errno : reason;
}

}  // namespace

void write_file(const std::filesystem::path& file, std::string_view text) {
    // Beside the target, so that the rename stays on one file system and is atomic.
    std::filesystem::path temporary;
    const auto fail = [&](int reason) {
        throw UsageError(
            fmt::format("{}: cannot be written: {}. Give a file in a folder that "
                        "exists and may be written.",
                        file.string(), std::strerror(reason)));
    };
    if (is_no_file(file)) {
        if (const int reason = write_in_place(file, text); reason != 0) fail(reason);
        return;
    }
    const int descriptor = create_beside(file, temporary);
    if (descriptor < 0) fail(errno);
    int reason = write_all(descriptor, text) && reach_disk(descriptor) ? 0 : errno;
    if (::close(descriptor) != 0 && reason == 0) reason = errno;
    if (reason == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) reason = errno;
    if (reason == 0) return;
    ::unlink(temporary.c_str());
    fail(reason);
}

std::string read_text_file(const std::filesystem::path& file) {
    const auto refuse = [&](std::string_view reason) {
        throw InputError(
            fmt::format("{}: cannot be read: {}. Check the path.", file.string(), reason));
    };
    std::error_code error;
    if (std::filesystem::is_directory(file, error)) refuse("it is a folder");
    std::ifstream stream(file, std::ios::binary);
    if (!stream) refuse(std::generic_category().message(errno));
    std::string text;
    std::vector<char> block(std::size_t{1} << 16);
    do {
        stream.read(block.data(), static_cast<std::streamsize>(block.size()));
        text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
        if (text.size() > kMostFileBytes) refuse("it is larger than 1 GiB");
    } while (stream);
    if (stream.bad()) refuse("reading stopped");
    return text;
}

}  // namespace partita
