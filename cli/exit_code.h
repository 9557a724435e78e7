// SPDX-License-Identifier: Apache-2.0
//
// What the program tells the shell. main.cpp maps exceptions to these; a command returns the
// expected ones (done, infeasible, check_failed) itself.
#pragma once

namespace partita::cli {

enum class ExitCode : int {
    done = 0,
    internal_error = 1,  ///< a bug
    wrong_usage = 2,     ///< UsageError, or a command line that cannot be parsed
    bad_input = 3,   ///< InputError: a model, machine, plan, policy or profile file; or too large
    infeasible = 4,  ///< no plan fits the memory or the constraints, or none was found that does
    device_failure = 5,  ///< a device or the communication failed
    check_failed = 6,    ///< MismatchError, or verify says no
    interrupted = 130,   ///< before there was a result; as shells say it of SIGINT
};

}  // namespace partita::cli
