# libtrireme.so, headers, find_package(Trireme), pkg-config.
