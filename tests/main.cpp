// The main function of every test program, compiled once.
#ifdef SWITCHYARD_CATCH2_V2
#define CATCH_CONFIG_RUNNER
#endif
#include "catch.hpp"

int main(int argc, char** argv) {
  return Catch::Session().run(argc, argv);
}
