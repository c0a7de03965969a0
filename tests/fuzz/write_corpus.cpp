// SPDX-License-Identifier: MIT
// Writes the corpus of bad files as seeds, the large ones left out: write_corpus CORPUS FOLDER.
#include "corpus/bad_files.hpp"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const test::bad_files corpus{argv[1]};
  for (const auto& sample : corpus.cases())
    if (!sample.contains("grow")) (void)corpus.write(sample, argv[2]);
}
