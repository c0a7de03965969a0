// SPDX-License-Identifier: MIT
// Where function bodies are: in headers, or compiled once in the library of the target switchyard::compiled.
//
// A header x.hpp defines what repeated calls need, and declares the rest; x_impl.hpp beside it defines the
// rest. x.hpp includes x_impl.hpp at its end unless SWITCHYARD_COMPILED is defined. The target defines it,
// and only the library's own sources then include x_impl.hpp.
//
// Definitions begin with SWITCHYARD_FUNCTION. So do declarations of virtual functions. A compiler emits a
// class's virtual table, and the functions in it, wherever the class's first non-inline virtual function is
// defined: without the macro, that is every file that includes x.hpp.
#pragma once

#include <switchyard/base/cpp20.hpp>

#ifdef SWITCHYARD_COMPILED
#define SWITCHYARD_FUNCTION
#else
#define SWITCHYARD_FUNCTION inline
#endif

/// For definitions that run seldom, where size matters more than speed.
#define SWITCHYARD_COLD [[gnu::cold]] SWITCHYARD_FUNCTION

// A program is of one form. In files of both, this name is thread-local here and not there, and the linker
// refuses that, with the name in its message. lld looks at sections instead.
#ifdef SWITCHYARD_COMPILED
#define SWITCHYARD_FORM_FLAGS "awTR"
[[gnu::used, gnu::visibility("hidden")]] inline thread_local char
    switchyard_compiled_and_header_only_forms_are_mixed_in_one_program = 0;
#else
#define SWITCHYARD_FORM_FLAGS "awR"
[[gnu::used,
  gnu::visibility("hidden")]] inline char switchyard_compiled_and_header_only_forms_are_mixed_in_one_program =
    0;
#endif
#ifdef __ELF__
asm(".pushsection "
    ".switchyard_compiled_and_header_only_forms_are_mixed_in_one_program,\"" SWITCHYARD_FORM_FLAGS
    "\",%progbits\n.byte 0\n.popsection");  // NOLINT(hicpp-no-assembler)
#endif
#undef SWITCHYARD_FORM_FLAGS
