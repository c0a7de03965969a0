// SPDX-License-Identifier: MIT
#include "bpe.hpp"

#include <algorithm>

namespace llm {
namespace {

/// Up to this many symbols, looking at all of them for each merge is faster than a queue.
constexpr std::size_t max_short = 32;

constexpr token_id merged_away = -1;

}  // namespace

void bpe::encode(std::string_view word, std::vector<token_id>& out) {
  symbols_.clear();
  for (const char byte : word) {
    const token_id token = tokens_->of_byte(byte);
    if (token >= 0) symbols_.push_back({token, {}, 0, 0});
  }
  if (symbols_.size() <= max_short) {
    merge_short();
  } else {
    merge_long();
  }
  for (const symbol& piece : symbols_) {
    if (piece.token != merged_away) out.push_back(piece.token);
  }
}

void bpe::merge_short() {
  for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) {
    symbols_[i].with_next = tokens_->find_merge(symbols_[i].token, symbols_[i + 1].token);
  }
  while (symbols_.size() > 1) {
    // The last symbol's merge is never set, so it is not found.
    const auto first = std::min_element(
        symbols_.begin(), symbols_.end(),
        [](const symbol& left, const symbol& right) { return left.with_next.rank < right.with_next.rank; });
    if (!first->with_next) return;
    first->token = first->with_next.result;
    const auto after = symbols_.erase(first + 1);
    first->with_next = after == symbols_.end() ? merge{} : tokens_->find_merge(first->token, after->token);
    if (first != symbols_.begin()) {
      const auto before = first - 1;
      before->with_next = tokens_->find_merge(before->token, first->token);
    }
  }
}

void bpe::push(std::size_t left, std::size_t right) {
  const merge found = tokens_->find_merge(symbols_[left].token, symbols_[right].token);
  if (!found) return;
  queue_.push_back({found.rank, left, symbols_[left].token, symbols_[right].token, found.result});
}

void bpe::merge_long() {
  const std::size_t count = symbols_.size();
  const auto later = [](const candidate& a, const candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  queue_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    symbols_[i].previous = i - 1;  // of the first: not used
    symbols_[i].next = i + 1;
    if (i + 1 < count) push(i, i + 1);
  }
  std::make_heap(queue_.begin(), queue_.end(), later);
  const auto add = [&](std::size_t left, std::size_t right) {
    const std::size_t before = queue_.size();
    push(left, right);
    if (queue_.size() != before) std::push_heap(queue_.begin(), queue_.end(), later);
  };
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), later);
    const candidate best = queue_.back();
    queue_.pop_back();
    symbol& left = symbols_[best.at];
    if (left.token != best.left || left.next == count) continue;  // merged meanwhile
    symbol& right = symbols_[left.next];
    if (right.token != best.right) continue;
    left.token = best.result;
    right.token = merged_away;
    left.next = right.next;
    if (left.next != count) {
      symbols_[left.next].previous = best.at;
      add(best.at, left.next);
    }
    if (best.at != 0) add(left.previous, best.at);
  }
}

}  // namespace llm
