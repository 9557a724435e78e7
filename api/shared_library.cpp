// SPDX-License-Identifier: Apache-2.0
#include "api/shared_library.h"

#include <dlfcn.h>

#include <filesystem>

#include <fmt/format.h>

#include "base/error.h"

namespace partita::api {
namespace {

/// Where this library lies.
std::filesystem::path own_folder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&function_of), &info) == 0) return {};
    return std::filesystem::path(info.dli_fname).parent_path();
}

}  // namespace

void* function_of(const char* library, const char* name, std::string_view lack) {
    void* const opened = dlopen((own_folder() / library).c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const function = opened == nullptr ? nullptr : dlsym(opened, name);
    if (function != nullptr) return function;
    const char* const why = dlerror();
    throw UsageError(fmt::format("{}: {}. Install LibTorch with scripts/setup and build again.",
                                 lack, why == nullptr ? "nothing is there" : why));
}

}  // namespace partita::api
