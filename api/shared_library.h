// SPDX-License-Identifier: Apache-2.0
//
// Libraries of Partita that are loaded only when something needs them, because they bring LibTorch
// with them: the runtime (runtime_library.h), and the searchers that learn (learned_library.h).
#pragma once

#include <string_view>

namespace partita::api {

/// The function of that name in `library`, a file beside this library; loaded when first asked for,
/// and never closed: LibTorch's threads and static objects may outlive main(). Throws UsageError
/// when it is not there: `lack`, why, and what to do.
void* function_of(const char* library, const char* name, std::string_view lack);

}  // namespace partita::api
