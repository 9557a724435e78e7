// SPDX-License-Identifier: Apache-2.0
#include "api/constraints_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "api/constraint_globs.h"
#include "base/files.h"
#include "base/json.h"
#include "graph/op_globs.h"

namespace partita::api {
namespace {
using graph::OpId;

constexpr std::string_view kNoSplits = "this version cannot fix how ops are split. Remove it.";

class ConstraintsReader {
public:
    ConstraintsReader(const graph::OpGraph& graph, const cost::Machine& machine,
                      plan::Constraints& constraints)
        : graph_(graph), machine_(machine), constraints_(constraints) {}

    /// Notes: what each glob matched.
    std::vector<std::string> read(const JsonField& root) {
        root.allow_only({"ops", "together", "max_degree"});
        if (root["max_degree"].present()) root["max_degree"].reject(kNoSplits);
        if (root["ops"].present()) {
            for (const JsonField& entry : root["ops"].items()) read_entry(entry);
        }
        if (root["together"].present()) read_together(root["together"]);
        return std::move(notes_);
    }

private:
    void read_entry(const JsonField& entry) {
        entry.allow_only({"match", "devices", "degrees"});
        if (entry["degrees"].present()) entry["degrees"].reject(kNoSplits);
        const std::vector<OpId> ops = matches(entry["match"]);
        const std::vector<int> devices = read_devices(entry["devices"]);
        if (const auto op = restrict_devices(constraints_, graph_, ops, devices)) {
            entry.reject(
                fmt::format("leaves op '{}' no device, together with the entries "
                            "before it. Let them share a device.",
                            graph_.op(*op).name));
        }
    }

    void read_together(const JsonField& field) {
        const std::vector<JsonField> items = field.items();
        const bool one_list = std::ranges::all_of(items, [](const auto& i) { return i.is_text(); });
        if (one_list) {
            add_together(items);
        } else {
            for (const JsonField& list : items) add_together(list.items());
        }
    }

    void add_together(const std::vector<JsonField>& globs) {
        std::vector<OpId> ops;
        for (const JsonField& glob : globs) {
            const std::vector<OpId> found = matches(glob);
            ops.insert(ops.end(), found.begin(), found.end());
        }
        keep_together(constraints_, std::move(ops));
    }

    /// Rising.
    std::vector<OpId> matches(const JsonField& field) {
        const std::string glob = field.text(
            {.what = "a glob over names or blocks of ops", .remedy = "Write e.g. \"/encoder/*\"."});
        std::vector<OpId> found = graph::matching_ops(graph_, glob);
        const auto is_of = [&](graph::OpKind kind) {
            return [this, kind](OpId op) { return graph_.op(op).kind == kind; };
        };
        const auto ops = std::ranges::count_if(found, is_of(graph::OpKind::compute));
        const auto parameters = std::ranges::count_if(found, is_of(graph::OpKind::parameter));
        const auto ends = std::ssize(found) - ops - parameters;
        if (found.empty() || ops + ends == 0) {
            const std::string what =
                parameters == 0 ? "no op" : fmt::format("{} parameters and no op", parameters);
            field.reject(
                fmt::format("\"{}\" matches {} of the model.{} `partita inspect MODEL --ops` "
                            "lists their names and blocks.",
                            glob, what, near_names(glob)));
        }
        notes_.push_back(
            fmt::format("--fix {}: matched {} ops, {} parameters{}", json_quoted(glob), ops,
                        parameters, ends == 0 ? "" : fmt::format(", {} inputs and outputs", ends)));
        return found;
    }

    /// " Near it: ..." of blocks and names that hold the longest word of the glob; "" without any.
    [[nodiscard]] std::string near_names(std::string_view glob) const {
        constexpr std::size_t kMost = 4;
        constexpr std::string_view kBetween = "*?/._[]0123456789";
        std::string_view word;
        for (std::size_t from = 0; from < glob.size();) {
            const std::size_t to = std::min(glob.find_first_of(kBetween, from), glob.size());
            if (to - from > word.size()) word = glob.substr(from, to - from);
            from = to + 1;
        }
        std::vector<std::string> names;
        for (const graph::Op& op : graph_.ops()) {
            if (op.kind != graph::OpKind::compute || names.size() == kMost || word.empty())
                continue;
            const std::string& name = op.block.find(word) != std::string::npos ? op.block : op.name;
            if (name.find(word) == std::string::npos) continue;
            if (std::ranges::find(names, name) == names.end()) names.push_back(name);
        }
        return names.empty() ? "" : fmt::format(" Near it: {}.", fmt::join(names, ", "));
    }

    /// Not empty.
    std::vector<int> read_devices(const JsonField& field) {
        std::vector<int> devices;
        for (const JsonField& item : field.items()) devices.push_back(read_device(item));
        if (devices.empty()) {
            field.fail({.what = "at least one device", .remedy = "Write e.g. [0, 1]."});
        }
        return devices;
    }

    int read_device(const JsonField& item) {
        const std::string last = std::to_string(machine_.device_count() - 1);
        const std::string what = "the name of a device or its number, 0 to " + last;
        if (!item.is_text()) {
            return static_cast<int>(item.integer(0, machine_.device_count() - 1, {.what = what}));
        }
        const std::string name = item.text({.what = what});
        const auto device = std::ranges::find(machine_.devices(), name, &cost::Device::name);
        if (device == machine_.devices().end()) {
            item.reject(
                fmt::format("machine '{}' has no device \"{}\". `partita machine show` "
                            "lists its devices.",
                            machine_.name(), name));
        }
        return static_cast<int>(device - machine_.devices().begin());
    }

    const graph::OpGraph& graph_;
    const cost::Machine& machine_;
    plan::Constraints& constraints_;
    std::vector<std::string> notes_;
};

}  // namespace

std::vector<std::string> read_constraints(const std::filesystem::path& file,
                                          const graph::OpGraph& graph, const cost::Machine& machine,
                                          plan::Constraints& constraints) {
    const JsonFile json(read_text_file(file), file.string());
    return ConstraintsReader(graph, machine, constraints).read(json.root());
}

}  // namespace partita::api
