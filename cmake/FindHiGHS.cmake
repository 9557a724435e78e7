# SPDX-License-Identifier: Apache-2.0
#
# HiGHS, the MILP solver, by its C interface. Looks where CMake looks and in CMAKE_PREFIX_PATH, then where
# scripts/setup puts it. Gives
#
#     HiGHS_FOUND, HiGHS_VERSION
#     HiGHS_LIBRARY       the shared library: opened when it is first used (search/max_load/exact/highs.h), never linked
#     HiGHS::headers      its C header
find_path(HiGHS_INCLUDE_DIR interfaces/highs_c_api.h
    PATHS "${PARTITA_CACHE}/highs-1.15.1" PATH_SUFFIXES include/highs)
find_library(HiGHS_LIBRARY NAMES highs libhighs.so.1
    PATHS "${PARTITA_CACHE}/highs-1.15.1" PATH_SUFFIXES lib)
mark_as_advanced(HiGHS_INCLUDE_DIR HiGHS_LIBRARY)

if(HiGHS_INCLUDE_DIR AND EXISTS "${HiGHS_INCLUDE_DIR}/HConfig.h")
    file(STRINGS "${HiGHS_INCLUDE_DIR}/HConfig.h" lines
        REGEX "define HIGHS_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" lines "${lines}")
    list(JOIN lines "." HiGHS_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HiGHS
    REQUIRED_VARS HiGHS_LIBRARY HiGHS_INCLUDE_DIR VERSION_VAR HiGHS_VERSION)

if(HiGHS_FOUND AND NOT TARGET HiGHS::headers)
    add_library(HiGHS::headers INTERFACE IMPORTED)
    set_target_properties(HiGHS::headers PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${HiGHS_INCLUDE_DIR}")
endif()
