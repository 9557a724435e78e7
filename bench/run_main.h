// SPDX-License-Identifier: Apache-2.0
//
// The main() of benchmarks that read options: what goes wrong is said in one line.
#pragma once

#include <cstdio>
#include <exception>

namespace partita::bench {

/// run(argc, argv); 1 where it throws.
inline int run_main(const char* program, int (*run)(int, char**), int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", program, error.what());
        return 1;
    }
}

}  // namespace partita::bench
