// SPDX-License-Identifier: Apache-2.0
//
// A SQLite file, its statements and its errors: the one place that knows SQLite.
//
//     SqliteStatement rows(file, "SELECT name FROM overheads WHERE model = ?");
//     for (rows.bind(model); rows.step();) names.push_back(rows.text("a name"));
//
// Threads: one object per thread. Errors: InputError naming the file (damaged, no database, a value
// of another type, locked for too long), UsageError when it cannot be created or written.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace partita::cost {

class SqliteFile {
public:
    enum class Access : std::uint8_t {
        read,    ///< nothing is created
        create,  ///< read and write; the file is created if there is none
    };
    /// Waits for up to `busy` where other processes hold the file.
    SqliteFile(std::filesystem::path file, Access access, std::chrono::milliseconds busy);
    ~SqliteFile();
    SqliteFile(const SqliteFile&) = delete;
    SqliteFile& operator=(const SqliteFile&) = delete;

    [[nodiscard]] const std::filesystem::path& name() const { return name_; }
    /// Statements without parameters and results.
    void run(const std::string& sql) const;
    /// What `PRAGMA name` says.
    [[nodiscard]] std::int64_t number_of(std::string_view pragma) const;
    /// Throws InputError: "FILE: WHAT".
    [[noreturn]] void refuse(std::string_view what) const;

private:
    friend class SqliteStatement;
    void check(int result) const;

    std::filesystem::path name_;
    Access access_;
    std::chrono::milliseconds busy_;
    sqlite3* handle_ = nullptr;
};

/// One statement, its parameters and the columns of its rows, each from left to right.
class SqliteStatement {
public:
    SqliteStatement(const SqliteFile& file, const std::string& sql);
    ~SqliteStatement();
    SqliteStatement(const SqliteStatement&) = delete;
    SqliteStatement& operator=(const SqliteStatement&) = delete;

    SqliteStatement& bind(std::string_view text);
    SqliteStatement& bind(std::int64_t number);
    /// The next row; false: there is none.
    bool step();
    /// To the end, and ready to be bound anew.
    void run();

    [[nodiscard]] std::string text();
    [[nodiscard]] std::int64_t integer(std::int64_t least, std::int64_t most);
    /// Of the column read last; throws InputError.
    [[noreturn]] void refuse_value(std::string_view expected) const;

private:
    const SqliteFile& file_;
    sqlite3_stmt* handle_ = nullptr;
    int parameter_ = 0;
    int column_ = -1;
};

/// A transaction that writes; undone when an exception ends it.
class SqliteTransaction {
public:
    explicit SqliteTransaction(const SqliteFile& file);
    ~SqliteTransaction();
    SqliteTransaction(const SqliteTransaction&) = delete;
    SqliteTransaction& operator=(const SqliteTransaction&) = delete;
    void commit();

private:
    const SqliteFile& file_;
    bool open_ = true;
};

}  // namespace partita::cost
