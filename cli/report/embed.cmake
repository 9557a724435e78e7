# SPDX-License-Identifier: Apache-2.0
#
# Turns a text file into a C++ source that holds it, so that the program needs no file at run time:
#
#     cmake -DINPUT=report.html -DOUTPUT=report_html.cpp -P embed.cmake
#
# A string literal may hold 64 KiB portably, so the text is cut into lines, which the compiler joins.
file(READ "${INPUT}" text)
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}" "// Made by embed.cmake from report.html.
#include \"cli/report/report_html.h\"

namespace partita::cli {
const std::string_view kReportHtml =
    \"${text}\";
}  // namespace partita::cli
")
