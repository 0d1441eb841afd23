# Options a user of the build sees. Each accelerator option is AUTO (built when found),
# ON (required) or OFF.
foreach(feature CUDA NCCL VERBS MPI)
  set(TRIREME_${feature} AUTO CACHE STRING "Build the ${feature} code: AUTO, ON or OFF")
  set_property(CACHE TRIREME_${feature} PROPERTY STRINGS AUTO ON OFF)
  if(NOT TRIREME_${feature} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "TRIREME_${feature}=${TRIREME_${feature}}: expected AUTO, ON or OFF")
  endif()
endforeach()
option(TRIREME_TESTS "Build the tests" ON)
set(TRIREME_SANITIZE "" CACHE STRING "Sanitizer: empty, address, thread or undefined")
set_property(CACHE TRIREME_SANITIZE PROPERTY STRINGS "" address thread undefined)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")

# -ffp-contract=off everywhere: a multiply and an add round twice on every compiler and
# every vector width, so results do not depend on what the optimiser fuses. nvcc knows few
# options of the host compiler and takes them behind -Xcompiler, commas between; -Wpedantic
# objects to the code that it generates. What device code fuses is its kernels' own matter.
set(trireme_flags -Wall -Wextra -Wpedantic -Wshadow -Werror=return-type -ffp-contract=off)
if(TRIREME_SANITIZE)
  list(APPEND trireme_flags -fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options("$<HOST_LINK:-fsanitize=${TRIREME_SANITIZE}>")
  if(TRIREME_SANITIZE STREQUAL "undefined")
    list(APPEND trireme_flags -fno-sanitize-recover=all)
  endif()
endif()
set(trireme_cuda_flags ${trireme_flags})
list(REMOVE_ITEM trireme_cuda_flags -Wpedantic)
list(JOIN trireme_cuda_flags "$<COMMA>" trireme_cuda_flags)
add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:${trireme_flags}>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${trireme_cuda_flags}>")

# For whoever has a CUDA source: the language, in C++20. CMake 3.25 knows no option of nvcc
# for it, and would fail in enable_language() if the standard were asked for earlier.
macro(trireme_enable_cuda)
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  foreach(kind STANDARD EXTENSION)
    if(NOT CMAKE_CUDA20_${kind}_COMPILE_OPTION)
      set(CMAKE_CUDA20_${kind}_COMPILE_OPTION "-std=c++20")
    endif()
  endforeach()
endmacro()

find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER "${TRIREME_CCACHE}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TRIREME_CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${TRIREME_CCACHE}")
endif()
