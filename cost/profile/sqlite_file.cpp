// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/sqlite_file.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "base/error.h"

namespace partita::cost {

SqliteFile::SqliteFile(std::filesystem::path file, Access access, std::chrono::milliseconds busy)
    : name_(std::move(file)), access_(access), busy_(busy) {
    const int flags =
        access == Access::read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    try {
        check(sqlite3_open_v2(name_.c_str(), &handle_, flags | SQLITE_OPEN_NOMUTEX, nullptr));
        check(sqlite3_busy_timeout(handle_, static_cast<int>(busy.count())));
        // A file may come from a stranger: its schema calls no functions and cannot be rewritten.
        sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
        sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    } catch (...) {
        sqlite3_close(handle_);
        throw;
    }
}

SqliteFile::~SqliteFile() {
    sqlite3_close(handle_);
}

void SqliteFile::refuse(std::string_view what) const {
    throw InputError(fmt::format("{}: {}", name_.string(), what));
}

void SqliteFile::check(int result) const {
    if (result == SQLITE_OK || result == SQLITE_ROW || result == SQLITE_DONE) return;
    const char* why = handle_ != nullptr ? sqlite3_errmsg(handle_) : sqlite3_errstr(result);
    if (handle_ != nullptr && sqlite3_extended_errcode(handle_) == SQLITE_READONLY_ROLLBACK) {
        refuse(fmt::format(
            "who wrote it last did not finish, and {}-journal is there to undo that. Write to it "
            "once (`partita profile`, `partita execute --update-profile`), or remove both.",
            name_.string()));
    }
    switch (result & 0xFF) {  // the rest tells kinds of one error apart
    case SQLITE_NOTADB: refuse("is no profile database. Give one that `partita profile` wrote.");
    case SQLITE_CORRUPT: refuse(fmt::format("is damaged ({}). Remove it and measure again.", why));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        refuse(fmt::format("another process has held it for {} s. Wait for it to end.",
                           std::chrono::duration_cast<std::chrono::seconds>(busy_).count()));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        if (access_ == Access::read) refuse(fmt::format("cannot be read: {}.", why));
        throw UsageError(fmt::format(
            "{}: cannot be opened: {}. Give a file in a folder that exists and may be written.",
            name_.string(), why));
    default: refuse(fmt::format("cannot be used: {}. Check the disk, or measure again.", why));
    }
}

void SqliteFile::run(const std::string& sql) const {
    check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
}

std::int64_t SqliteFile::number_of(std::string_view pragma) const {
    SqliteStatement statement(*this, fmt::format("PRAGMA {}", pragma));
    if (!statement.step()) return 0;
    return statement.integer(INT64_MIN, INT64_MAX);
}

SqliteStatement::SqliteStatement(const SqliteFile& file, const std::string& sql) : file_(file) {
    file_.check(sqlite3_prepare_v2(file_.handle_, sql.c_str(), -1, &handle_, nullptr));
}

SqliteStatement::~SqliteStatement() {
    sqlite3_finalize(handle_);
}

SqliteStatement& SqliteStatement::bind(std::string_view text) {
    file_.check(sqlite3_bind_text64(handle_, ++parameter_, text.data(), text.size(),
                                    SQLITE_TRANSIENT, SQLITE_UTF8));
    return *this;
}

SqliteStatement& SqliteStatement::bind(std::int64_t number) {
    file_.check(sqlite3_bind_int64(handle_, ++parameter_, number));
    return *this;
}

bool SqliteStatement::step() {
    const int result = sqlite3_step(handle_);
    file_.check(result);
    column_ = -1;
    return result == SQLITE_ROW;
}

void SqliteStatement::run() {
    while (step()) {
    }
    file_.check(sqlite3_reset(handle_));
    parameter_ = 0;
}

std::string SqliteStatement::text() {
    if (sqlite3_column_type(handle_, ++column_) != SQLITE_TEXT) refuse_value("a text");
    const unsigned char* letters = sqlite3_column_text(handle_, column_);
    if (letters == nullptr) refuse_value("a text that fits into memory");
    return {reinterpret_cast<const char*>(letters),
            static_cast<std::size_t>(sqlite3_column_bytes(handle_, column_))};
}

std::int64_t SqliteStatement::integer(std::int64_t least, std::int64_t most) {
    const bool is_number = sqlite3_column_type(handle_, ++column_) == SQLITE_INTEGER;
    const std::int64_t number = is_number ? sqlite3_column_int64(handle_, column_) : 0;
    if (!is_number || number < least || number > most) {
        refuse_value(fmt::format("a whole number from {} to {}", least, most));
    }
    return number;
}

void SqliteStatement::refuse_value(std::string_view expected) const {
    const unsigned char* found = sqlite3_column_text(handle_, column_);
    file_.refuse(fmt::format("column {}: expected {}, got '{:.80}'. Remove it and measure again.",
                             sqlite3_column_name(handle_, column_), expected,
                             found == nullptr ? "" : reinterpret_cast<const char*>(found)));
}

SqliteTransaction::SqliteTransaction(const SqliteFile& file) : file_(file) {
    file_.run("BEGIN IMMEDIATE");
}

SqliteTransaction::~SqliteTransaction() {
    if (!open_) return;
    try {
        file_.run("ROLLBACK");
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
        // SQLite has undone it already; what ended it is on its way.
    }
}

void SqliteTransaction::commit() {
    file_.run("COMMIT");
    open_ = false;
}

}  // namespace partita::cost
