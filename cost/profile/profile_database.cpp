// SPDX-License-Identifier: Apache-2.0
#include "cost/profile/profile_database.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cost/profile/sqlite_file.h"

namespace partita::cost {

namespace fs = std::filesystem;

namespace {

/// "PRTI": says that a SQLite file is one of ours.
constexpr std::int64_t kApplicationId = 0x50525449;
constexpr std::string_view kCopy = "copy";
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

struct Column {
    std::string_view name;
    std::string_view type;
    bool key = false;
};

constexpr Column kModel{"model", "TEXT", true};
constexpr Column kSetting{"setting", "TEXT", true};
constexpr std::array kTimeColumns = {
    Column{"median_ps", "INTEGER"},   Column{"lower_ps", "INTEGER"}, Column{"upper_ps", "INTEGER"},
    Column{"repetitions", "INTEGER"}, Column{"versions", "TEXT"},    Column{"date", "TEXT"}};
constexpr std::array kWorkColumns = {
    Column{"text", "TEXT", true}, Column{"family", "TEXT"},           Column{"type", "TEXT"},
    Column{"phase", "TEXT"},      Column{"flops", "INTEGER"},         Column{"bytes", "INTEGER"},
    Column{"dtype", "TEXT"},      Column{"matrix_product", "INTEGER"}};
constexpr std::array kTransferColumns = {
    Column{"kind", "TEXT", true},     Column{"ranks", "INTEGER", true},
    Column{"nodes", "INTEGER", true}, Column{"bytes", "INTEGER", true},
    Column{"dtype", "TEXT", true},    Column{"variant", "TEXT", true}};

/// A table, and the statements on it that follow from its columns.
class Table {
public:
    Table(std::string_view name, std::span<const Column> own) : name_(name) {
        all_ = {kModel, kSetting};
        all_.insert(all_.end(), own.begin(), own.end());
        all_.insert(all_.end(), kTimeColumns.begin(), kTimeColumns.end());
    }

    [[nodiscard]] std::string_view name() const { return name_; }

    [[nodiscard]] std::string create() const {
        return fmt::format("CREATE TABLE {} ({}, PRIMARY KEY ({})) WITHOUT ROWID", name_,
                           list("{0} {1} NOT NULL", [](const Column&) { return true; }),
                           list("{0}", &Column::key));
    }
    [[nodiscard]] std::string upsert() const {
        const auto any = [](const Column&) { return true; };
        return fmt::format(
            "INSERT INTO {0} ({1}) VALUES ({2}) ON CONFLICT ({3}) DO UPDATE SET {4} "
            "WHERE (excluded.date, excluded.repetitions) >= ({0}.date, {0}.repetitions)",
            name_, list("{0}", any), list("?", any), list("{0}", &Column::key),
            list("{0} = excluded.{0}", [](const Column& column) { return !column.key; }));
    }
    /// Rows of one device, without its key.
    [[nodiscard]] std::string select() const {
        const auto own = [](const Column& column) {
            return column.name != kModel.name && column.name != kSetting.name;
        };
        return fmt::format("SELECT {} FROM {} WHERE model = ? AND setting = ? ORDER BY {}",
                           list("{0}", own), name_, list("{0}", &Column::key));
    }
    [[nodiscard]] std::string select_devices() const {
        return fmt::format("SELECT DISTINCT model, setting FROM {}", name_);
    }

private:
    template <class Which>
    [[nodiscard]] std::string list(std::string_view form, Which which) const {
        std::vector<std::string> items;
        for (const Column& column : all_) {
            if (!std::invoke(which, column)) continue;
            items.push_back(fmt::format(fmt::runtime(form), column.name, column.type));
        }
        return fmt::format("{}", fmt::join(items, ", "));
    }

    std::string_view name_;
    std::vector<Column> all_;
};

struct Tables {
    Table transfers{"transfers", kTransferColumns};
    Table works{"works", kWorkColumns};
    /// In order of name.
    [[nodiscard]] std::array<const Table*, 2> all() const { return {&transfers, &works}; }
};

/// Column matrix_product: 0 of what is none, else from 1 on the type of its products.
std::int64_t product_number(const MeasuredWork& work) {
    return work.matrix_product ? 1 + static_cast<std::int64_t>(work.product_type) : 0;
}

void bind_time(SqliteStatement& statement, const Measurement& time) {
    statement.bind(time.median.raw()).bind(time.lower.raw()).bind(time.upper.raw());
    statement.bind(time.repetitions).bind(time.versions).bind(time.date);
}

Measurement time_from(SqliteStatement& row) {
    Measurement time;
    time.median = Time(row.integer(1, kMost));
    time.lower = Time(row.integer(0, kMost));
    time.upper = Time(row.integer(0, kMost));
    time.repetitions = row.integer(1, kMost);
    time.versions = row.text();
    time.date = row.text();
    return time;
}

graph::DType dtype_from(SqliteStatement& row) {
    const auto dtype = graph::dtype_from_name(row.text());
    if (!dtype) row.refuse_value("the name of an element type");
    return *dtype;
}

/// The value of an enum's first `count` that has the name.
template <class Enum>
Enum named(SqliteStatement& row, const std::string& name, int count, std::string_view expected) {
    for (int i = 0; i < count; ++i) {
        if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
    }
    row.refuse_value(expected);
}

std::int64_t clamped(Flops flops) {
    return static_cast<std::int64_t>(std::min<Int128>(flops.raw(), kMost));
}

}  // namespace

struct ProfileDatabase::Connection {
    Connection(const fs::path& name, SqliteFile::Access access)
        : file(name, access, kBusyTimeout) {}

    [[nodiscard]] bool is_empty() const {
        SqliteStatement any(file, "SELECT 1 FROM sqlite_master LIMIT 1");
        return !any.step();
    }

    void create_tables() const {
        SqliteTransaction writing(file);
        if (is_empty()) {  // another process may have been here first
            file.run(fmt::format("PRAGMA application_id = {}", kApplicationId));
            file.run(fmt::format("PRAGMA user_version = {}", kVersion));
            for (const Table* table : tables.all()) file.run(table->create());
        }
        writing.commit();
    }

    /// Refuses what this version would not have written.
    void check_schema() const {
        const std::int64_t version = file.number_of("user_version");
        if (file.number_of("application_id") != kApplicationId) {
            file.refuse("is no profile database. Give one that `partita profile` wrote.");
        }
        if (version != kVersion) {
            file.refuse(fmt::format(
                "is a profile database of version {}, this program knows version {}. Use the "
                "program that wrote it, or measure again into another file.",
                version, kVersion));
        }
        SqliteStatement found(file, "SELECT sql FROM sqlite_master ORDER BY name");
        for (const Table* table : tables.all()) {
            if (found.step() && found.text() == table->create()) continue;
            file.refuse(
                fmt::format("table {}: is not as this program writes it. Remove the file "
                            "and measure again.",
                            table->name()));
        }
        if (found.step()) {
            file.refuse(
                "has more tables than this program writes. Remove the file and measure "
                "again.");
        }
    }

    void check_pages() const {
        SqliteStatement check(file, "PRAGMA quick_check(1)");
        const std::string found = check.step() ? check.text() : "";
        if (found == "ok") return;
        file.refuse(fmt::format("is damaged ({}). Remove it and measure again.", found));
    }

    /// `bind_row(statement, row)` binds the columns between those of the device and of the time.
    template <class Row, class BindRow>
    void add(const Table& table, const DeviceKey& device, std::span<const Row> rows,
             BindRow bind_row) const {
        SqliteTransaction writing(file);
        SqliteStatement upsert(file, table.upsert());
        for (const Row& row : rows) {
            upsert.bind(device.model).bind(device.setting);
            bind_row(upsert, row);
            bind_time(upsert, row.time);
            upsert.run();
        }
        writing.commit();
    }

    /// `read_row(statement, row)` reads the same columns.
    template <class Row, class ReadRow>
    void read(const Table& table, const DeviceKey& device, std::vector<Row>& rows,
              ReadRow read_row) const {
        SqliteStatement select(file, table.select());
        select.bind(device.model).bind(device.setting);
        while (select.step()) {
            Row& row = rows.emplace_back();
            read_row(select, row);
            row.time = time_from(select);
        }
    }

    SqliteFile file;
    Tables tables;
};

ProfileDatabase::ProfileDatabase(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
ProfileDatabase::~ProfileDatabase() = default;
ProfileDatabase::ProfileDatabase(ProfileDatabase&&) noexcept = default;
ProfileDatabase& ProfileDatabase::operator=(ProfileDatabase&&) noexcept = default;

ProfileDatabase ProfileDatabase::open(const fs::path& file) {
    std::error_code ignored;
    if (!fs::is_regular_file(file, ignored)) {
        throw InputError(
            fmt::format("{}: there is no such file. Give a database that `partita profile` wrote.",
                        file.string()));
    }
    auto connection = std::make_unique<Connection>(file, SqliteFile::Access::read);
    connection->check_schema();
    connection->check_pages();
    return ProfileDatabase(std::move(connection));
}

ProfileDatabase ProfileDatabase::create(const fs::path& file) {
    auto connection = std::make_unique<Connection>(file, SqliteFile::Access::create);
    if (connection->is_empty()) connection->create_tables();
    connection->check_schema();
    return ProfileDatabase(std::move(connection));
}

void ProfileDatabase::add(const DeviceKey& device, std::span<const MeasuredWork> works) {
    connection_->add(connection_->tables.works, device, works,
                     [](SqliteStatement& to, const MeasuredWork& work) {
                         to.bind(work.signature.text).bind(work.signature.family).bind(work.type);
                         to.bind(name_of(work.phase)).bind(clamped(work.flops));
                         to.bind(work.bytes.raw()).bind(name_of(work.dtype));
                         to.bind(product_number(work));
                     });
}

void ProfileDatabase::add(const DeviceKey& device, std::span<const MeasuredTransfer> transfers) {
    connection_->add(connection_->tables.transfers, device, transfers,
                     [](SqliteStatement& to, const MeasuredTransfer& transfer) {
                         to.bind(transfer.copy ? kCopy : name_of(transfer.kind));
                         to.bind(std::int64_t{transfer.ranks}).bind(std::int64_t{transfer.nodes});
                         to.bind(transfer.bytes.raw()).bind(name_of(transfer.dtype));
                         to.bind(transfer.variant);
                     });
}

std::vector<DeviceKey> ProfileDatabase::devices() const {
    std::set<DeviceKey> found;
    for (const Table* table : connection_->tables.all()) {
        SqliteStatement rows(connection_->file, table->select_devices());
        while (rows.step()) {
            std::string model = rows.text();
            found.insert({std::move(model), rows.text()});
        }
    }
    return {found.begin(), found.end()};
}

DeviceProfile ProfileDatabase::read(const DeviceKey& device) const {
    const Tables& tables = connection_->tables;
    DeviceProfile profile{.device = device, .works = {}, .transfers = {}};
    connection_->read(tables.works, device, profile.works, [](SqliteStatement& row, auto& work) {
        work.signature.text = row.text();
        work.signature.family = row.text();
        work.type = row.text();
        work.phase = named<Phase>(row, row.text(), kPhaseCount, "the name of a phase");
        work.flops = Flops(row.integer(0, kMost));
        work.bytes = Bytes(row.integer(0, kMost));
        work.dtype = dtype_from(row);
        const std::int64_t product = row.integer(0, graph::kProductTypeCount);
        work.matrix_product = product != 0;
        if (product != 0) work.product_type = static_cast<graph::ProductType>(product - 1);
    });
    connection_->read(
        tables.transfers, device, profile.transfers, [](SqliteStatement& row, auto& transfer) {
            const std::string kind = row.text();
            transfer.copy = kind == kCopy;
            if (!transfer.copy) {
                transfer.kind =
                    named<Collective>(row, kind, kCollectiveCount, "copy or a collective's name");
            }
            transfer.ranks = static_cast<int>(row.integer(2, kMostDevices));
            transfer.nodes = static_cast<int>(row.integer(1, kMostDevices));
            transfer.bytes = Bytes(row.integer(0, kMost));
            transfer.dtype = dtype_from(row);
            transfer.variant = row.text();
        });
    return profile;
}

Profile read_profile(const fs::path& file, const Machine& machine) {
    const ProfileDatabase database = ProfileDatabase::open(file);
    std::set<DeviceKey> keys;
    for (const Device& device : machine.devices()) keys.insert(device_key(device));
    Profile profile{
        .file = file.filename().string(), .date = {}, .devices = {}, .keys = database.devices()};
    const auto note_date = [&](const auto& rows) {
        constexpr std::size_t kDay = 10;
        for (const auto& row : rows) {
            profile.date = std::max(profile.date, row.time.date.substr(0, kDay));
        }
    };
    for (const DeviceKey& key : keys) {
        DeviceProfile device = database.read(key);
        if (device.works.empty() && device.transfers.empty()) continue;
        note_date(device.works);
        note_date(device.transfers);
        profile.devices.push_back(std::move(device));
    }
    return profile;
}

}  // namespace partita::cost
