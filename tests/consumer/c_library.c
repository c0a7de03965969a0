// SPDX-License-Identifier: MIT
/* A C program that takes libswitchyard in. */
#include <stdio.h>

#include <switchyard/c_api.h>

int main(void) {
  switchyard_catalog* catalog = NULL;
  if (switchyard_open(NULL, &catalog) != 0) {
    puts(switchyard_last_error_text());
    return 1;
  }
  printf("generation %d\n", (int)switchyard_generation(catalog));
  switchyard_close(catalog);
  return 0;
}
