# The installed package: libtrireme.so, headers, find_package(Trireme), trireme.pc.
#
# The shared library is made of the object files of every library a program may link:
# all of layers.txt but the launcher, which is a program and not for linking, and NCCL's
# interface, which is a library of its own. Users get one target and need none of our
# dependencies' development packages. The package is relocatable: its files find each other
# by their own place.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(trireme_objects "")
set(trireme_packaged "")
foreach(folder IN LISTS TRIREME_FOLDERS)
  trireme_target_name(${folder} target)
  if(folder MATCHES "^launcher|/nccl_interface$" OR NOT TARGET ${target})
    continue()
  endif()
  list(APPEND trireme_packaged ${target})
  list(APPEND trireme_objects $<TARGET_OBJECTS:${target}>)
  if(EXISTS "${PROJECT_SOURCE_DIR}/${folder}/include")
    install(DIRECTORY "${PROJECT_SOURCE_DIR}/${folder}/include/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
            FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/include/trireme/trireme.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/trireme")

# The archives follow their own objects on the link line: they add nothing but the
# packages each of them needs.
add_library(trireme_shared SHARED ${trireme_objects})
target_link_libraries(trireme_shared PRIVATE ${trireme_packaged})
set_target_properties(trireme_shared PROPERTIES
  OUTPUT_NAME trireme
  LINKER_LANGUAGE CXX
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  INSTALL_RPATH "$ORIGIN"
  INSTALL_RPATH_USE_LINK_PATH TRUE
  LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/libtrireme.map")
# Only names of ours leave the library: what it was built from (fmt, the CUDA runtime)
# cannot clash with what a program links.
target_link_options(trireme_shared PRIVATE "LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/libtrireme.map")
if(NOT TRIREME_SANITIZE)
  target_link_options(trireme_shared PRIVATE LINKER:-z,defs)
endif()
install(TARGETS trireme_shared LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")

set(trireme_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Trireme")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/TriremeConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" INSTALL_DESTINATION "${trireme_cmake_dir}"
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_BINDIR)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
        DESTINATION "${trireme_cmake_dir}")

file(RELATIVE_PATH trireme_pc_prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file("${PROJECT_SOURCE_DIR}/cmake/trireme.pc.in" "${PROJECT_BINARY_DIR}/trireme.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/trireme.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
