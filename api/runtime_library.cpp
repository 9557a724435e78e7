// SPDX-License-Identifier: Apache-2.0
#include "api/runtime_library.h"

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "graph/error.h"

namespace partita::api {
namespace {

/// Where this library lies.
std::filesystem::path own_folder() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void*>(&load_runtime), &info) == 0) return {};
    return std::filesystem::path(info.dli_fname).parent_path();
}

/// Never closed: LibTorch's threads and static objects may outlive main().
std::unique_ptr<runtime::Runtime> load() {
    const std::filesystem::path file = own_folder() / PARTITA_RUNTIME_LIBRARY;
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const make = library == nullptr ? nullptr : dlsym(library, runtime::kMakeRuntime);
    if (make == nullptr) {
        const char* const why = dlerror();
        throw UsageError(fmt::format(
            "this installation plans but cannot execute: {}. Install LibTorch with scripts/setup "
            "and build again.",
            why == nullptr ? "no runtime" : why));
    }
    return std::unique_ptr<runtime::Runtime>(reinterpret_cast<runtime::MakeRuntime>(make)());
}

}  // namespace

runtime::Runtime& load_runtime() {
    static const std::unique_ptr<runtime::Runtime> kRuntime = load();
    return *kRuntime;
}

}  // namespace partita::api
