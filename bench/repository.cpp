// SPDX-License-Identifier: Apache-2.0
#include "bench/repository.h"

namespace partita::bench {

std::filesystem::path repository() {
    return PARTITA_SOURCE_DIR;
}

}  // namespace partita::bench
