# SPDX-License-Identifier: Apache-2.0
#
# Everything from outside. Targets that folders may LINK:
#
#     Boost::headers  nlohmann_json::nlohmann_json  SQLite::SQLite3  fmt::fmt  CLI11::CLI11
#     OpenSSL::Crypto            SHA-256
#     PkgConfig::LibZip          numpy's archives
#     ONNX::onnx                 the ONNX library; linked into libpartita and nowhere else
#     partita_onnx_headers       ONNX's headers without its library, for tests that use its messages
#     CUDA::cudart               only with PARTITA_CUDA
#     HiGHS::headers             only if HiGHS was found and PARTITA_HIGHS is on; without it `exact` does
#                                without (FindHiGHS.cmake)
#     LibTorch::LibTorch         only if it was found; without it there is no runtime (FindLibTorch.cmake)

if(DEFINED ENV{PARTITA_CACHE})
    set(default_cache "$ENV{PARTITA_CACHE}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
    set(default_cache "$ENV{XDG_CACHE_HOME}/partita")
else()
    set(default_cache "$ENV{HOME}/.cache/partita")
endif()
set(PARTITA_CACHE "${default_cache}" CACHE PATH "Where scripts/setup keeps what it built")
set(PARTITA_NODE_TESTS "${PARTITA_CACHE}/onnx-node-tests-1.23.2"
    CACHE PATH "The ONNX conformance node tests")

find_program(CCACHE ccache)
mark_as_advanced(CCACHE)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    # Paths below the repository are hashed as relative ones: a fresh clone finds what another clone
    # of the same sources has compiled.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}"
        "CCACHE_SLOPPINESS=pch_defines,time_macros" "${CCACHE}")
endif()
if(CCACHE AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    # The sanitizer presets: their debug information names sources relative to the build folder.
    list(INSERT CMAKE_CXX_COMPILER_LAUNCHER 3 CCACHE_NOHASHDIR=1)
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(Protobuf REQUIRED)  # before ONNX, whose targets name protobuf::libprotobuf
find_package(nlohmann_json 3.11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(OpenSSL 1.1.1 REQUIRED COMPONENTS Crypto)
find_package(PkgConfig REQUIRED)
pkg_check_modules(LibZip REQUIRED IMPORTED_TARGET libzip>=1.7)  # its own files for CMake want its tools

# PATHS come last: a system ONNX, or one in CMAKE_PREFIX_PATH, wins over the one of scripts/setup.
find_package(ONNX 1.23 CONFIG QUIET PATHS "${PARTITA_CACHE}/onnx-1.23.2")
if(NOT ONNX_FOUND)
    message(FATAL_ERROR "No ONNX C++ library >= 1.23 in the system or in ${PARTITA_CACHE}. "
        "Run scripts/setup, which builds it once.")
endif()
message(STATUS "ONNX ${ONNX_VERSION}: ${ONNX_DIR}")

# A second copy of ONNX's messages in one process would register them twice and abort.
add_library(partita_onnx_headers INTERFACE)
target_include_directories(partita_onnx_headers SYSTEM INTERFACE
    "$<TARGET_PROPERTY:ONNX::onnx,INTERFACE_INCLUDE_DIRECTORIES>")
target_compile_definitions(partita_onnx_headers INTERFACE
    "$<TARGET_PROPERTY:ONNX::onnx,INTERFACE_COMPILE_DEFINITIONS>")
target_link_libraries(partita_onnx_headers INTERFACE protobuf::libprotobuf)

find_package(LibTorch 2.11 QUIET)
if(LibTorch_FOUND)
    message(STATUS "LibTorch ${LibTorch_VERSION}: ${LibTorch_LIBRARY_DIR}")
else()
    message(STATUS "No LibTorch >= 2.11: the program plans, but cannot execute. Run scripts/setup, "
        "or name one in CMAKE_PREFIX_PATH.")
endif()

# The callbacks of its C interface are as we use them from 1.11 on.
if(PARTITA_HIGHS)
    find_package(HiGHS 1.11 QUIET)
    if(HiGHS_FOUND)
        message(STATUS "HiGHS ${HiGHS_VERSION}: ${HiGHS_LIBRARY}")
    else()
        message(STATUS "No HiGHS >= 1.11: the searcher exact does without it. Run scripts/setup, or "
            "name one in CMAKE_PREFIX_PATH.")
    endif()
endif()

if(PARTITA_CUDA)
    find_package(CUDAToolkit REQUIRED)
    find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
    find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
    mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
    if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
        add_library(NCCL::NCCL INTERFACE IMPORTED)
        set_target_properties(NCCL::NCCL PROPERTIES
            INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}"
            INTERFACE_LINK_LIBRARIES "${NCCL_LIBRARY};CUDA::cudart")
    endif()
endif()

set(MPI_CXX_SKIP_MPICXX ON)  # we use the C interface
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_FOUND)
    message(STATUS "No MPI: several processes only by torchrun, and slowly. Run scripts/setup.")
endif()

if(PARTITA_BUILD_TESTS)
    find_package(GTest REQUIRED)
    find_package(rapidcheck CONFIG REQUIRED)
endif()
if(PARTITA_BUILD_BENCH)
    find_package(benchmark 1.7 REQUIRED)
endif()
