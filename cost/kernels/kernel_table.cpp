// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels/kernel_table.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/sha256.h"
#include "graph/dtype.h"

namespace partita::cost {

namespace {

constexpr std::array kFamilies = {
    std::pair{KernelFamily::product, std::string_view("product")},
    std::pair{KernelFamily::batched_product, std::string_view("batched-product")},
    std::pair{KernelFamily::convolution, std::string_view("convolution")},
    std::pair{KernelFamily::attention, std::string_view("attention")},
    std::pair{KernelFamily::pointwise, std::string_view("pointwise")},
    std::pair{KernelFamily::activation, std::string_view("activation")},
    std::pair{KernelFamily::softmax, std::string_view("softmax")},
    std::pair{KernelFamily::normalization, std::string_view("normalization")},
    std::pair{KernelFamily::reduction, std::string_view("reduction")},
    std::pair{KernelFamily::transpose, std::string_view("transpose")},
    std::pair{KernelFamily::lookup, std::string_view("lookup")},
    std::pair{KernelFamily::update, std::string_view("update")}};

/// By operator, sorted. What is not here has no table: its kernels were not measured.
constexpr std::array kOperators = {
    std::pair{std::string_view("Abs"), KernelFamily::pointwise},
    std::pair{std::string_view("Accumulate"), KernelFamily::pointwise},
    std::pair{std::string_view("Add"), KernelFamily::pointwise},
    std::pair{std::string_view("Attention"), KernelFamily::attention},
    std::pair{std::string_view("Cast"), KernelFamily::pointwise},
    std::pair{std::string_view("Clip"), KernelFamily::pointwise},
    std::pair{std::string_view("Conv"), KernelFamily::convolution},
    std::pair{std::string_view("Div"), KernelFamily::pointwise},
    std::pair{std::string_view("Dropout"), KernelFamily::pointwise},
    std::pair{std::string_view("Elu"), KernelFamily::activation},
    std::pair{std::string_view("Erf"), KernelFamily::activation},
    std::pair{std::string_view("Exp"), KernelFamily::pointwise},
    std::pair{std::string_view("Gather"), KernelFamily::lookup},
    std::pair{std::string_view("Gelu"), KernelFamily::activation},
    std::pair{std::string_view("Gemm"), KernelFamily::product},
    std::pair{std::string_view("HardSwish"), KernelFamily::activation},
    std::pair{std::string_view("LayerNormalization"), KernelFamily::normalization},
    std::pair{std::string_view("LeakyRelu"), KernelFamily::pointwise},
    std::pair{std::string_view("Linear"), KernelFamily::product},
    std::pair{std::string_view("Log"), KernelFamily::pointwise},
    std::pair{std::string_view("LogSoftmax"), KernelFamily::softmax},
    std::pair{std::string_view("Loss"), KernelFamily::softmax},
    std::pair{std::string_view("MatMul"), KernelFamily::product},
    std::pair{std::string_view("Max"), KernelFamily::pointwise},
    std::pair{std::string_view("Min"), KernelFamily::pointwise},
    std::pair{std::string_view("Mul"), KernelFamily::pointwise},
    std::pair{std::string_view("Neg"), KernelFamily::pointwise},
    std::pair{std::string_view("Pack"), KernelFamily::pointwise},
    std::pair{std::string_view("Pointwise"), KernelFamily::pointwise},
    std::pair{std::string_view("Pow"), KernelFamily::pointwise},
    std::pair{std::string_view("RMSNormalization"), KernelFamily::normalization},
    std::pair{std::string_view("Reciprocal"), KernelFamily::pointwise},
    std::pair{std::string_view("ReduceLogSumExp"), KernelFamily::softmax},
    std::pair{std::string_view("ReduceMean"), KernelFamily::reduction},
    std::pair{std::string_view("ReduceSum"), KernelFamily::reduction},
    std::pair{std::string_view("Relu"), KernelFamily::pointwise},
    std::pair{std::string_view("Sigmoid"), KernelFamily::activation},
    std::pair{std::string_view("Softmax"), KernelFamily::softmax},
    std::pair{std::string_view("Sqrt"), KernelFamily::pointwise},
    std::pair{std::string_view("Sub"), KernelFamily::pointwise},
    std::pair{std::string_view("SwiGLU"), KernelFamily::activation},
    std::pair{std::string_view("Swish"), KernelFamily::activation},
    std::pair{std::string_view("Tanh"), KernelFamily::pointwise},
    std::pair{std::string_view("Transpose"), KernelFamily::transpose},
    std::pair{std::string_view("Update"), KernelFamily::update},
    std::pair{std::string_view("Where"), KernelFamily::pointwise}};
static_assert(std::ranges::is_sorted(kOperators, {}, &decltype(kOperators)::value_type::first));

constexpr std::string_view kFormat = "partita-kernels";

KernelFamily read_family(const JsonField& field) {
    const std::string name = field.text({"a family of kernels"});
    const auto* const found =
        std::ranges::find(kFamilies, name, [](const auto& each) { return each.second; });
    if (found == kFamilies.end()) field.fail({"a family such as product or pointwise"});
    return found->first;
}

std::string read_type(const JsonField& field) {
    std::string name = field.text({"an element type, or tf32"});
    if (!graph::product_type_from_name(name) && !graph::dtype_from_name(name)) {
        field.fail({"an element type, or tf32", "Write e.g. bfloat16."});
    }
    return name;
}

KernelCurve read_curve(const JsonField& field) {
    constexpr std::int64_t kMostStart = 1'000'000'000;
    // A thousand picoseconds stand above what rounding may take from the sum of parts.
    constexpr std::int64_t kLeastStart = 1'000;
    const auto share = [&](std::string_view name) {
        if (!field[name].present()) return 1.0;
        return field[name].number(std::numeric_limits<double>::min(), 1.0,
                                  {"a share > 0 and <= 1", "Write e.g. 0.7."});
    };
    return {.start = Time(field["start_ps"].integer(kLeastStart, kMostStart,
                                                    {"picoseconds from 1000 to 10^9"})),
            .compute = share("compute"),
            .memory = share("memory"),
            .error = field["error"].number(0.0, 100.0, {"a mean relative error"})};
}

int read_row_bytes(const JsonField& field) {
    if (!field.present()) return graph::kWideRow;
    const std::int64_t bytes = field.integer(1, graph::kWideRow / 2, {"1, 2, 4 or 8 bytes"});
    if (!std::has_single_bit(static_cast<std::uint64_t>(bytes))) {
        field.fail({"1, 2, 4 or 8 bytes", "Leave it out where rows are aligned."});
    }
    return static_cast<int>(bytes);
}

std::string_view name_of_type(graph::DType dtype, graph::ProductType product) {
    return product == graph::ProductType::as_stored ? graph::name_of(dtype)
                                                    : graph::name_of(product);
}

std::string_view other_of_16_bits(std::string_view type) {
    if (type == "bfloat16") return "float16";
    if (type == "float16") return "bfloat16";
    return {};
}

}  // namespace

std::optional<KernelFamily> kernel_family_of(std::string_view type, bool batched) {
    const auto* const found =
        std::ranges::lower_bound(kOperators, type, {}, &decltype(kOperators)::value_type::first);
    if (found == kOperators.end() || found->first != type) return std::nullopt;
    if (found->second == KernelFamily::product && batched) return KernelFamily::batched_product;
    return found->second;
}

Time KernelCurve::time(Time flops_time, Time bytes_time) const {
    const double flops = static_cast<double>(flops_time.raw()) / compute;
    const double bytes = static_cast<double>(bytes_time.raw()) / memory;
    const double both = std::ceil(std::sqrt(flops * flops + bytes * bytes));
    constexpr double kMost = 9.2e18;
    if (!(both < kMost)) throw OverflowError("a time is out of range");
    return start + Time(static_cast<std::int64_t>(both));
}

const KernelCurve* KernelTable::exactly(KernelFamily family, bool backward, std::string_view type,
                                        int row_bytes) const {
    const auto curve = [&](int bytes) -> const KernelCurve* {
        const auto found = curves_.find(std::tuple(family, backward, type, bytes));
        return found == curves_.end() ? nullptr : &found->second;
    };
    if (row_bytes != graph::kWideRow) {
        for (int bytes = row_bytes; bytes > 0; bytes /= 2) {
            if (const KernelCurve* const own = curve(bytes)) return own;
        }
    }
    return curve(graph::kWideRow);
}

const KernelCurve* KernelTable::find(KernelFamily family, bool backward, graph::DType dtype,
                                     graph::ProductType product, int row_bytes) const {
    const std::string_view type = name_of_type(dtype, product);
    for (const std::string_view each : {type, other_of_16_bits(type)}) {
        if (const KernelCurve* curve = exactly(family, backward, each, row_bytes)) return curve;
    }
    return backward ? find(family, /*backward=*/false, dtype, product, row_bytes) : nullptr;
}

std::shared_ptr<const KernelTable> read_kernel_table(const std::filesystem::path& path) {
    const std::string text = read_text_file(path);
    const JsonFile file(text, path.string());
    const JsonField root = file.root();
    root.allow_only({"format", "version", "name", "summary", "kernels"});
    if (root["format"].text({"\"partita-kernels\""}) != kFormat) {
        root["format"].fail({"\"partita-kernels\""});
    }
    static_cast<void>(root["version"].integer(
        1, 1, {"version 1", "Use a release of Partita that knows this version."}));
    auto table = std::make_shared<KernelTable>();
    table->name_ = root["name"].text({"a name"}, 200);
    // Machine files and plans name the table, and it is found by its file's name.
    if (table->name_ != path.stem().string()) root["name"].fail({"the file's name without .json"});
    Sha256 content;
    constexpr std::size_t kDigits = 16;
    table->digest_ = content.add(text).finish().substr(0, kDigits);
    for (const JsonField& field : root["kernels"].items()) {
        field.allow_only({"family", "phase", "types", "row_bytes", "start_ps", "compute", "memory",
                          "error", "rows", "source"});
        const KernelFamily family = read_family(field["family"]);
        const std::string phase = field["phase"].text({"\"forward\" or \"backward\""});
        if (phase != "forward" && phase != "backward") {
            field["phase"].fail({"\"forward\" or \"backward\""});
        }
        const KernelCurve curve = read_curve(field);
        const int row_bytes = read_row_bytes(field["row_bytes"]);
        for (const JsonField& type : field["types"].items()) {
            const bool added = table->curves_
                                   .emplace(KernelTable::Key(family, phase == "backward",
                                                             read_type(type), row_bytes),
                                            curve)
                                   .second;
            if (!added) type.reject("has a curve of that family already.");
        }
    }
    return table;
}

}  // namespace partita::cost
