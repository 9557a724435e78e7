// SPDX-License-Identifier: Apache-2.0
//
// A folder of the test's own, gone when the test is: ctest runs tests as processes side by side.
#pragma once

#include <stdlib.h>  // mkdtemp

#include <filesystem>
#include <stdexcept>
#include <string>

namespace partita {

class TemporaryFolder {
public:
    TemporaryFolder() {
        // mkdtemp writes its own letters over the last six.
        const std::string pattern = "partita_" + std::string(6, 'X');
        std::string name = (std::filesystem::temp_directory_path() / pattern).string();
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder " + name);
        path_ = name;
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

}  // namespace partita
