// SPDX-License-Identifier: Apache-2.0
#include "api/runtime_library.h"

#include "api/shared_library.h"

namespace partita::api {
namespace {

std::unique_ptr<runtime::Runtime> load() {
    void* const make = function_of(PARTITA_RUNTIME_LIBRARY, runtime::kMakeRuntime,
                                   "this installation plans but cannot execute");
    return std::unique_ptr<runtime::Runtime>(reinterpret_cast<runtime::MakeRuntime>(make)());
}

}  // namespace

runtime::Runtime& load_runtime() {
    static const std::unique_ptr<runtime::Runtime> kRuntime = load();
    return *kRuntime;
}

}  // namespace partita::api
