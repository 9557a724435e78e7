// SPDX-License-Identifier: Apache-2.0
#include "cost/collective_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cost/collective_algorithms.h"
#include "cost/collective_log.h"
#include "cost/collective_table.h"
#include "cost/data_folder.h"
#include "cost/nccl_links.h"
#include "cost/nccl_model.h"
#include "cost/nccl_tuning.h"
#include "graph/error.h"
#include "graph/json.h"

namespace partita::cost {

namespace {

namespace fs = std::filesystem;
using graph::JsonField;
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

std::vector<MeasuredCollective> read_log(const JsonField& field, const fs::path& folder) {
    const fs::path path = folder / read_file_name(field["log"]);
    auto rows = read_collective_log(graph::read_text_file(path), path.string());
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

}  // namespace

std::shared_ptr<const CollectiveModel> load_collective_model(const fs::path& file) {
    const graph::JsonFile json(graph::read_text_file(file), file.string());
    const JsonField root = json.root();
    root.allow_only(
        {"format", "version", "name", "summary", "tables", "fitted", "tuning", "source"});
    if (root["format"].text({"\"partita-collectives\""}) != "partita-collectives") {
        root["format"].fail({"\"partita-collectives\""});
    }
    static_cast<void>(root["version"].integer(
        1, 1, {"version 1", "Use a release of Partita that knows this version."}));
    const std::string name = root["name"].text({"a name"}, 200);
    const fs::path folder = file.parent_path().parent_path();

    Models formulas;
    if (root["tuning"].present()) {
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
                read_log(field, folder), field["log"].text({"the name of a file"}), formula));
        }
    }
    models.insert(models.end(), formulas.begin(), formulas.end());
    return std::make_shared<FirstCollectiveMatch>(std::move(models));
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
    const fs::path file = data_folder() / "collectives" / "models" / (model + ".json");
    if (!fs::exists(file)) {
        throw InputError(fmt::format(
            "machine '{}': collectives.model: no file {}. Correct the name, or leave it out.",
            machine.name(), file.string()));
    }
    return load_collective_model(file);
}

}  // namespace partita::cost
