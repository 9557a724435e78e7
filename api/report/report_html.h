// SPDX-License-Identifier: Apache-2.0
//
// The text of report.html, which the build embeds (embed.cmake).
#pragma once

#include <string_view>

namespace partita::api {

/// Holds the marker @PARTITA_DATA@ once, where the data goes as JSON.
extern const std::string_view kReportHtml;

}  // namespace partita::api
