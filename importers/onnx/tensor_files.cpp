// SPDX-License-Identifier: Apache-2.0
#include "importers/onnx/tensor_files.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zip.h>

#include "base/error.h"
#include "importers/onnx/tensor_file.h"

namespace partita::importers {

namespace {

[[noreturn]] void refuse_archive(const std::filesystem::path& file, std::string_view what) {
    throw InputError(fmt::format("{}: {}. Write it again: numpy.savez(file, tokens=array, ...).",
                                 file.string(), what));
}

std::string read_entry(zip_t& archive, zip_uint64_t index, const std::filesystem::path& file) {
    zip_stat_t about;
    zip_stat_init(&about);
    constexpr zip_uint64_t kMost = zip_uint64_t{1} << 36U;  // more is no array that fits here
    if (zip_stat_index(&archive, index, 0, &about) != 0 || about.size > kMost)
        refuse_archive(file, "an array of it cannot be read");
    const std::unique_ptr<zip_file_t, decltype(&zip_fclose)> entry(
        zip_fopen_index(&archive, index, 0), &zip_fclose);
    if (entry == nullptr)
        refuse_archive(file, fmt::format("{}: {}", about.name, zip_strerror(&archive)));
    std::string bytes(about.size, '\0');
    char beyond = 0;  // its checksum is looked at where it ends
    if (zip_fread(entry.get(), bytes.data(), bytes.size()) != std::ssize(bytes) ||
        zip_fread(entry.get(), &beyond, 1) != 0) {
        refuse_archive(file, fmt::format("{}: {}", about.name, zip_file_strerror(entry.get())));
    }
    return bytes;
}

std::map<std::string, std::string> read_archive(const std::filesystem::path& file) {
    int error = 0;
    const std::unique_ptr<zip_t, decltype(&zip_discard)> archive(
        zip_open(file.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &error), &zip_discard);
    if (archive == nullptr) {
        zip_error_t reason;
        zip_error_init_with_code(&reason, error);
        const std::string text = zip_error_strerror(&reason);
        zip_error_fini(&reason);
        refuse_archive(file, text);
    }
    std::map<std::string, std::string> arrays;
    const zip_int64_t entries = zip_get_num_entries(archive.get(), 0);
    for (zip_int64_t i = 0; i < entries; ++i) {
        const auto index = static_cast<zip_uint64_t>(i);
        const char* const name = zip_get_name(archive.get(), index, 0);
        if (name == nullptr) refuse_archive(file, "an array of it has no name");
        arrays.emplace(name, read_entry(*archive, index, file));
    }
    return arrays;
}

}  // namespace

TensorFiles::TensorFiles(std::filesystem::path place)
    : place_(std::move(place)), is_archive_(place_.extension() == ".npz") {
    if (is_archive_) arrays_ = read_archive(place_);
}

bool TensorFiles::contains(const std::string& name) const {
    if (is_archive_) return arrays_.contains(name);
    std::error_code ignored;
    return std::filesystem::exists(place_ / name, ignored);
}

std::optional<std::filesystem::path> TensorFiles::find(std::string_view stem, std::size_t index,
                                                       std::string_view name) const {
    std::vector<std::string> names = {fmt::format("{}_{}.pb", stem, index),
                                      fmt::format("{}_{}.npy", stem, index)};
    if (!name.empty()) {
        names.push_back(array_file_name(name));
        if (is_archive_) names.push_back(fmt::format("{}.npy", name));
    }
    if (is_archive_ && stem == "input") names.push_back(fmt::format("arr_{}.npy", index));
    const auto found =
        std::ranges::find_if(names, [this](const std::string& each) { return contains(each); });
    return found == names.end() ? std::nullopt : std::optional(place_ / *found);
}

std::unique_ptr<std::istream> TensorFiles::open(const std::filesystem::path& file) const {
    if (is_archive_)
        return std::make_unique<std::istringstream>(
            arrays_.at(file.lexically_relative(place_).generic_string()));
    auto stream = std::make_unique<std::ifstream>(file, std::ios::binary);
    if (!*stream) {
        throw InputError(
            fmt::format("{}: cannot be read. Write the data set again.", file.string()));
    }
    return stream;
}

std::vector<graph::HostTensor> TensorFiles::read(std::string_view stem,
                                                 std::span<const std::string> names) const {
    std::vector<graph::HostTensor> tensors;
    for (;;) {
        const std::size_t index = tensors.size();
        const std::string name = index < names.size() ? names[index] : "";
        const auto file = find(stem, index, name);
        if (!file) return tensors;
        tensors.push_back(parse_tensor_file(*open(*file), *file));
    }
}

}  // namespace partita::importers
