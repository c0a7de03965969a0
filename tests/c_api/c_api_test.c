// SPDX-License-Identifier: MIT
/* The C API from C: each function, what it refuses, and results.
 *
 *   c_api_test FOLDER      FOLDER has the built kernels */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <switchyard/c_api.h>

static int failures = 0;
static int checks = 0;

#define CHECK(condition)                                                                \
  do {                                                                                  \
    ++checks;                                                                           \
    if (!(condition)) {                                                                 \
      ++failures;                                                                       \
      printf("line %d: %s (%s)\n", __LINE__, #condition, switchyard_last_error_text()); \
    }                                                                                   \
  } while (0)

/* The last error has this number and this part in its text. */
static int said(int returned, int code, const char* part) {
  return returned == code && switchyard_last_error() == code &&
         strstr(switchyard_last_error_text(), part) != NULL;
}

static switchyard_tensor rows(float* memory, int64_t count, int64_t columns) {
  switchyard_tensor out = {sizeof out, memory, SWITCHYARD_F32, 2, {count, columns}, {columns, 1}};
  return out;
}

static void describe(void) {
  switchyard_description op = {sizeof op, NULL, 0, 0, 0};
  CHECK(switchyard_describe("softmax", &op) == 0);
  CHECK(strcmp(op.name, "softmax") == 0);
  CHECK(op.field_count == 8 && op.axis_count == 4 && op.argument_bytes > 0);
  switchyard_field field = {sizeof field, NULL, 0, 9, 9};
  CHECK(switchyard_describe_field("softmax", 1, &field) == 0);
  CHECK(field.name_length == 3 && strncmp(field.name, "out", 3) == 0 && field.kind == 0 && field.offset == 8);
  switchyard_axis axis = {sizeof axis, NULL, 0, 9, 9};
  CHECK(switchyard_describe_axis("softmax", 2, &axis) == 0);
  CHECK(axis.name_length == 4 && strncmp(axis.name, "rows", 4) == 0 && axis.is_size == 1 &&
        axis.is_flag == 0);
  CHECK(said(switchyard_describe("sofmax", &op), 106, "there is no operator 'sofmax'"));
  CHECK(said(switchyard_describe(NULL, &op), 106, "there is no operator ''"));
  CHECK(said(switchyard_describe("softmax", NULL), 301, "out is null"));
  op.size = 8;
  CHECK(said(switchyard_describe("softmax", &op), 301, "switchyard_description begins with the size 8"));
  CHECK(said(switchyard_describe_field("softmax", 8, &field), 301, "softmax has no field 8"));
  CHECK(said(switchyard_describe_axis("softmax", 4, &axis), 301, "softmax has no axis 4"));
}

/* Arguments of the builders that C names differently, or that must be tensors. */
static void attend(switchyard_catalog* catalog) {
  float memory[64] = {0};
  int32_t numbers[4] = {0};
  switchyard_tensor q = {sizeof q, memory, SWITCHYARD_F32, 4, {1, 2, 1, 8}, {16, 8, 8, 1}};
  switchyard_tensor positions = {sizeof positions, numbers, SWITCHYARD_I32, 2, {1, 2}, {2, 1}};
  switchyard_operator* rotary = NULL;
  CHECK(switchyard_operator_open(catalog, "rotary", "host", &rotary) == 0);
  const switchyard_argument turned[] = {switchyard_give_tensor("q", &q), switchyard_give_tensor("q_out", &q),
                                        switchyard_give_tensor("positions", &positions)};
  CHECK(said(switchyard_call(rotary, NULL, turned, 3), 301, "rotary: positions is i32, but must be i64"));
  switchyard_operator_close(rotary);

  /* seqused_k of a call with pages is the pages'. */
  switchyard_tensor pages = {sizeof pages, memory, SWITCHYARD_F32, 4, {2, 4, 1, 8}, {32, 8, 8, 1}};
  switchyard_tensor table = {sizeof table, numbers, SWITCHYARD_I32, 2, {1, 2}, {2, 1}};
  switchyard_tensor used = {sizeof used, numbers, SWITCHYARD_I32, 1, {2}, {1}};
  switchyard_operator* attention = NULL;
  CHECK(switchyard_operator_open(catalog, "attention_forward", "host", &attention) == 0);
  const switchyard_argument given[] = {switchyard_give_tensor("q", &q),
                                       switchyard_give_tensor("k", &pages),
                                       switchyard_give_tensor("v", &pages),
                                       switchyard_give_tensor("out", &q),
                                       switchyard_give_tensor("block_table", &table),
                                       switchyard_give_tensor("seqused_k", &used)};
  CHECK(said(switchyard_call(attention, NULL, given, 6), 301,
             "attention_forward: seqused_k [2]: batch is 2, but 1 in q [1, 2, 1, 8]"));
  switchyard_operator_close(attention);
}

/* What a log received. */
typedef struct lines {
  int count[4]; /* by kind */
  int code;     /* of the last warning */
  char last[4][1024];
} lines;

static void receive(void* context, int32_t kind, int32_t code, const char* text) {
  lines* const to = context;
  ++to->count[kind];
  if (kind == SWITCHYARD_LOG_WARNING) to->code = code;
  strncpy(to->last[kind], text, sizeof to->last[kind] - 1);
}

/* Operators with limits. */
static void limit(switchyard_catalog* catalog, const switchyard_argument* given) {
  switchyard_limits limits = {sizeof limits, 0, 0, NULL};
  switchyard_operator* softmax = NULL;
  CHECK(switchyard_operator_open_limited(catalog, "softmax", "host", &limits, &softmax) == 0);
  CHECK(switchyard_call(softmax, NULL, given, 2) == 0); /* it takes no workspace */
  switchyard_operator_close(softmax);
  limits.workspace_bytes = -1;
  limits.reproducible = "no such class";
  CHECK(switchyard_operator_open_limited(catalog, "softmax", NULL, &limits, &softmax) == 0);
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 302,
             "is not in the reproducible class 'no such class'"));
  switchyard_operator_close(softmax);
  limits.max_error = -0.5;
  CHECK(said(switchyard_operator_open_limited(catalog, "softmax", "host", &limits, &softmax), 301,
             "limits: max_error is -0.5, but must be more than 0"));
  CHECK(softmax == NULL);
  limits.size = 8;
  CHECK(said(switchyard_operator_open_limited(catalog, "softmax", "host", &limits, &softmax), 301,
             "limits: switchyard_limits begins with the size 8"));
  CHECK(said(switchyard_operator_open_limited(catalog, "softmax", "host", NULL, &softmax), 301,
             "limits is null"));
}

/* A program's own logger, an overlay, and options as the first version had them. */
static void open_with(const char* root) {
  const char* const roots[] = {root};
  const char* const tables[] = {"/no/such/table.json"};
  lines log = {{0}, 0, {{0}}};
  switchyard_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.roots = roots;
  options.root_count = 1;
  options.debug = 1;
  options.tables = tables;
  options.table_count = 1;
  options.log = receive;
  options.log_context = &log;
  switchyard_catalog* catalog = NULL;
  switchyard_operator* softmax = NULL;
  options.debug = 3;
  CHECK(said(switchyard_open(&options, &catalog), 301, "debug is 3, but must be 0, 1 or 2"));
  options.debug = SWITCHYARD_LOG_CHOICE;
  const char* const none[] = {NULL};
  options.tables = none;
  CHECK(said(switchyard_open(&options, &catalog), 301, "tables[0] is null"));
  options.tables = NULL;
  CHECK(said(switchyard_open(&options, &catalog), 301, "tables is null"));
  options.tables = tables;
  CHECK(switchyard_open(&options, &catalog) == 0);
  CHECK(switchyard_operator_open(catalog, "softmax", "host", &softmax) == 0);
  CHECK(log.count[SWITCHYARD_LOG_WARNING] == 1 && log.code == 101);
  CHECK(strstr(log.last[SWITCHYARD_LOG_WARNING], "/no/such/table.json") != NULL);
  CHECK(strncmp(log.last[SWITCHYARD_LOG_WARNING], "switchyard", 10) != 0);

  float memory[8] = {1, 2, 3, 4, 0, 0, 0, 0};
  switchyard_tensor x = rows(memory, 2, 4);
  const switchyard_argument given[] = {switchyard_give_tensor("x", &x), switchyard_give_tensor("out", &x)};
  CHECK(switchyard_call(softmax, NULL, given, 2) == 0);
  CHECK(log.count[SWITCHYARD_LOG_CHOICE] == 1);
  CHECK(strncmp(log.last[SWITCHYARD_LOG_CHOICE], "softmax {dtype=f32", 18) == 0);

  /* Every problem of a range: known when its call comes. */
  switchyard_range range = {sizeof range, "rows", 1, 64};
  CHECK(switchyard_prepare_ranges(softmax, NULL, given, 2, &range, 1) == 0);
  CHECK(switchyard_prepare_ranges(softmax, NULL, given, 2, NULL, 0) == 0);
  CHECK(said(switchyard_prepare_ranges(softmax, NULL, given, 2, NULL, 1), 301, "ranges is null"));
  range.axis = "rwos";
  CHECK(said(switchyard_prepare_ranges(softmax, NULL, given, 2, &range, 1), 301, "rwos"));
  range.axis = NULL;
  CHECK(said(switchyard_prepare_ranges(softmax, NULL, given, 2, &range, 1), 301, "ranges[0].axis is null"));
  range.size = 8;
  CHECK(said(switchyard_prepare_ranges(softmax, NULL, given, 2, &range, 1), 301,
             "ranges[0]: switchyard_range begins with the size 8"));

  size_t bytes = 1;
  CHECK(switchyard_workspace_bytes(softmax, NULL, given, 2, &bytes) == 0 && bytes == 0);
  CHECK(said(switchyard_workspace_bytes(softmax, NULL, given, 2, NULL), 301, "bytes is null"));
  CHECK(switchyard_call_with_workspace(softmax, NULL, given, 2, memory, sizeof memory) == 0);
  CHECK(said(switchyard_call_with_workspace(softmax, NULL, given, 2, NULL, 0), 301, "workspace is null"));

  range = (switchyard_range){sizeof range, "rows", 1, 64};
  bytes = 1;
  CHECK(switchyard_workspace_bytes_of_ranges(softmax, NULL, given, 2, &range, 1, &bytes) == 0 && bytes == 0);
  CHECK(said(switchyard_workspace_bytes_of_ranges(softmax, NULL, given, 2, &range, 1, NULL), 301,
             "bytes is null"));
  CHECK(said(switchyard_workspace_bytes_of_ranges(softmax, NULL, given, 2, NULL, 1, &bytes), 301,
             "ranges is null"));
  limit(catalog, given);

  CHECK(switchyard_watch(catalog, 1000) == 0);
  CHECK(said(switchyard_watch(catalog, 0), 301, "milliseconds is 0"));
  CHECK(said(switchyard_watch(NULL, 5), 301, "catalog is null"));
  CHECK(switchyard_stop_watching(catalog) == 0);
  uint64_t plans = 9;
  uint64_t refused = 9;
  x.extents[0] = 1; /* prepared as one of the range, but not planned */
  CHECK(switchyard_seal(catalog, SWITCHYARD_SEAL_COUNT, SWITCHYARD_SEAL_REFUSE, SWITCHYARD_SEAL_COUNT) == 0);
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 306, "softmax: the problem is new"));
  CHECK(switchyard_sealed(catalog, &plans, NULL, NULL, &refused) == 0 && plans == 1 && refused == 1);
  CHECK(said(switchyard_seal(catalog, 0, 3, 0), 301, "plan is 3, but must be 0, 1 or 2"));
  CHECK(switchyard_unseal(catalog) == 0);
  CHECK(switchyard_call(softmax, NULL, given, 2) == 0);
  CHECK(said(switchyard_sealed(NULL, &plans, NULL, NULL, NULL), 301, "catalog is null"));

  uint64_t blobs = 9;
  CHECK(switchyard_unload_unused(catalog, &blobs) == 0 && blobs == 0);
  switchyard_operator_close(softmax);
  CHECK(switchyard_unload_unused(catalog, &blobs) == 0 && blobs > 0);
  CHECK(log.count[SWITCHYARD_LOG_SUMMARY] == 0);
  switchyard_close(catalog);
  CHECK(log.count[SWITCHYARD_LOG_SUMMARY] > 0);

  options.size = 64; /* what the second version had */
  options.begin_range = NULL;
  options.allocate = (switchyard_allocate_callback)1; /* not read */
  CHECK(switchyard_open(&options, &catalog) == 0);
  switchyard_close(catalog);
  options.size = 32; /* what follows is not read */
  options.debug = 0;
  CHECK(switchyard_open(&options, &catalog) == 0);
  switchyard_close(catalog);
}

/* Ranges as "(name" and ")". */
static void begin_range(void* context, const char* name) {
  strcat(strcat(context, "("), name);
}
static void end_range(void* context) {
  strcat(context, ")");
}
static void* no_memory(void* context, const char* backend, uint64_t bytes, void* stream) {
  (void)backend, (void)bytes, (void)stream;
  ++*(int*)context;
  return NULL;
}
static void give_back(void* context, const char* backend, void* address, void* stream) {
  (void)context, (void)backend, (void)address, (void)stream;
}

/* Counters, ranges, and an allocator. */
static void observe(const char* root) {
  const char* const roots[] = {root};
  char ranges[4096] = "";
  int asked = 0;
  switchyard_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.roots = roots;
  options.root_count = 1;
  options.release = give_back;
  options.memory_context = &asked;
  options.begin_range = begin_range;
  options.range_context = ranges;
  switchyard_catalog* catalog = NULL;
  switchyard_operator* softmax = NULL;
  CHECK(said(switchyard_open(&options, &catalog), 301, "one of allocate and release is null"));
  options.allocate = no_memory;
  CHECK(said(switchyard_open(&options, &catalog), 301, "one of begin_range and end_range is null"));
  options.end_range = end_range;
  CHECK(switchyard_open(&options, &catalog) == 0);

  switchyard_counters counted = {sizeof counted, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0}};
  CHECK(switchyard_count(catalog, "softmax", &counted) == 0 && counted.plans == 0);
  CHECK(switchyard_operator_open(catalog, "softmax", "host", &softmax) == 0);
  float memory[8] = {1, 2, 3, 4, 0, 0, 0, 0};
  switchyard_tensor x = rows(memory, 2, 4);
  const switchyard_argument given[] = {switchyard_give_tensor("x", &x), switchyard_give_tensor("out", &x)};
  CHECK(switchyard_call(softmax, NULL, given, 2) == 0);
  CHECK(strncmp(ranges, "(softmax: plan)(softmax ", 24) == 0 && ranges[strlen(ranges) - 1] == ')');
  CHECK(switchyard_count(catalog, "softmax", &counted) == 0);
  CHECK(counted.size == sizeof counted && counted.plans == 1 && counted.loads == 1 && counted.errors == 0);
  uint64_t choices = 0;
  for (int i = 0; i < 8; ++i) choices += counted.choices[i];
  CHECK(choices == 1);
  CHECK(asked == 0); /* softmax needs no workspace */
  switchyard_operator* backward = NULL;
  CHECK(switchyard_operator_open(catalog, "rms_norm_backward", "host", &backward) == 0);
  switchyard_tensor one = {sizeof one, memory, SWITCHYARD_F32, 1, {2}, {1}};
  switchyard_tensor gamma = {sizeof gamma, memory, SWITCHYARD_F32, 1, {4}, {1}};
  const switchyard_argument gradients[] = {
      switchyard_give_tensor("grad_out", &x), switchyard_give_tensor("h", &x),
      switchyard_give_tensor("rstd", &one),   switchyard_give_tensor("grad_x", &x),
      switchyard_give_tensor("gamma", &gamma), switchyard_give_tensor("grad_gamma", &gamma)};
  CHECK(said(switchyard_call(backward, NULL, gradients, 6), 210, "rms_norm_backward: the device has no"));
  CHECK(asked == 1);
  switchyard_operator_close(backward);
  CHECK(said(switchyard_count(catalog, "soft", &counted), 106, "there is no operator 'soft'"));
  counted.size = 8;
  CHECK(said(switchyard_count(catalog, "softmax", &counted), 301, "switchyard_counters begins with the size 8"));

  size_t length = 0;
  CHECK(switchyard_metrics(catalog, NULL, 0, &length) == 0 && length > 100);
  char* const text = malloc(length + 1);
  CHECK(switchyard_metrics(catalog, text, length + 1, NULL) == 0 && strlen(text) == length);
  CHECK(strstr(text, "switchyard_plans_total{operator=\"softmax\"} 1\n") != NULL);
  free(text);
  CHECK(said(switchyard_write_metrics(catalog, "/no/such/folder/a.prom", 1000), 101, "/no/such/folder/a.prom"));
  CHECK(said(switchyard_write_metrics(catalog, NULL, 1000), 301, "path is null"));
  CHECK(said(switchyard_write_metrics(catalog, "/tmp/a.prom", 0), 301, "milliseconds is 0"));
  CHECK(said(switchyard_use_ranges(&options, "/no/such/library.so"), 201, "(tried /no/such/library.so)"));
  CHECK(said(switchyard_use_ranges(NULL, "1"), 301, "options is null"));
  switchyard_operator_close(softmax);
  switchyard_close(catalog);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(switchyard_last_error() == 0 && strcmp(switchyard_last_error_text(), "") == 0);
  describe();

  const char* const roots[] = {argv[1]};
  switchyard_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.roots = roots;
  options.root_count = 1;
  switchyard_catalog* catalog = NULL;
  CHECK(said(switchyard_open(&options, NULL), 301, "out is null"));
  options.size = 4;
  CHECK(said(switchyard_open(&options, &catalog), 301, "switchyard_options begins with the size 4"));
  options.size = sizeof options;
  CHECK(switchyard_open(&options, &catalog) == 0);
  CHECK(catalog != NULL);
  CHECK(switchyard_reload(catalog) == 0);

  switchyard_operator* softmax = NULL;
  CHECK(
      said(switchyard_operator_open(catalog, "soft", "host", &softmax), 106, "there is no operator 'soft'"));
  CHECK(said(switchyard_operator_open(catalog, "softmax", "moon", &softmax), 301, "unknown device 'moon'"));
  CHECK(said(switchyard_operator_open(NULL, "softmax", "host", &softmax), 301, "catalog is null"));
  CHECK(softmax == NULL);
  CHECK(switchyard_operator_open(catalog, "softmax", "host", &softmax) == 0);

  float memory[8] = {1, 2, 3, 4, 0, 0, 0, 0};
  float result[8] = {0};
  switchyard_tensor x = rows(memory, 2, 4);
  switchyard_tensor out = rows(result, 2, 4);
  switchyard_argument given[4] = {switchyard_give_tensor("x", &x), switchyard_give_tensor("out", &out),
                                  switchyard_give_real("scale", 1), switchyard_give_real("scael", 1)};
  const int first = switchyard_call(softmax, NULL, given, 3);
  if (first == 302) {
    printf("skipped: %s has no kernels for this CPU\n", argv[1]);
    return 77;
  }
  CHECK(first == 0);
  const double sum = exp(1) + exp(2) + exp(3) + exp(4);
  for (int i = 0; i < 4; ++i) CHECK(fabs(result[i] - exp(i + 1) / sum) < 1e-6);
  CHECK(fabs(result[7] - 0.25) < 1e-6);
  CHECK(switchyard_prepare(softmax, NULL, given, 3) == 0);
  const uint64_t generation = switchyard_generation(catalog);
  CHECK(switchyard_generation(catalog) == generation);

  char text[512];
  size_t length = 0;
  CHECK(switchyard_explain(softmax, NULL, given, 3, text, sizeof text, &length) == 0);
  CHECK(strlen(text) == length && strncmp(text, "softmax {dtype=f32", 18) == 0);
  char few[8];
  CHECK(switchyard_explain(softmax, NULL, given, 3, few, sizeof few, NULL) == 0 &&
        strcmp(few, "softmax") == 0);
  CHECK(switchyard_explain(softmax, NULL, given, 3, NULL, 0, &length) == 0 && length == strlen(text));

  CHECK(said(switchyard_call(softmax, NULL, given, 4), 301, "softmax: unknown or repeated argument 'scael'"));
  CHECK(said(switchyard_call(softmax, NULL, NULL, 1), 301, "softmax: arguments is null"));
  CHECK(said(switchyard_call(NULL, NULL, given, 3), 301, "op is null"));
  CHECK(said(switchyard_call(softmax, NULL, given, 1), 301, "softmax: out [] has 0 dimensions instead of 2"));
  given[2] = switchyard_give_integer("scale", 1);
  CHECK(said(switchyard_call(softmax, NULL, given, 3), 301, "softmax: scale must be a real number"));
  out.extents[1] = 3;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301,
             "softmax: out [2, 3]: columns is 3, but 4 in x [2, 4]"));
  out.rank = 6;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301, "softmax: out has 6 dimensions"));
  out.rank = 2;
  out.dtype = 99;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301, "softmax: out has the unknown element type 99"));
  out.size = 8;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301, "switchyard_tensor begins with the size 8"));
  given[0].size = 1;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301, "switchyard_argument begins with the size 1"));
  given[0].size = sizeof given[0];
  given[0].name = NULL;
  CHECK(said(switchyard_call(softmax, NULL, given, 2), 301, "an argument has no name"));

  attend(catalog);
  switchyard_operator_close(softmax);
  open_with(argv[1]);
  observe(argv[1]);
  switchyard_operator_close(NULL);
  switchyard_close(catalog);
  switchyard_close(NULL);
  printf("%d checks, %d failed\n", checks, failures);
  return failures != 0;
}
