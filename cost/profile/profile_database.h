// SPDX-License-Identifier: Apache-2.0
//
// A profile database: measured times of works and transfers in one SQLite file
// (docs/file-formats.md). `profile` and `execute --update-profile` write it, --profile reads it.
//
//     works       device, text (cost/work_signature.h)                                    -> time
//     transfers   device, kind, ranks, nodes, bytes, dtype, variant             -> time
//
// A row that is written again is kept if it is the newer one; of one date, if it has no
// fewer repetitions. So the order in which writers come does not matter.
//
// Several processes may write and read at once: each add() is one transaction, and who finds the
// file locked waits for up to kBusyTimeout. The journal is SQLite's rollback journal, not its
// write-ahead log: that one leaves files beside the database even for those who only read it.
//
// Threads: one object per thread. Errors: InputError naming the file, what is wrong with it and
// what to do (no database, of a newer version, damaged, with tables or values that this version
// does not write, locked for too long); UsageError when it cannot be created.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "cost/machine/machine.h"
#include "cost/profile/profile.h"

namespace partita::cost {

class ProfileDatabase {
public:
    static constexpr int kVersion = 1;
    static constexpr std::chrono::seconds kBusyTimeout{30};

    /// To read. The file must exist; none is created.
    static ProfileDatabase open(const std::filesystem::path& file);
    /// To write; creates what is missing.
    static ProfileDatabase create(const std::filesystem::path& file);
    ~ProfileDatabase();
    ProfileDatabase(ProfileDatabase&&) noexcept;
    ProfileDatabase& operator=(ProfileDatabase&&) noexcept;

    void add(const DeviceKey& device, std::span<const MeasuredWork> works);
    void add(const DeviceKey& device, std::span<const MeasuredTransfer> transfers);

    /// Keys that have rows, rising.
    [[nodiscard]] std::vector<DeviceKey> devices() const;
    /// All of one key, rows in order of their keys.
    [[nodiscard]] DeviceProfile read(const DeviceKey& device) const;

private:
    struct Connection;
    explicit ProfileDatabase(std::unique_ptr<Connection> connection);

    std::unique_ptr<Connection> connection_;
};

/// What the database in `file` knows of the devices of the machine.
Profile read_profile(const std::filesystem::path& file, const Machine& machine);

}  // namespace partita::cost
