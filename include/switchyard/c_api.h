// SPDX-License-Identifier: MIT
/* Switchyard from C and from whatever calls C: Rust, Go, Python. Plain C11; the library is libswitchyard.
 *
 *   switchyard_catalog* catalog = NULL;
 *   switchyard_operator* softmax = NULL;
 *   switchyard_open(NULL, &catalog);
 *   switchyard_operator_open(catalog, "softmax", NULL, &softmax);
 *   switchyard_tensor x = {sizeof x, memory, SWITCHYARD_F32, 2, {rows, columns}, {columns, 1}};
 *   switchyard_argument arguments[] = {switchyard_give_tensor("x", &x), switchyard_give_tensor("out", &x)};
 *   if (switchyard_call(softmax, stream, arguments, 2) != 0) puts(switchyard_last_error_text());
 *
 * A function that can fail returns 0 or the number of the error (see the table in
 * include/switchyard/README.md), or 1 for an error without a number. Each thread keeps the number and the
 * text of its last error. Arguments have the names of the operator's C++ `call`; one that is not given has
 * its default. Weights in a format (w of matmul_quantized, table of embedding) are a pointer `w`, the text
 * `weights`, such as "q4_k", the integers `w_rows` and `w_columns`, and `w_stride_bytes` if there are gaps
 * between rows. Any thread may call. Close operators before their catalog. Structs begin with their size:
 * later versions append members, and accept the sizes of earlier ones.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define SWITCHYARD_C_ASSERT(condition, text) static_assert(condition, text)
#else
#define SWITCHYARD_C_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define SWITCHYARD_API __attribute__((visibility("default")))

typedef struct switchyard_catalog switchyard_catalog;
typedef struct switchyard_operator switchyard_operator;

/* Element types of tensors. */
enum {
  SWITCHYARD_F16 = 0,
  SWITCHYARD_BF16 = 1,
  SWITCHYARD_F32 = 2,
  SWITCHYARD_F64 = 3,
  SWITCHYARD_F8_E4M3 = 4,
  SWITCHYARD_F8_E5M2 = 5,
  SWITCHYARD_I8 = 6,
  SWITCHYARD_I32 = 7,
  SWITCHYARD_I64 = 8
};

/* What an argument is. */
enum {
  SWITCHYARD_TENSOR = 0,
  SWITCHYARD_INTEGER = 1,
  SWITCHYARD_REAL = 2,
  SWITCHYARD_POINTER = 3,
  SWITCHYARD_TEXT = 4 /* an enumerator's name, as in "causal_bottom_right" */
};

#define SWITCHYARD_MAX_RANK 5

typedef struct switchyard_tensor {
  uint64_t size; /* sizeof(switchyard_tensor) */
  void* data;    /* of the stream's device; written only if the operator writes the tensor */
  int32_t dtype;
  int32_t rank;
  int64_t extents[SWITCHYARD_MAX_RANK];
  int64_t strides[SWITCHYARD_MAX_RANK]; /* in elements */
} switchyard_tensor;

typedef struct switchyard_argument {
  uint64_t size; /* sizeof(switchyard_argument) */
  const char* name;
  int32_t kind;
  int32_t reserved; /* 0 */
  const switchyard_tensor* tensor;
  int64_t integer;
  double real;
  const void* pointer;
  const char* text;
} switchyard_argument;

/* What a line of the log is about. */
enum {
  SWITCHYARD_LOG_WARNING = 0,
  SWITCHYARD_LOG_CHOICE = 1,
  SWITCHYARD_LOG_NOTE = 2,
  SWITCHYARD_LOG_SUMMARY = 3
};

/* Receives one line of the log, ended with 0 and valid during the call. `code` is the error number that a
 * warning names, else 0. Any thread may call it, also while it launches; it must not call the library. */
typedef void (*switchyard_log_callback)(void* context, int32_t kind, int32_t code, const char* text);

/* Device memory for calls that are given no workspace, allocated and released in stream order, aligned to 256
 * bytes. If NULL is returned, the call fails with error 210. `backend` is "cuda", "hip" or "host". Any thread
 * may call either; they must not call the library. */
typedef void* (*switchyard_allocate_callback)(void* context, const char* backend, uint64_t bytes,
                                              void* stream);
typedef void (*switchyard_release_callback)(void* context, const char* backend, void* address, void* stream);

/* A range of the calling thread begins, for example "softmax avx512_s4", and ends. They must not call the
 * library. */
typedef void (*switchyard_begin_range_callback)(void* context, const char* name);
typedef void (*switchyard_end_range_callback)(void* context);

/* Called with each manifest and table before it is used, for example to check a signature. 0 accepts the
 * file. Otherwise it is refused and its previous version stays in use; the reason may be written to `why`, a
 * buffer of `capacity` bytes, ended with 0. Any thread that reads files calls it; it must not call the
 * library. */
typedef int32_t (*switchyard_accept_callback)(void* context, const void* bytes, uint64_t length,
                                              const char* path, char* why, uint64_t capacity);

typedef struct switchyard_options {
  uint64_t size;            /* sizeof(switchyard_options) */
  const char* const* roots; /* folders that are searched first */
  uint64_t root_count;
  int32_t default_roots; /* whether the environment's and the installed folders are searched */
  int32_t debug;         /* what is logged: 0, as SWITCHYARD_DEBUG says; 1, choices; 2, launches as well */
  const char* const* tables; /* overlays: files or folders */
  uint64_t table_count;
  switchyard_log_callback log; /* in place of standard error; NULL: none */
  void* log_context;
  switchyard_allocate_callback allocate; /* the program's own allocator for workspaces; both or neither */
  switchyard_release_callback release;
  void* memory_context;
  switchyard_begin_range_callback begin_range; /* ranges for a profiler; both or neither */
  switchyard_end_range_callback end_range;
  void* range_context;
  switchyard_accept_callback accept; /* NULL: every file is used */
  void* accept_context;
  const char* const* canary_tables; /* new tables for a share of the problems: files or folders */
  uint64_t canary_table_count;
  double canary_share;      /* 0 to 1 */
  double canary_max_regret; /* the share becomes 0 when they are slower by more than this; 0: the library's,
                             * 0.05; negative: never */
  uint64_t canary_least_comparisons; /* that this takes; 0: the library's, 32 */
  uint64_t live_one_in;              /* one call in so many of each problem is timed on the device; 0: none */
} switchyard_options;

/* What an operator did since its catalog was opened, over all devices: switchyard::operator_counters has what
 * each one counts. Calls whose problem was met before are not counted. */
typedef struct switchyard_counters {
  uint64_t size; /* sizeof(switchyard_counters), set by the caller */
  uint64_t plans;
  uint64_t displaced_plans;
  uint64_t passed_over;
  uint64_t loads;
  uint64_t failed_loads;
  uint64_t replacements;
  uint64_t refused_replacements;
  uint64_t unprepared_plans;
  uint64_t unprepared_loads;
  uint64_t unprepared_fallbacks;
  uint64_t refused_calls;
  uint64_t errors;     /* of calls, of every number */
  uint64_t choices[8]; /* exact, interpolated, extrapolated, other device, heuristic, forced, pinned, none */
} switchyard_counters;

/* An axis and its values, from first to last. */
typedef struct switchyard_range {
  uint64_t size; /* sizeof(switchyard_range) */
  const char* axis;
  int64_t first;
  int64_t last;
} switchyard_range;

/* Limits of the variants that may serve an operator: one that exceeds a limit never runs. */
typedef struct switchyard_limits {
  uint64_t size;            /* sizeof(switchyard_limits) */
  int64_t workspace_bytes;  /* at most, for a call; negative: any */
  double max_error;         /* a share of the error that the tuner tolerates; 0: all of it */
  const char* reproducible; /* the class that variants must state; NULL: any */
} switchyard_limits;

/* An operator: what its kernels may name. The pointers are valid for the life of the program. */
typedef struct switchyard_description {
  uint64_t size; /* sizeof(switchyard_description), set by the caller */
  const char* name;
  uint64_t argument_bytes; /* of the C++ argument struct */
  uint64_t field_count;
  uint64_t axis_count;
} switchyard_description;

typedef struct switchyard_field {
  uint64_t size; /* sizeof(switchyard_field), set by the caller */
  const char* name;
  uint64_t name_length;
  uint32_t kind;   /* switchyard::value_kind: 0 is a pointer */
  uint32_t offset; /* in the C++ argument struct */
} switchyard_field;

typedef struct switchyard_axis {
  uint64_t size; /* sizeof(switchyard_axis), set by the caller */
  const char* name;
  uint64_t name_length;
  int32_t is_size; /* 0: a type axis, 1: a size axis */
  int32_t is_flag;
} switchyard_axis;

SWITCHYARD_C_ASSERT(sizeof(void*) == 8, "Switchyard needs 64-bit pointers");
SWITCHYARD_C_ASSERT(sizeof(switchyard_tensor) == 104 && offsetof(switchyard_tensor, data) == 8 &&
                        offsetof(switchyard_tensor, dtype) == 16 && offsetof(switchyard_tensor, rank) == 20 &&
                        offsetof(switchyard_tensor, extents) == 24 &&
                        offsetof(switchyard_tensor, strides) == 64,
                    "the layout of switchyard_tensor is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_argument) == 64 && offsetof(switchyard_argument, name) == 8 &&
                        offsetof(switchyard_argument, kind) == 16 &&
                        offsetof(switchyard_argument, tensor) == 24 &&
                        offsetof(switchyard_argument, integer) == 32 &&
                        offsetof(switchyard_argument, real) == 40 &&
                        offsetof(switchyard_argument, pointer) == 48 &&
                        offsetof(switchyard_argument, text) == 56,
                    "the layout of switchyard_argument is part of the ABI");
SWITCHYARD_C_ASSERT(
    sizeof(switchyard_options) == 176 && offsetof(switchyard_options, roots) == 8 &&
        offsetof(switchyard_options, root_count) == 16 && offsetof(switchyard_options, default_roots) == 24 &&
        offsetof(switchyard_options, debug) == 28 && offsetof(switchyard_options, tables) == 32 &&
        offsetof(switchyard_options, table_count) == 40 && offsetof(switchyard_options, log) == 48 &&
        offsetof(switchyard_options, log_context) == 56 && offsetof(switchyard_options, allocate) == 64 &&
        offsetof(switchyard_options, memory_context) == 80 &&
        offsetof(switchyard_options, begin_range) == 88 &&
        offsetof(switchyard_options, range_context) == 104 && offsetof(switchyard_options, accept) == 112 &&
        offsetof(switchyard_options, canary_tables) == 128 &&
        offsetof(switchyard_options, canary_share) == 144 && offsetof(switchyard_options, live_one_in) == 168,
    "the layout of switchyard_options is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_counters) == 168 && offsetof(switchyard_counters, plans) == 8 &&
                        offsetof(switchyard_counters, errors) == 96 &&
                        offsetof(switchyard_counters, choices) == 104,
                    "the layout of switchyard_counters is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_range) == 32 && offsetof(switchyard_range, axis) == 8 &&
                        offsetof(switchyard_range, first) == 16 && offsetof(switchyard_range, last) == 24,
                    "the layout of switchyard_range is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_limits) == 32 && offsetof(switchyard_limits, workspace_bytes) == 8 &&
                        offsetof(switchyard_limits, max_error) == 16 &&
                        offsetof(switchyard_limits, reproducible) == 24,
                    "the layout of switchyard_limits is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_description) == 40 &&
                        offsetof(switchyard_description, argument_bytes) == 16 &&
                        offsetof(switchyard_description, axis_count) == 32,
                    "the layout of switchyard_description is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_field) == 32 && offsetof(switchyard_field, kind) == 24 &&
                        offsetof(switchyard_field, offset) == 28,
                    "the layout of switchyard_field is part of the ABI");
SWITCHYARD_C_ASSERT(sizeof(switchyard_axis) == 32 && offsetof(switchyard_axis, is_size) == 24 &&
                        offsetof(switchyard_axis, is_flag) == 28,
                    "the layout of switchyard_axis is part of the ABI");

/* Opens the kernels and tables of the search path; without options, the default one. */
SWITCHYARD_API int switchyard_open(const switchyard_options* options, switchyard_catalog** out);
SWITCHYARD_API void switchyard_close(switchyard_catalog* catalog);

/* Reads changed files now. */
SWITCHYARD_API int switchyard_reload(switchyard_catalog* catalog);

/* Reads changed files every `milliseconds`, on a thread of its own, until it is stopped or the catalog is
 * closed. */
SWITCHYARD_API int switchyard_watch(switchyard_catalog* catalog, uint64_t milliseconds);
SWITCHYARD_API int switchyard_stop_watching(switchyard_catalog* catalog);

/* Unloads the kernels that no operator refers to any more; `blobs` (may be NULL) is how many. See
 * catalog::unload_unused for what must not exist then. */
SWITCHYARD_API int switchyard_unload_unused(switchyard_catalog* catalog, uint64_t* blobs);

/* What happens to a call that was not prepared. */
enum {
  SWITCHYARD_SEAL_COUNT = 0,
  SWITCHYARD_SEAL_REPORT = 1, /* a warning in the log, once for each problem */
  SWITCHYARD_SEAL_REFUSE = 2  /* error 306 */
};

/* From now on three kinds of calls are counted: those that load a kernel, those whose problem is new, and
 * those that no rows decide. Each kind has one of the actions above. */
SWITCHYARD_API int switchyard_seal(switchyard_catalog* catalog, int32_t load, int32_t plan, int32_t fallback);
SWITCHYARD_API int switchyard_unseal(switchyard_catalog* catalog);

/* What was counted since switchyard_seal. Any pointer may be NULL. */
SWITCHYARD_API int switchyard_sealed(const switchyard_catalog* catalog, uint64_t* plans, uint64_t* loads,
                                     uint64_t* fallbacks, uint64_t* refused);

/* Changes when graphs should be captured again. */
SWITCHYARD_API uint64_t switchyard_generation(const switchyard_catalog* catalog);

/* What an operator did so far; all 0 for one that was not opened. */
SWITCHYARD_API int switchyard_count(const switchyard_catalog* catalog, const char* operator_name,
                                    switchyard_counters* out);

/* The counters of all operators in Prometheus' text format: cut off after capacity - 1 bytes and ended with
 * 0. `length` (may be NULL) is that of the whole text. */
SWITCHYARD_API int switchyard_metrics(const switchyard_catalog* catalog, char* text, size_t capacity,
                                      size_t* length);

/* Writes that text to a file, as a whole, now, at an interval (1 ms to a day), and on closing. */
SWITCHYARD_API int switchyard_write_metrics(switchyard_catalog* catalog, const char* path,
                                            uint64_t milliseconds);

/* The ranges of an installed profiler for switchyard_options: "nvtx", "roctx", "1" for the first that is
 * there, or a library's path. Sets begin_range, end_range and range_context. */
SWITCHYARD_API int switchyard_use_ranges(switchyard_options* options, const char* which);

/* Changes the share of problems that canary_tables decide: 0 takes all back. Reloads. */
SWITCHYARD_API int switchyard_set_canary_share(switchyard_catalog* catalog, double share);

/* A text that is the same on every host that chooses alike: see catalog::fingerprint. `operator_name`: NULL,
 * of all operators that have manifests. `device`: "host", the CPU; NULL, the current device. Cut off as in
 * switchyard_metrics. */
SWITCHYARD_API int switchyard_fingerprint(switchyard_catalog* catalog, const char* operator_name,
                                          const char* device, char* text, size_t capacity, size_t* length);

/* The same for the choices that were made so far: see catalog::fingerprint_of_choices. */
SWITCHYARD_API int switchyard_fingerprint_of_choices(switchyard_catalog* catalog, char* text, size_t capacity,
                                                     size_t* length);

/* The first difference of two such texts, in words; empty if there is none. */
SWITCHYARD_API int switchyard_compare_fingerprints(const char* here, const char* there, char* text,
                                                   size_t capacity, size_t* length);

/* Reads the times of calls that have completed, and waits for none. A watching catalog does so by itself. */
SWITCHYARD_API int switchyard_poll_live(switchyard_catalog* catalog);

/* What was measured of real calls, a line for each problem and each variant that was denied. */
SWITCHYARD_API int switchyard_live(switchyard_catalog* catalog, char* text, size_t capacity, size_t* length);

/* Writes what comparisons found as tuning tables, FOLDER/OPERATOR/DEVICE.json, for `switchyard merge`;
 * `tables` (may be NULL) is how many. */
SWITCHYARD_API int switchyard_write_live_tables(switchyard_catalog* catalog, const char* folder,
                                                uint64_t* tables);

/* What an operator is, its fields and axes by number. */
SWITCHYARD_API int switchyard_describe(const char* name, switchyard_description* out);
SWITCHYARD_API int switchyard_describe_field(const char* name, uint64_t index, switchyard_field* out);
SWITCHYARD_API int switchyard_describe_axis(const char* name, uint64_t index, switchyard_axis* out);

/* An operator of a catalog. `device`: NULL, each call runs on its stream's device; "host", on the CPU. */
SWITCHYARD_API int switchyard_operator_open(switchyard_catalog* catalog, const char* name, const char* device,
                                            switchyard_operator** out);
/* The same with limits. */
SWITCHYARD_API int switchyard_operator_open_limited(switchyard_catalog* catalog, const char* name,
                                                    const char* device, const switchyard_limits* limits,
                                                    switchyard_operator** out);
SWITCHYARD_API void switchyard_operator_close(switchyard_operator* op);

/* Runs the operator on a stream: a CUstream, cudaStream_t or hipStream_t, NULL for the default one. */
SWITCHYARD_API int switchyard_call(switchyard_operator* op, void* stream,
                                   const switchyard_argument* arguments, size_t count);

/* The same with memory for temporary buffers, of the stream's device and not in use by a call on another
 * stream. If it is less than switchyard_workspace_bytes, a variant runs that needs no more. */
SWITCHYARD_API int switchyard_call_with_workspace(switchyard_operator* op, void* stream,
                                                  const switchyard_argument* arguments, size_t count,
                                                  void* workspace, size_t workspace_bytes);

/* Bytes of workspace that a call takes; 0 for most. Loads what the call needs. */
SWITCHYARD_API int switchyard_workspace_bytes(switchyard_operator* op, void* stream,
                                              const switchyard_argument* arguments, size_t count,
                                              size_t* bytes);

/* Bytes that are enough for every call whose axes lie in the ranges, also with tables to come. Axes without a
 * range are those of the arguments. */
SWITCHYARD_API int switchyard_workspace_bytes_of_ranges(switchyard_operator* op, void* stream,
                                                        const switchyard_argument* arguments, size_t count,
                                                        const switchyard_range* ranges, size_t range_count,
                                                        size_t* bytes);

/* Loads what a call needs. */
SWITCHYARD_API int switchyard_prepare(switchyard_operator* op, void* stream,
                                      const switchyard_argument* arguments, size_t count);

/* The same for every call whose axes lie in the ranges. Axes without a range are those of the arguments. */
SWITCHYARD_API int switchyard_prepare_ranges(switchyard_operator* op, void* stream,
                                             const switchyard_argument* arguments, size_t count,
                                             const switchyard_range* ranges, size_t range_count);

/* What would run, and why: a line, cut off after capacity - 1 bytes and ended with 0. `length` (may be NULL)
 * is that of the whole line. */
SWITCHYARD_API int switchyard_explain(switchyard_operator* op, void* stream,
                                      const switchyard_argument* arguments, size_t count, char* text,
                                      size_t capacity, size_t* length);

/* What a comparison came to. */
enum {
  SWITCHYARD_COMPARED = 0,
  SWITCHYARD_DIFFERS = 1,     /* a variant is wrong, and out of service now */
  SWITCHYARD_UNSTEADY = 2,    /* the call's inputs changed meanwhile */
  SWITCHYARD_NO_RIVAL = 3,    /* no other variant serves the call */
  SWITCHYARD_NOT_POSSIBLE = 4 /* the text says why */
};

/* Times the variant that serves a call and a runner-up (1: the next best variant, 2: the one after it) in
 * alternation, with results in memory of their own: see compare_live in switchyard/live.hpp. Waits for the
 * stream; the call's tensors must not change until then. `outcome` (may be NULL) is one of the above; the
 * text says it in words. */
SWITCHYARD_API int switchyard_compare_live(switchyard_operator* op, void* stream,
                                           const switchyard_argument* arguments, size_t count,
                                           uint32_t runner_up, int32_t* outcome, char* text, size_t capacity,
                                           size_t* length);

/* The calling thread's last error: 0 and "" before the first. The text is valid until the thread's next
 * error. */
SWITCHYARD_API int switchyard_last_error(void);
SWITCHYARD_API const char* switchyard_last_error_text(void);

/* Arguments of each kind. */
static inline switchyard_argument switchyard_give(const char* name, int32_t kind) {
  switchyard_argument out;
  out.size = sizeof(switchyard_argument);
  out.name = name;
  out.kind = kind;
  out.reserved = 0;
  out.tensor = NULL;
  out.integer = 0;
  out.real = 0;
  out.pointer = NULL;
  out.text = NULL;
  return out;
}
static inline switchyard_argument switchyard_give_tensor(const char* name, const switchyard_tensor* tensor) {
  switchyard_argument out = switchyard_give(name, SWITCHYARD_TENSOR);
  out.tensor = tensor;
  return out;
}
static inline switchyard_argument switchyard_give_integer(const char* name, int64_t integer) {
  switchyard_argument out = switchyard_give(name, SWITCHYARD_INTEGER);
  out.integer = integer;
  return out;
}
static inline switchyard_argument switchyard_give_real(const char* name, double real) {
  switchyard_argument out = switchyard_give(name, SWITCHYARD_REAL);
  out.real = real;
  return out;
}
static inline switchyard_argument switchyard_give_pointer(const char* name, const void* pointer) {
  switchyard_argument out = switchyard_give(name, SWITCHYARD_POINTER);
  out.pointer = pointer;
  return out;
}
static inline switchyard_argument switchyard_give_text(const char* name, const char* text) {
  switchyard_argument out = switchyard_give(name, SWITCHYARD_TEXT);
  out.text = text;
  return out;
}

#ifdef __cplusplus
} /* extern "C" */
#endif
