// SPDX-License-Identifier: Apache-2.0
#include "rl/learning_curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace partita::rl {

namespace {

constexpr double kLeft = 80;
constexpr double kRight = 680;
constexpr double kTop = 40;
constexpr double kBottom = 410;
constexpr double kMilli = 1e3;
constexpr std::size_t kMostPoints = 600;

std::string number(double value, int digits = 6) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.*g", digits, value);
    return text.data();
}

/// Empty where nothing is known.
std::string milliseconds(double seconds) {
    return seconds > 0 ? number(seconds * kMilli, 9) : std::string();
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        switch (c) {
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '&': out += "&amp;"; break;
        default: out += c;
        }
    }
    return out;
}

/// From data to the picture.
struct Frame {
    double samples = 1;
    double low = 0;   ///< s
    double high = 1;  ///< s

    [[nodiscard]] double x(std::int64_t at) const {
        return kLeft + (kRight - kLeft) * static_cast<double>(at) / samples;
    }
    [[nodiscard]] double y(double value) const {
        const double share = (std::clamp(value, low, high) - low) / (high - low);
        return kBottom - (kBottom - kTop) * share;
    }
};

/// All of the best values, references and the latter half of the means; early means may be far
/// above.
Frame frame_of(const LearningCurve& curve) {
    double low = std::numeric_limits<double>::max();
    double high = 0;
    const auto see = [&](double value) {
        if (value <= 0) return;
        low = std::min(low, value);
        high = std::max(high, value);
    };
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
        see(curve.points[i].best);
        if (2 * i >= curve.points.size()) see(curve.points[i].mean);
    }
    const double worst_learned = high;
    for (const CurveReference& of : curve.references) {
        if (of.value < 3 * worst_learned) see(of.value);
    }
    if (high <= 0) return {};
    const double margin = std::max(high - low, high * 1e-3) * 0.08;
    Frame frame{.low = std::max(0.0, low - margin), .high = high + margin};
    frame.samples = static_cast<double>(std::max<std::int64_t>(1, curve.points.back().samples));
    return frame;
}

template <class Value>
std::string line(const LearningCurve& curve, const Frame& frame, const char* style, Value value) {
    std::string points;
    const std::size_t step = curve.points.size() / kMostPoints + 1;
    for (std::size_t i = 0; i < curve.points.size(); i += step) {
        const double of = value(curve.points[i]);
        if (of <= 0) continue;
        points += number(frame.x(curve.points[i].samples), 5) + "," + number(frame.y(of), 5) + " ";
    }
    return "<polyline fill=\"none\" " + std::string(style) + " points=\"" + points + "\"/>\n";
}

std::string text(double x, double y, const std::string& words, const char* style) {
    return "<text x=\"" + number(x, 5) + "\" y=\"" + number(y, 5) + "\" " + style + ">" +
           escaped(words) + "</text>\n";
}

std::string axes(const Frame& frame) {
    std::string out;
    constexpr int kTicks = 5;
    for (int i = 0; i <= kTicks; ++i) {
        const double share = static_cast<double>(i) / kTicks;
        const double value = frame.low + (frame.high - frame.low) * share;
        const double y = frame.y(value);
        out += "<line x1=\"" + number(kLeft) + "\" x2=\"" + number(kRight) + "\" y1=\"" +
               number(y, 5) + "\" y2=\"" + number(y, 5) + "\" stroke=\"#e5e7eb\"/>\n";
        out += text(kLeft - 8, y + 4, number(value * kMilli, 4), "text-anchor=\"end\"");
        const auto samples = std::llround(frame.samples * share);
        out += text(kLeft + (kRight - kLeft) * share, kBottom + 18, std::to_string(samples),
                    "text-anchor=\"middle\"");
    }
    out += text(kLeft - 8, kTop - 12, "ms", "text-anchor=\"end\"");
    out += text(kRight, kBottom + 38, "placements", "text-anchor=\"end\"");
    return out;
}

/// Names at the right, kept apart.
std::string reference_lines(const LearningCurve& curve, const Frame& frame) {
    std::string out;
    std::vector<CurveReference> references = curve.references;
    std::ranges::stable_sort(references, std::ranges::greater{}, &CurveReference::value);
    constexpr double kLine = 14;
    double lowest = kTop - kLine;
    for (const CurveReference& of : references) {
        const double y = frame.y(of.value);
        out += "<line x1=\"" + number(kLeft) + "\" x2=\"" + number(kRight) + "\" y1=\"" +
               number(y, 5) + "\" y2=\"" + number(y, 5) +
               "\" stroke=\"#9ca3af\" stroke-dasharray=\"5 4\"/>\n";
        lowest = std::max(y + 4, lowest + kLine);
        const char* const beyond = of.value > frame.high ? " (above)" : "";
        out += text(kRight + 8, lowest, of.name + "  " + number(of.value * kMilli, 5) + beyond,
                    "fill=\"#4b5563\"");
    }
    return out;
}

std::string legend() {
    const auto entry = [](double x, const char* colour, const char* name) {
        return "<line x1=\"" + number(x) + "\" x2=\"" + number(x + 22) +
               "\" y1=\"444\" y2=\"444\" stroke-width=\"2\" stroke=\"" + colour + "\"/>\n" +
               text(x + 28, 448, name, "");
    };
    return entry(100, "#2563eb", "best so far") + entry(230, "#f59e0b", "mean of a batch") +
           entry(390, "#10b981", "expected");
}

}  // namespace

std::string to_csv(const LearningCurve& curve) {
    std::string csv = "samples,seconds,best_ms,mean_ms,baseline_ms,entropy\n";
    for (const CurvePoint& point : curve.points) {
        csv += std::to_string(point.samples) + "," + number(point.seconds) + "," +
               milliseconds(point.best) + "," + milliseconds(point.mean) + "," +
               milliseconds(point.baseline) + "," + number(point.entropy) + "\n";
    }
    return csv;
}

std::string to_svg(const LearningCurve& curve, const std::string& title) {
    const Frame frame = curve.points.empty() ? Frame{} : frame_of(curve);
    std::string svg =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"860\" height=\"460\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n";
    svg += text(kLeft, 20, title, "font-weight=\"bold\"");
    svg += axes(frame) + reference_lines(curve, frame);
    svg += line(curve, frame, "stroke=\"#f59e0b\" stroke-width=\"1\"",
                [](const CurvePoint& point) { return point.mean; });
    svg += line(curve, frame, "stroke=\"#10b981\" stroke-width=\"1.5\"",
                [](const CurvePoint& point) { return point.baseline; });
    svg += line(curve, frame, "stroke=\"#2563eb\" stroke-width=\"2\"",
                [](const CurvePoint& point) { return point.best; });
    return svg + legend() + "</svg>\n";
}

}  // namespace partita::rl
