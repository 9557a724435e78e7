# SPDX-License-Identifier: Apache-2.0
#
# Puts the report page into one C++ source, so that the program needs no file at run time:
#
#     cmake -DINPUT=report.html -DOUTPUT=report_html.cpp -P embed.cmake
#
# Scripts and styles that the page names are put in their place. A string literal may portably hold
# 64 KiB, so the text is cut into lines, which the compiler joins.
get_filename_component(folder "${INPUT}" DIRECTORY)
file(READ "${INPUT}" text)
foreach(part IN LISTS PARTS)
    file(READ "${folder}/${part}" content)
    string(REPLACE "<script src=\"${part}\"></script>" "<script>\n${content}</script>"
        text "${text}")
    string(REPLACE "<link rel=\"stylesheet\" href=\"${part}\">" "<style>\n${content}</style>"
        text "${text}")
endforeach()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE "${OUTPUT}" "// Made by embed.cmake from report.html.
#include \"api/report/report_html.h\"

namespace partita::api {
const std::string_view kReportHtml =
    \"${text}\";
}  // namespace partita::api
")
