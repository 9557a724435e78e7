# SPDX-License-Identifier: Apache-2.0
#
# The only ways to declare something to build:
#
#     partita_folder(graph SOURCES units.cpp ... LINK ...)      one folder of a shared library
#     partita_program(SOURCES main.cpp ... LINK ...)            build/<preset>/partita
#     partita_test(graph SOURCES units_test.cpp ... LINK ...)   build/<preset>/tests/graph_test
#     partita_bench(simulate SOURCES ... LINK ...)              build/<preset>/bench/simulate_bench
#     partita_fuzz(onnx SOURCES fuzz_onnx.cpp LINK ...)         build/<preset>/tests/onnx_fuzz
#
# Every list names its sources, and may be empty while a folder has none.

# How our own code is compiled; nothing else carries flags.
add_library(partita_flags INTERFACE)
target_include_directories(partita_flags INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(partita_flags INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
    # A designated initializer leaves the other fields at their defaults; that is its point.
    -Wno-missing-field-initializers
    $<$<BOOL:${PARTITA_WERROR}>:-Werror>
    # GCC 12 sees overlaps in every std::string concatenation (GCC bug 105651).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
    # The same where it inlines copies of strings and of small vectors (GCC bug 105329).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>
    # And reads of empty std::optional that a test in front of them rules out (GCC bug 80635).
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
    # In a unity build it takes sources for headers, whose classes others might define otherwise.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>
    # Clang's default: a function of the library may be inlined inside the library.
    -fno-semantic-interposition
    # Compiling needs a fifth more memory and a tenth less time where the compiler collects garbage rarely.
    $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-expand=200;--param=ggc-min-heapsize=1000000>)
# Counting bits is an instruction there, and a call without: what every processor since 2009 has.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    target_compile_options(partita_flags INTERFACE -march=x86-64-v2)
endif()
if(PARTITA_SANITIZE)
    target_compile_options(partita_flags INTERFACE
        "-fsanitize=${PARTITA_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer
        # GCC's sanitizers make these two see ghosts.
        "$<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow;-Wno-uninitialized>")
    target_link_options(partita_flags INTERFACE "-fsanitize=${PARTITA_SANITIZE}")
    target_sources(partita_flags INTERFACE
        "$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${CMAKE_CURRENT_LIST_DIR}/keep_modules.cpp>")
endif()
if(PARTITA_FUZZ)
    target_compile_options(partita_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Headers that nearly every file of a kind reads, compiled once: half of what a file takes is reading them. Sources
# include what they use all the same, and build without (-DPARTITA_PRECOMPILE=OFF).
set(standard_headers <algorithm> <array> <atomic> <bit> <cassert> <chrono> <cmath> <cstddef> <cstdint> <filesystem>
    <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string> <string_view> <tuple>
    <unordered_map> <utility> <variant> <vector> <boost/container/small_vector.hpp>)
set(format_headers <fmt/format.h> <fmt/ranges.h>)
set(test_headers <gmock/gmock.h> <gtest/gtest.h> <rapidcheck/gtest.h>)
set(torch_headers <ATen/ATen.h>)
# The program and the benchmarks read options and print, importers and api read and write files, runtime and rl call
# LibTorch; at -O3 that takes up to twice as long to compile and gains nothing.
set(light_options -O1)
# Optimizing GoogleTest and rapidcheck is a quarter of what a test takes to compile, and tests measure nothing.
set(test_options -O0)
if(PARTITA_SANITIZE)
    set(test_options -O1)  # what a sanitizer adds has to be optimized
endif()
function(partita_precompiled_headers kind)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK;OPTIONS")
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/headers/${kind}.cpp" CONTENT "")
    add_library(partita_headers_${kind} OBJECT EXCLUDE_FROM_ALL
        "${PROJECT_BINARY_DIR}/headers/${kind}.cpp")
    target_link_libraries(partita_headers_${kind} PRIVATE partita_flags ${arg_LINK})
    target_compile_options(partita_headers_${kind} PRIVATE ${arg_OPTIONS})
    target_precompile_headers(partita_headers_${kind} PRIVATE ${arg_HEADERS})
endfunction()
if(PARTITA_PRECOMPILE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ccache sees what a precompiled header was made of only so.
    target_compile_options(partita_flags INTERFACE -fpch-preprocess)
    partita_precompiled_headers(library HEADERS ${standard_headers} ${format_headers}
        LINK fmt::fmt Boost::headers)
    # Programs are compiled with -fPIE; options of a precompiled header are those of its users.
    partita_precompiled_headers(program
        HEADERS ${standard_headers} ${format_headers} <CLI/CLI.hpp> <nlohmann/json.hpp>
        LINK fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json OPTIONS ${light_options} -fPIE)
    partita_precompiled_headers(onnx HEADERS ${standard_headers} ${format_headers} <onnx/onnx_pb.h>
        LINK fmt::fmt partita_onnx_headers OPTIONS ${light_options})
    if(PARTITA_BUILD_TESTS)
        partita_precompiled_headers(test HEADERS ${standard_headers} ${test_headers}
            LINK GTest::gmock GTest::gtest_main rapidcheck OPTIONS ${test_options} -fPIE)
    endif()
    if(LibTorch_FOUND)
        partita_precompiled_headers(torch HEADERS ${standard_headers} ${torch_headers}
            LINK LibTorch::LibTorch OPTIONS ${light_options})
        if(PARTITA_BUILD_TESTS)
            partita_precompiled_headers(torch_test
                HEADERS ${standard_headers} ${test_headers} ${torch_headers}
                LINK GTest::gmock GTest::gtest_main rapidcheck LibTorch::LibTorch
                OPTIONS ${test_options} -fPIE)
        endif()
    endif()
endif()
# For a target of this kind, library, program or test, that links these.
function(partita_reuse_headers target kind)
    if("LibTorch::LibTorch" IN_LIST ARGN)
        string(REPLACE "library" "torch" kind "${kind}")
        string(REPLACE "test" "torch_test" kind "${kind}")
    elseif("ONNX::onnx" IN_LIST ARGN)
        string(REPLACE "library" "onnx" kind "${kind}")
    endif()
    if(kind STREQUAL "torch" OR kind STREQUAL "onnx")
        target_compile_options(${target} PRIVATE ${light_options})
    endif()
    if(TARGET partita_headers_${kind})
        target_precompile_headers(${target} REUSE_FROM partita_headers_${kind})
    endif()
endfunction()

# A unity build: sources of one folder are compiled as one, a few at a time, because most of what a file takes is reading
# headers that its neighbours read too. What two files of a folder define for themselves needs two names, therefore.
# Sources include what they use all the same, and build one by one (-DPARTITA_UNITY=OFF).
set(unity_size 16)
function(partita_unity target)
    if(NOT PARTITA_UNITY)
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    set(groups "")
    foreach(source IN LISTS sources)
        cmake_path(GET source PARENT_PATH folder)
        string(MAKE_C_IDENTIFIER "${target}_${folder}" group)
        list(APPEND groups ${group})
        list(APPEND sources_of_${group} "${source}")
    endforeach()
    list(REMOVE_DUPLICATES groups)
    foreach(group IN LISTS groups)
        set(count 0)
        foreach(source IN LISTS sources_of_${group})
            math(EXPR number "${count} / ${unity_size}")
            set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${number}")
            math(EXPR count "${count} + 1")
        endforeach()
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# Adds a folder of the repository, or passes over one that does not exist.
function(partita_add_folder folder)
    if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/CMakeLists.txt")
        add_subdirectory(${folder})
    endif()
endfunction()

# An object library from the sources, or from one empty file: CMake refuses a target without any.
function(partita_folder name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
    if(NOT arg_SOURCES)
        set(empty "${CMAKE_CURRENT_BINARY_DIR}/empty.cpp")
        file(CONFIGURE OUTPUT "${empty}" CONTENT "")
        set(arg_SOURCES "${empty}")
    endif()
    add_library(partita_${name} OBJECT ${arg_SOURCES})
    target_link_libraries(partita_${name} PUBLIC partita_flags ${arg_LINK})
    partita_reuse_headers(partita_${name} library ${arg_LINK})
    partita_unity(partita_${name})
endfunction()

# One shared library from the folders that exist, and LINK. What they link stays inside it; users of the target
# partita::<OUTPUT_NAME>, here or after an installation, see the public headers.
function(partita_shared_library target)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "FOLDERS;LINK")
    set(objects "")
    foreach(folder IN LISTS arg_FOLDERS)
        if(TARGET partita_${folder})
            list(APPEND objects partita_${folder})
        endif()
    endforeach()
    file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${target}.cpp" CONTENT "")
    add_library(${target} SHARED "${PROJECT_BINARY_DIR}/${target}.cpp")
    target_link_libraries(${target} PRIVATE partita_flags ${objects} ${arg_LINK} Threads::Threads)
    # Calls inside the library stay there. Otherwise a program that holds an inline function of ours too, compiled without
    # optimization, gives the library that one.
    target_link_options(${target} PRIVATE -Wl,-Bsymbolic-functions)
    # Whoever links the library must find every symbol in it: report a missing one here.
    if(NOT PARTITA_SANITIZE AND NOT PARTITA_FUZZ)
        target_link_options(${target} PRIVATE -Wl,--no-undefined)
    endif()
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${arg_OUTPUT_NAME}
        EXPORT_NAME ${arg_OUTPUT_NAME}
        VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    # In the source tree public headers find base/units.h and its like from the root; installed,
    # these lie beside them (cmake/PartitaInstall.cmake).
    target_include_directories(${target} INTERFACE
        "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include;${PROJECT_SOURCE_DIR}>"
        "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_compile_features(${target} INTERFACE cxx_std_20)
    add_library(partita::${arg_OUTPUT_NAME} ALIAS ${target})
    install(TARGETS ${target} EXPORT partita-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endfunction()

function(partita_program)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "SOURCES;LINK")
    if(NOT arg_SOURCES)
        return()
    endif()
    add_executable(partita ${arg_SOURCES})
    target_link_libraries(partita PRIVATE partita_lib partita_flags Threads::Threads ${arg_LINK})
    target_compile_options(partita PRIVATE ${light_options})
    partita_reuse_headers(partita program ${arg_LINK})
    partita_unity(partita)
    set_target_properties(partita PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
        INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
    install(TARGETS partita RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endfunction()

# How programs of tests are compiled that link these.
function(partita_compile_as_test target)
    target_link_libraries(${target} PRIVATE GTest::gmock rapidcheck)
    target_compile_options(${target} PRIVATE ${test_options})
    partita_reuse_headers(${target} test ${ARGN})
    partita_unity(${target})
endfunction()

# One test program per folder; ctest runs each of its suites as one test, with the folder as label.
# What is found in the repository or beside it: tests/support/paths.h.
function(partita_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
    if(NOT arg_SOURCES)
        return()
    endif()
    set(target ${name}_test)
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE partita_test_support partita_lib partita_flags Threads::Threads
        GTest::gtest_main ${arg_LINK})
    add_dependencies(${target} partita)
    partita_compile_as_test(${target} ${arg_LINK})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    partita_discover_suites(${target} ${name})
endfunction()

# What gtest_discover_tests does test by test.
function(partita_discover_suites target label)
    set(suites "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
    set(script "${PROJECT_SOURCE_DIR}/cmake/DiscoverSuites.cmake")
    add_custom_command(TARGET ${target} POST_BUILD BYPRODUCTS "${suites}"
        COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${target}>" "-DOUTPUT=${suites}"
            "-DLABEL=${label}" -P "${script}"
        VERBATIM)
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${script}")
    # ctest reads this one; until the program is built a test says so.
    set(included "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
    file(CONFIGURE OUTPUT "${included}" @ONLY CONTENT [[
if(EXISTS "@suites@")
    include("@suites@")
else()
    add_test(@target@_NOT_BUILT @target@_NOT_BUILT)
endif()
]])
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${included}")
endfunction()

function(partita_bench name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
    if(NOT arg_SOURCES)
        return()
    endif()
    set(target ${name}_bench)
    # Not of every build: who measures builds the target `benchmarks`.
    add_executable(${target} EXCLUDE_FROM_ALL ${arg_SOURCES})
    if(NOT TARGET benchmarks)
        add_custom_target(benchmarks)
    endif()
    add_dependencies(benchmarks ${target})
    target_link_libraries(${target} PRIVATE partita_lib partita_flags Threads::Threads
        partita_bench_paths benchmark::benchmark_main ${arg_LINK})
    # What is measured lies in the libraries.
    target_compile_options(${target} PRIVATE ${light_options})
    if(NOT "LibTorch::LibTorch" IN_LIST arg_LINK)
        partita_reuse_headers(${target} program ${arg_LINK})
    endif()
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
endfunction()

# A fuzz target: code with LLVMFuzzerTestOneInput(). The fuzz preset links it with libFuzzer; every
# other preset links a driver that replays the seeds in tests/fuzz/corpus/<name> as a test.
function(partita_fuzz name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
    if(NOT arg_SOURCES)
        return()
    endif()
    set(target ${name}_fuzz)
    add_executable(${target} ${arg_SOURCES})
    target_link_libraries(${target} PRIVATE partita_lib partita_flags Threads::Threads ${arg_LINK})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
    if(PARTITA_FUZZ)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
        partita_compile_as_test(${target} ${arg_LINK})
        if(NOT TARGET partita_fuzz_replay)
            add_library(partita_fuzz_replay OBJECT replay_main.cpp)
            target_link_libraries(partita_fuzz_replay PRIVATE partita_flags)
            target_compile_options(partita_fuzz_replay PRIVATE ${test_options} -fPIE)
        endif()
        target_link_libraries(${target} PRIVATE partita_fuzz_replay)
        add_test(NAME FuzzCorpus.${name}
            COMMAND ${target} "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${name}")
        set_tests_properties(FuzzCorpus.${name} PROPERTIES TIMEOUT 600 LABELS fuzz)
    endif()
endfunction()
