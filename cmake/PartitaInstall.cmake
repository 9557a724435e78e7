# SPDX-License-Identifier: Apache-2.0
#
# What `cmake --install` adds to program and library:
#
#     include/partita/          the public headers, and the three of base/ and graph/ that they show
#     lib/cmake/partita/        find_package(partita) gives the target partita::partita
#     share/partita/            machine presets and calibration tables
include(CMakePackageConfigHelpers)

install(DIRECTORY include/partita DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
    FILES_MATCHING PATTERN "*.h")
# They include nothing but the standard library, and are found relative to who includes them.
install(FILES base/error.h base/units.h
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/partita/base")
install(FILES graph/dtype.h
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/partita/graph")

set(package "${CMAKE_INSTALL_LIBDIR}/cmake/partita")
install(EXPORT partita-targets NAMESPACE partita:: DESTINATION "${package}")
configure_package_config_file(cmake/partita-config.cmake.in
    "${PROJECT_BINARY_DIR}/partita-config.cmake" INSTALL_DESTINATION "${package}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/partita-config-version.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/partita-config.cmake"
    "${PROJECT_BINARY_DIR}/partita-config-version.cmake"
    DESTINATION "${package}")

install(DIRECTORY data/ DESTINATION "${CMAKE_INSTALL_DATADIR}/partita" OPTIONAL)
