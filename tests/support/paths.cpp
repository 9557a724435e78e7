// SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace partita::tests {

std::filesystem::path repository() {
    return PARTITA_SOURCE_DIR;
}

std::filesystem::path node_tests() {
    return PARTITA_NODE_TESTS;
}

std::filesystem::path program() {
    return PARTITA_PROGRAM;
}

}  // namespace partita::tests
