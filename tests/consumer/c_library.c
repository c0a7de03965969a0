// SPDX-License-Identifier: MIT
/* A C program that takes libswitchyard in. With an argument it calls softmax, which needs installed kernels. */
#include <stdio.h>

#include <switchyard/c_api.h>

static int fail(void) {
  puts(switchyard_last_error_text());
  return 1;
}

int main(int count, char** arguments) {
  (void)arguments;
  switchyard_catalog* catalog = NULL;
  if (switchyard_open(NULL, &catalog) != 0) return fail();
  printf("generation %d\n", (int)switchyard_generation(catalog));
  if (count > 1) {
    _Alignas(64) float memory[4] = {1, 2, 3, 4};
    const switchyard_tensor x = {sizeof x, memory, SWITCHYARD_F32, 2, {1, 4}, {4, 1}};
    const switchyard_argument given[] = {switchyard_give_tensor("x", &x), switchyard_give_tensor("out", &x)};
    switchyard_operator* softmax = NULL;
    if (switchyard_operator_open(catalog, "softmax", "host", &softmax) != 0) return fail();
    if (switchyard_call(softmax, NULL, given, 2) != 0) return fail();
    printf("%.3f\n", (double)memory[3]);
    switchyard_operator_close(softmax);
  }
  switchyard_close(catalog);
  return 0;
}
