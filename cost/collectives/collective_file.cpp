// SPDX-License-Identifier: Apache-2.0
#include "cost/collectives/collective_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cost/collectives/collective_algorithms.h"
#include "cost/collectives/collective_log.h"
#include "cost/collectives/collective_table.h"
#include "cost/collectives/measured_links.h"
#include "cost/collectives/nccl_links.h"
#include "cost/collectives/nccl_model.h"
#include "cost/collectives/nccl_tuning.h"
#include "cost/machine/data_folder.h"
#include "cost/machine/machine_file.h"

namespace partita::cost {

namespace {

namespace fs = std::filesystem;
using Models = std::vector<std::shared_ptr<const CollectiveModel>>;

/// The name of each kind that the NCCL-like model may be fitted to, as the logs write it.
constexpr std::array kFittedKinds = {std::pair{"all_reduce", Collective::all_reduce},
                                     std::pair{"all_gather", Collective::all_gather},
                                     std::pair{"reduce_scatter", Collective::reduce_scatter},
                                     std::pair{"all_to_all", Collective::all_to_all},
                                     std::pair{"broadcast", Collective::broadcast},
                                     std::pair{"reduce", Collective::reduce}};

/// Each entry names the collectives that its constants are for.
std::map<Collective, NcclFit> read_fitted(const JsonField& field) {
    std::map<Collective, NcclFit> fits;
    for (const JsonField& item : field.items()) {
        item.allow_only({"collectives", "constants", "source"});
        const NcclFit fit = read_nccl_fit(item["constants"]);
        for (const JsonField& name : item["collectives"].items()) {
            const std::string text = name.text({"a collective"});
            const auto* const known = std::ranges::find(
                kFittedKinds, text, [](const auto& kind) { return std::string_view(kind.first); });
            if (known == kFittedKinds.end()) name.fail({"a collective such as all_reduce"});
            if (!fits.emplace(known->second, fit).second) name.reject("is fitted twice.");
        }
    }
    return fits;
}

/// The name of a file beside the others: no folder, so that it cannot lead out of there.
std::string read_file_name(const JsonField& field) {
    std::string name = field.text({"the name of a file"}, 200);
    if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
        field.fail({"the name of a file in data/collectives"});
    }
    return name;
}

/// By content: a plan's costs digest holds the name, so that other figures are other costs.
class NamedByContent final : public CollectiveModel {
public:
    NamedByContent(std::shared_ptr<const CollectiveModel> model, const std::string& name,
                   Sha256& content)
        : model_(std::move(model)) {
        constexpr std::size_t kDigits = 16;
        name_ = fmt::format("{} {}: {}", name, content.finish().substr(0, kDigits), model_->name());
    }
    [[nodiscard]] std::optional<CollectivePrice> price(const CollectiveCall& call,
                                                       const Machine& machine) const override {
        return model_->price(call, machine);
    }
    [[nodiscard]] std::optional<Price> copy_price(int from, int to, Bytes bytes,
                                                  const Machine& machine) const override {
        return model_->copy_price(from, to, bytes, machine);
    }
    [[nodiscard]] std::string name() const override { return name_; }

private:
    std::shared_ptr<const CollectiveModel> model_;  ///< shared, as collective_model_of() returns it
    std::string name_;
};

std::vector<MeasuredCollective> read_log(const JsonField& field, const fs::path& folder,
                                         Sha256& content) {
    const fs::path path = folder / read_file_name(field["log"]);
    const std::string text = read_text_file(path);
    content.add(text);
    auto rows = read_collective_log(text, path.string());
    if (!field["skip"].present()) return rows;
    for (const JsonField& item : field["skip"].items()) {
        item.allow_only({"ranks", "bytes", "why"});
        const auto ranks = item["ranks"].integer(2, kMostDevices, {"a number of ranks"});
        const auto bytes = item["bytes"].integer(1, std::int64_t{1} << 50, {"a number of bytes"});
        const auto skipped = std::erase_if(rows, [&](const MeasuredCollective& row) {
            return row.ranks == ranks && row.bytes == Bytes(bytes);
        });
        if (skipped == 0) item.reject("the log has no such line. Remove the entry.");
    }
    return rows;
}

/// Null: the machine names none, or one that is no file.
std::optional<fs::path> model_file(const Machine& machine) {
    const std::string& model = machine.collectives().model;
    if (model.empty() || model == "nccl" || model == "alpha-beta") return std::nullopt;
    return data_folder() / "collectives" / "models" / (model + ".json");
}

/// The machine that the model was measured on, with as many nodes as `machine` and no more devices
/// in each; null when the file names none.
std::optional<Machine> measured_machine(const fs::path& file, const Machine& machine) {
    if (!fs::exists(file)) return std::nullopt;
    const JsonFile json(read_text_file(file), file.string());
    const JsonField field = json.root()["machine"];
    if (!field.present()) return std::nullopt;
    const std::string name = field.text({"the name of a machine preset"}, 200);
    std::map<int, int> nodes;
    for (const Device& device : machine.devices()) ++nodes[device.node];
    int most = 1;
    for (const auto& [node, devices] : nodes) most = std::max(most, devices);
    most = std::min(most, load_machine(name + ":1").device_count());
    const int count = std::min(static_cast<int>(nodes.size()), kMostDevices / most);
    return load_machine(fmt::format("{}:{}x{}", name, count, most));
}

}  // namespace

std::shared_ptr<const CollectiveModel> load_collective_model(const fs::path& file) {
    const std::string text = read_text_file(file);
    Sha256 content;
    content.add(text);
    const JsonFile json(text, file.string());
    const JsonField root = json.root();
    root.allow_only({"format", "version", "name", "summary", "machine", "tables", "fitted",
                     "tuning", "source"});
    if (root["format"].text({"\"partita-collectives\""}) != "partita-collectives") {
        root["format"].fail({"\"partita-collectives\""});
    }
    static_cast<void>(root["version"].integer(
        1, 1, {"version 1", "Use a release of Partita that knows this version."}));
    const std::string name = root["name"].text({"a name"}, 200);
    const fs::path folder = file.parent_path().parent_path();

    Models formulas;
    if (root["tuning"].present()) {
        content.add(read_text_file(folder / "nccl_tuning_constants.json"));
        const NcclTuning tuning(nccl_constants(), read_nccl_topology(root["tuning"]));
        if (root["fitted"].present()) {
            formulas.push_back(
                std::make_shared<NcclModel>(read_fitted(root["fitted"]), tuning, name + " fitted"));
        }
        formulas.push_back(std::make_shared<NcclTuningModel>(tuning, name + " tuning"));
    } else if (root["fitted"].present()) {
        root["fitted"].reject("needs a topology. Add \"tuning\".");
    }
    formulas.push_back(std::make_shared<AlphaBeta>());
    const auto formula = std::make_shared<FirstCollectiveMatch>(formulas);

    Models models;
    if (root["tables"].present()) {
        for (const JsonField& field : root["tables"].items()) {
            field.allow_only({"log", "skip"});
            models.push_back(std::make_shared<CollectiveTable>(
                read_log(field, folder, content), field["log"].text({"the name of a file"}),
                formula));
        }
    }
    models.insert(models.end(), formulas.begin(), formulas.end());
    return std::make_shared<NamedByContent>(
        std::make_shared<FirstCollectiveMatch>(std::move(models)), name, content);
}

std::optional<std::string> collectives_note(const Machine& machine) {
    const auto file = model_file(machine);
    if (!file) return std::nullopt;
    const auto measured = measured_machine(*file, machine);
    if (!measured || same_links(*measured, machine)) return std::nullopt;
    return fmt::format(
        "the links of machine '{}' differ from those of '{}', where collective model '{}' was "
        "measured: collectives are scaled to them (docs/cost-model.md).",
        machine.name(), measured->name(), machine.collectives().model);
}

std::shared_ptr<const CollectiveModel> collective_model_of(const Machine& machine) {
    const std::string& model = machine.collectives().model;
    if (model.empty() || model == "nccl") {
        const auto nccl = std::make_shared<NcclLinksModel>(machine);
        if (nccl->knows_some()) {
            return std::make_shared<FirstCollectiveMatch>(
                Models{nccl, std::make_shared<AlphaBeta>()});
        }
        if (!model.empty()) {
            throw InputError(fmt::format(
                "machine '{}': collectives.model: no two devices are GPUs that NCCL has constants "
                "for (data/collectives/nccl_gpus.json). Leave it out, or write \"alpha-beta\".",
                machine.name()));
        }
    }
    if (model.empty() || model == "alpha-beta") return std::make_shared<AlphaBeta>();
    const fs::path file = *model_file(machine);
    if (!fs::exists(file)) {
        throw InputError(fmt::format(
            "machine '{}': collectives.model: no file {}. Correct the name, or leave it out.",
            machine.name(), file.string()));
    }
    auto loaded = load_collective_model(file);
    const auto measured = measured_machine(file, machine);
    if (!measured || same_links(*measured, machine)) return loaded;
    Models models = {std::make_shared<MeasuredLinks>(loaded, *measured, machine)};
    const auto nccl = std::make_shared<NcclLinksModel>(machine);
    if (nccl->knows_some()) models.push_back(nccl);
    models.push_back(std::make_shared<AlphaBeta>());
    return std::make_shared<FirstCollectiveMatch>(std::move(models));
}

}  // namespace partita::cost
