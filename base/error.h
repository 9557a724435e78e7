// SPDX-License-Identifier: Apache-2.0
//
// The exceptions that a user's mistake or a failing device may raise (contract 9). Each carries a
// whole sentence: file, node, field, what was expected, what came, what to do. They are caught
// once, in cli/main.cpp, which maps them to the exit codes of INTERFACE: 2 UsageError, 3 InputError
// and OverflowError, 5 DeviceError, 6 MismatchError. An expected "no" (infeasible, out of budget)
// is a return value, not an exception.
#pragma once

#include <stdexcept>
#include <string>

namespace partita {

/// A model, machine, plan or profile file is unreadable or inconsistent.
class InputError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// An option is wrong or missing: unknown searcher, no value for a symbolic dim, unwritable output.
class UsageError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Two files do not belong together: a plan of another model, machine or version of the costs.
class MismatchError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A device or the communication between ranks failed: memory, time-out, a rank that died. Not a
/// bug of ours nor of the user's files.
class DeviceError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A quantity from a file left the range of its unit (base/units.h).
class OverflowError : public InputError {
public:
    using InputError::InputError;
};

}  // namespace partita
