# SPDX-License-Identifier: Apache-2.0
#
# LibTorch without its own CMake package, which demands a CUDA toolkit even where only the CPU half is
# used. Looks in CMAKE_PREFIX_PATH (a LibTorch archive, or the torch folder of a Python installation),
# then where scripts/setup puts it. Gives
#
#     LibTorch_FOUND, LibTorch_VERSION, LibTorch_LIBRARY_DIR
#     LibTorch::LibTorch         tensors, autograd, TCPStore
#     LibTorch::CUDA             the same with CUDA, where libtorch_cuda is there and PARTITA_CUDA is on
#
# Its include folder also holds fmt, protobuf and pybind11: nothing that links these targets may include
# the system's.
file(GLOB LibTorch_cached "${PARTITA_CACHE}/libtorch-2.11.0/lib/python3*/site-packages/torch")

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${LibTorch_cached} PATH_SUFFIXES include)
find_path(LibTorch_API_INCLUDE_DIR torch/torch.h
    PATHS ${LibTorch_cached} PATH_SUFFIXES include/torch/csrc/api/include)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_cached} PATH_SUFFIXES lib)
find_library(LibTorch_C10_LIBRARY c10 PATHS ${LibTorch_cached} PATH_SUFFIXES lib)
find_library(LibTorch_CUDA_LIBRARY torch_cuda PATHS ${LibTorch_cached} PATH_SUFFIXES lib)
find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda PATHS ${LibTorch_cached} PATH_SUFFIXES lib)
mark_as_advanced(LibTorch_INCLUDE_DIR LibTorch_API_INCLUDE_DIR LibTorch_CPU_LIBRARY
    LibTorch_C10_LIBRARY LibTorch_CUDA_LIBRARY LibTorch_C10_CUDA_LIBRARY)

if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
    file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" lines
        REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^;]* ([0-9]+)" "\\1" lines "${lines}")
    list(JOIN lines "." LibTorch_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
    REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
        LibTorch_API_INCLUDE_DIR
    VERSION_VAR LibTorch_VERSION)

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
    get_filename_component(LibTorch_LIBRARY_DIR "${LibTorch_CPU_LIBRARY}" DIRECTORY)
    add_library(LibTorch::LibTorch INTERFACE IMPORTED)
    set_target_properties(LibTorch::LibTorch PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIR};${LibTorch_API_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES "${LibTorch_CPU_LIBRARY};${LibTorch_C10_LIBRARY}")
    if(LibTorch_CUDA_LIBRARY AND LibTorch_C10_CUDA_LIBRARY)
        add_library(LibTorch::CUDA INTERFACE IMPORTED)
        set_target_properties(LibTorch::CUDA PROPERTIES
            INTERFACE_LINK_LIBRARIES
                "LibTorch::LibTorch;${LibTorch_CUDA_LIBRARY};${LibTorch_C10_CUDA_LIBRARY}")
    endif()
endif()
