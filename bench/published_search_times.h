// SPDX-License-Identifier: Apache-2.0
//
// Seconds that published searches took: FlexFlow's end to end, mean of ten random starts (Jia,
// Zaharia, Aiken, MLSys 2019, table 5; REFERENCES.md 6.7), and OptCNN's.
#pragma once

#include <array>
#include <string_view>

namespace partita::bench {

struct PublishedSearchTime {
    double full = 0;   ///< simulating everything after each proposal
    double delta = 0;  ///< what changed alone
};

struct PublishedSearchTimes {
    std::string_view network;  ///< ours
    std::string_view theirs;
    std::array<PublishedSearchTime, 5> seconds;  ///< on 4, 8, 16, 32, 64 GPUs
};

inline constexpr std::array kPublishedDevices = {4, 8, 16, 32, 64};

inline constexpr std::array kPublishedSearchTimes = {
    PublishedSearchTimes{
        "alexnet", "AlexNet", {{{0.11, 0.04}, {0.40, 0.13}, {1.4, 0.48}, {5.3, 1.8}, {18, 5.9}}}},
    PublishedSearchTimes{"inception-v3",
                         "Inception-v3",
                         {{{14, 4.1}, {66, 17}, {388, 77}, {1'746, 298}, {8'817, 1'278}}}},
    PublishedSearchTimes{
        "resnet-50", "ResNet-101", {{{1.4, 0.4}, {4.5, 1.4}, {22, 7.3}, {107, 33}, {515, 158}}}},
    PublishedSearchTimes{
        "language-model", "RNNLM", {{{21, 9.2}, {76, 31}, {327, 121}, {1'102, 342}, {3'406, 969}}}},
    PublishedSearchTimes{
        "translator", "NMT", {{{40, 16}, {178, 65}, {998, 328}, {2'698, 701}, {8'982, 2'190}}}},
};

/// Seconds that OptCNN's elimination and a depth-first search took on 4 GPUs: Jia, Lin, Qi, Aiken,
/// ICML 2018 (REFERENCES.md 6.9); its batch is 32 a GPU. None: more than a day.
struct PublishedElimination {
    std::string_view network;
    double elimination = 0;
    std::string_view depth_first;
};

inline constexpr std::array kPublishedEliminations = {
    PublishedElimination{"lenet-5", 0.01, "5.6 s"},
    PublishedElimination{"alexnet", 0.02, "2.1 h"},
    PublishedElimination{"vgg-16", 0.1, "> 24 h"},
    PublishedElimination{"inception-v3", 0.4, "> 24 h"},
};

}  // namespace partita::bench
