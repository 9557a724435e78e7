// SPDX-License-Identifier: Apache-2.0
#include "base/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <span>
#include <string>

namespace partita {

namespace {

constexpr std::int64_t kMostFigure = 1'000'000'000'000'000'000;

struct Unit {
    std::string_view text;
    double size;  ///< in the base unit
};
constexpr std::array<Unit, 10> kPrefixes{{{"Ki", 0x1p10},
                                          {"Mi", 0x1p20},
                                          {"Gi", 0x1p30},
                                          {"Ti", 0x1p40},
                                          {"k", 1e3},
                                          {"K", 1e3},
                                          {"M", 1e6},
                                          {"G", 1e9},
                                          {"T", 1e12},
                                          {"P", 1e15}}};
constexpr std::array<Unit, 5> kTimes{
    {{"s", 1e12}, {"ms", 1e9}, {"us", 1e6}, {"ns", 1e3}, {"ps", 1}}};
constexpr std::array<Unit, 1> kBytes{{{"B", 1}}};
constexpr std::array<Unit, 3> kRates{{{"B/s", 1}, {"b/s", 0.125}, {"bit/s", 0.125}}};
constexpr std::array<Unit, 2> kFlops{{{"FLOP/s", 1}, {"FLOPS", 1}}};
constexpr std::array<Unit, 1> kPrices{{{"", 1e6}}};

std::span<const Unit> units_of(FigureKind kind) {
    switch (kind) {
    case FigureKind::bytes: return kBytes;
    case FigureKind::bytes_per_second: return kRates;
    case FigureKind::flops: return kFlops;
    case FigureKind::time: return kTimes;
    case FigureKind::price: return kPrices;
    }
    std::abort();
}

}  // namespace

std::optional<std::int64_t> parse_figure(std::string_view text, FigureKind kind) {
    const std::string with_end(text);
    char* rest = nullptr;
    const double number = std::strtod(with_end.c_str(), &rest);
    if (rest == with_end.c_str()) return std::nullopt;
    std::string_view unit(rest);
    unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
    if (number == 0 && unit.empty()) return 0;  // of any unit
    double size = 1;
    if (kind != FigureKind::time && kind != FigureKind::price) {
        for (const Unit& prefix : kPrefixes) {
            if (!unit.starts_with(prefix.text)) continue;
            size = prefix.size;
            unit.remove_prefix(prefix.text.size());
            break;
        }
    }
    const auto units = units_of(kind);
    const auto known = std::ranges::find(units, unit, &Unit::text);
    if (known == units.end()) return std::nullopt;
    const double value = number * size * known->size;
    if (!(value >= 0 && value <= static_cast<double>(kMostFigure))) return std::nullopt;
    return std::llround(value);
}

}  // namespace partita
