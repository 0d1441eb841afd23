# Every external package, found once. All come from the distribution (CUDA and NCCL
# from the toolkit); cmake/install_dependencies.sh installs them. docs/architecture.md
# says why each was chosen.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)

# oneDNN: found by file, since its CMake package asks for OpenCL headers that neither it
# nor we need here.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(DNNL_LIBRARY dnnl)
if(NOT DNNL_INCLUDE_DIR OR NOT DNNL_LIBRARY)
  message(FATAL_ERROR "oneDNN not found: install libdnnl-dev")
endif()
add_library(Trireme::dnnl UNKNOWN IMPORTED)
set_target_properties(Trireme::dnnl PROPERTIES
  IMPORTED_LOCATION "${DNNL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}")

find_package(tomlplusplus REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(pugixml REQUIRED)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED)
if(TRIREME_TESTS)
  find_package(GTest REQUIRED)
endif()

# trireme_feature(<FEATURE> <found>): resolves AUTO, sets TRIREME_HAVE_<FEATURE>.
function(trireme_feature feature found)
  if(TRIREME_${feature} STREQUAL "OFF")
    set(have FALSE)
  elseif(found)
    set(have TRUE)
  elseif(TRIREME_${feature} STREQUAL "ON")
    message(FATAL_ERROR "TRIREME_${feature}=ON, but its files were not found. Install them or set it to AUTO or OFF.")
  else()
    set(have FALSE)
  endif()
  set(TRIREME_HAVE_${feature} ${have} PARENT_SCOPE)
  message(STATUS "Trireme: ${feature} ${TRIREME_${feature}} -> ${have}")
endfunction()

# CUDA: the runtime's headers and its static library, so that one binary runs with and
# without a driver.
find_package(CUDAToolkit QUIET)
trireme_feature(CUDA "${CUDAToolkit_FOUND}")

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
set(nccl_found FALSE)
if(NCCL_INCLUDE_DIR AND TRIREME_HAVE_CUDA)
  set(nccl_found TRUE)
endif()
trireme_feature(NCCL ${nccl_found})

pkg_check_modules(ibverbs QUIET IMPORTED_TARGET libibverbs)
trireme_feature(VERBS "${ibverbs_FOUND}")

# MPI is used by a loadable adapter only; nothing else links it.
find_package(MPI QUIET COMPONENTS C)
trireme_feature(MPI "${MPI_C_FOUND}")
