// Operators of language model inference: attention on sequences that share
// tensors or a paged cache, rotary embedding, copies into the cache, penalties.
#include <cmath>
#include <vector>

#include "attention.h"
#include "loop.h"
#include "sums.h"

namespace host {

namespace {

// checked reads indices and makes sure that they lie below a limit.
In<int64_t> checked(const Tensor& t, int64_t limit) {
  In<int64_t> in(t);
  for (int64_t i = 0; i < in.numel; i++) {
    if (in[i] < 0 || in[i] >= limit) fail("index " + std::to_string(in[i]) + " lies outside of [0, " + std::to_string(limit) + ")");
  }
  return in;
}

// Sequences are parts of the rows of one tensor.
struct Sequences {
  In<int64_t> start, length;
  Sequences(const Tensor& starts, const Tensor& lengths, int64_t rows) : start(starts), length(lengths) {
    check(start.numel == length.numel, "there must be one start and one length per sequence");
    for (int64_t i = 0; i < start.numel; i++) {
      check(start[i] >= 0 && length[i] >= 0 && start[i] + length[i] <= rows, "a sequence lies outside of the tensor");
    }
  }
  int64_t count() const { return start.numel; }
};

// cached returns the cache rows of a sequence, which end a row of b_loc's first
// max_input_len entries.
std::vector<int64_t> cached(const In<int64_t>& locations, int64_t columns, int64_t sequence, int64_t length, int64_t longest) {
  check(length <= longest && longest <= columns, "b_loc is shorter than the sequences");
  const int64_t* row = locations + sequence * columns + longest - length;
  return std::vector<int64_t>(row, row + length);
}

template <class C>
C dot(const C* a, const C* b, int64_t n) {
  return sumOf<C>(n, [&](int64_t i) { return a[i] * b[i]; });
}

// rotate applies a rotation to a pair of halves, rows of `half` elements each.
template <class C>
void rotate(const C* x, C* y, const C* cos, const C* sin, int64_t half, bool back, bool neighbours = false) {
  for (int64_t j = 0; j < half; j++) {
    const int64_t first = neighbours ? 2 * j : j, second = neighbours ? first + 1 : half + j;
    const C a = x[first], b = x[second], s = back ? -sin[j] : sin[j];
    y[first] = a * cos[j] - b * s;
    y[second] = a * s + b * cos[j];
  }
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiContextAttentionInference(diopiContextHandle_t, diopiTensorHandle_t context_attention_out,
                                            diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                            diopiConstTensorHandle_t v, diopiConstTensorHandle_t b_start_loc,
                                            diopiConstTensorHandle_t b_seq_len, int) {
  return guard(__func__, [&] {
    const Tensor query(q), keys(k);
    check(query.dim() == 3 && keys.dim() == 3 && keys.size(1) > 0, "q and k must have three dimensions");
    const int64_t heads = query.size(1), dim = query.size(2), group = heads / keys.size(1), width = keys.size(1) * dim;
    const Sequences sequences(b_start_loc, b_seq_len, query.size(0));
    visitFloat(query.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> qs(query), ks(keys), vs(v);
      Out<C> to(context_attention_out);
      to.load();
      parallelFor(sequences.count() * heads, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
          const int64_t s = i / heads, h = i % heads, start = sequences.start[s];
          const int64_t key = start * width + h / group * dim;
          Head<C> head{qs + (start * heads + h) * dim, ks + key, vs + key, sequences.length[s], sequences.length[s], dim,
                       heads * dim, width, width, C(1) / std::sqrt(static_cast<C>(dim))};
          head.causal = true;
          head.forward(to + (start * heads + h) * dim, heads * dim, nullptr);
        }
      });
    });
  });
}

// out[h, start + j] is the scaled product of the query with the j-th cached key.
diopiError_t diopiTokenAttentionInference(diopiContextHandle_t, diopiTensorHandle_t token_attention_out,
                                          diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                          diopiConstTensorHandle_t b_loc, diopiConstTensorHandle_t b_start_loc,
                                          diopiConstTensorHandle_t b_seq_len, int max_input_len) {
  return guard(__func__, [&] {
    const Tensor query(q), keys(k), out(token_attention_out), table(b_loc);
    const int64_t heads = query.size(1), dim = query.size(2), group = heads / std::max<int64_t>(1, keys.size(1));
    const Sequences sequences(b_start_loc, b_seq_len, out.size(1));
    const In<int64_t> locations = checked(table, keys.size(0));
    visitFloat(query.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> qs(query), ks(keys);
      Out<C> to(out);
      to.load();
      for (int64_t s = 0; s < sequences.count(); s++) {
        const std::vector<int64_t> rows = cached(locations, table.size(1), s, sequences.length[s], max_input_len);
        for (int64_t h = 0; h < heads; h++) {
          for (size_t j = 0; j < rows.size(); j++) {
            to[h * out.size(1) + sequences.start[s] + static_cast<int64_t>(j)] =
                dot<C>(qs + (s * heads + h) * dim, ks + (rows[j] * keys.size(1) + h / group) * dim, dim) /
                std::sqrt(static_cast<C>(dim));
          }
        }
      }
    });
  });
}

// The softmax of token attention's scores, times the cached values.
diopiError_t diopiTokenSoftmaxReduceVInference(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t logics,
                                               diopiConstTensorHandle_t v, diopiConstTensorHandle_t b_loc,
                                               diopiConstTensorHandle_t b_start_loc, diopiConstTensorHandle_t b_seq_len,
                                               int max_input_len, int) {
  return guard(__func__, [&] {
    const Tensor scores(logics), values(v), table(b_loc), target(out);
    const int64_t heads = target.size(1), dim = target.size(2), group = heads / std::max<int64_t>(1, values.size(1));
    const Sequences sequences(b_start_loc, b_seq_len, scores.size(1));
    const In<int64_t> locations = checked(table, values.size(0));
    visitFloat(target.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(scores), vs(values);
      Out<C> to(target);
      to.load();
      for (int64_t s = 0; s < sequences.count(); s++) {
        const std::vector<int64_t> rows = cached(locations, table.size(1), s, sequences.length[s], max_input_len);
        const int64_t n = static_cast<int64_t>(rows.size());
        Scratch<C> p(n);
        for (int64_t h = 0; h < heads; h++) {
          softmaxRow<C>(from + h * scores.size(1) + sequences.start[s], p, n);
          C* row = to + (s * heads + h) * dim;
          std::fill_n(row, dim, C(0));
          for (int64_t j = 0; j < n; j++) {
            const C* value = vs + (rows[j] * values.size(1) + h / group) * dim;
            for (int64_t d = 0; d < dim; d++) row[d] += p[j] * value[d];
          }
        }
      }
    });
  });
}

// Prompts of one length, [batch * length, heads * dim]; atten_mask is true where
// a key is hidden from a query, and only the first actual_seq_lengths count.
diopiError_t diopiPromptFlashAttention(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t query,
                                       diopiConstTensorHandle_t key, diopiConstTensorHandle_t value,
                                       diopiConstTensorHandle_t atten_mask, diopiSize_t actual_seq_lengths,
                                       int64_t max_input_len, int64_t num_heads, int64_t num_kv_heads, int64_t dim) {
  return guard(__func__, [&] {
    const Tensor q(query), mask(atten_mask);
    if (num_kv_heads == 0) num_kv_heads = num_heads;
    check(num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads == 0, "the query heads cannot be divided among the key heads");
    const int64_t width = num_heads * dim, keyWidth = num_kv_heads * dim, batch = actual_seq_lengths.len;
    check(q.numel == batch * max_input_len * width, "query has the wrong number of elements");
    visitFloat(q.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> qs(q), ks(key), vs(value);
      const In<bool> hidden(mask);
      check(ks.numel == batch * max_input_len * keyWidth && vs.numel == ks.numel, "key or value has the wrong number of elements");
      check(!hidden || (hidden.numel > 0 && hidden.numel % (max_input_len * max_input_len) == 0), "atten_mask has the wrong shape");
      Out<C> to(out);
      to.zero();
      for (int64_t b = 0; b < batch; b++) {
        const int64_t length = actual_seq_lengths.data[b];
        check(length >= 0 && length <= max_input_len, "a sequence is longer than max_input_len");
        parallelFor(num_heads, 1, [&](int64_t begin, int64_t end) {
          for (int64_t h = begin; h < end; h++) {
            const int64_t at = b * max_input_len * width + h * dim;
            const int64_t from = b * max_input_len * keyWidth + h / (num_heads / num_kv_heads) * dim;
            Head<C> head{qs + at, ks + from, vs + from, length, length, dim, width, keyWidth, keyWidth,
                         C(1) / std::sqrt(static_cast<C>(dim))};
            if (hidden) {
              const int64_t plane = max_input_len * max_input_len;
              head.mask = hidden + b % (hidden.numel / plane) * plane;
              head.maskRow = max_input_len;
              head.maskColumn = 1;
            }
            head.forward(to + at, width, nullptr);
          }
        });
      }
    });
  });
}

// One query per sequence on keys and values in blocks of block_size rows, which
// block_table lists in order.
diopiError_t diopiPagedAttention(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t q,
                                 diopiConstTensorHandle_t k, diopiConstTensorHandle_t v, diopiConstTensorHandle_t attenMask,
                                 diopiSize_t actual_seq_lengths, int64_t num_heads, int64_t num_kv_heads, int64_t dim,
                                 diopiConstTensorHandle_t block_table, int64_t block_size) {
  return guard(__func__, [&] {
    const Tensor query(q), table(block_table), mask(attenMask);
    if (num_kv_heads == 0) num_kv_heads = num_heads;
    check(num_heads > 0 && num_kv_heads > 0 && num_heads % num_kv_heads == 0, "the query heads cannot be divided among the key heads");
    check(table.dim() == 2 && block_size > 0, "block_table wants a row of blocks per sequence");
    const int64_t batch = actual_seq_lengths.len, width = num_heads * dim, keyWidth = num_kv_heads * dim;
    check(query.numel == batch * width && table.size(0) >= batch, "query or block_table does not fit the sequences");
    visitFloat(query.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> qs(query), ks(k), vs(v);
      const In<int64_t> blocks(table);
      const In<bool> hidden(mask);
      const int64_t rows = ks.numel / keyWidth;
      Out<C> to(out);
      for (int64_t b = 0; b < batch; b++) {
        const int64_t length = actual_seq_lengths.data[b];
        check(length >= 0 && length <= table.size(1) * block_size, "a sequence is longer than its blocks");
        Scratch<C> keys(length * keyWidth), values(length * keyWidth);
        for (int64_t t = 0; t < length; t++) {
          const int64_t row = blocks[b * table.size(1) + t / block_size] * block_size + t % block_size;
          check(row >= 0 && row < rows, "a block lies outside of the cache");
          std::copy_n(ks + row * keyWidth, keyWidth, keys + t * keyWidth);
          std::copy_n(vs + row * keyWidth, keyWidth, values + t * keyWidth);
        }
        parallelFor(num_heads, 1, [&](int64_t begin, int64_t end) {
          for (int64_t h = begin; h < end; h++) {
            const int64_t from = h / (num_heads / num_kv_heads) * dim;
            Head<C> head{qs + b * width + h * dim, keys + from, values + from, 1, length, dim, width, keyWidth, keyWidth,
                         C(1) / std::sqrt(static_cast<C>(dim))};
            if (hidden) {
              const int64_t columns = hidden.shape[hidden.shape.n - 1];
              check(columns >= length, "attenMask is shorter than a sequence");
              head.mask = hidden + b % (hidden.numel / columns) * columns;
              head.maskRow = columns;
              head.maskColumn = 1;
            }
            head.forward(to + b * width + h * dim, width, nullptr);
          }
        });
      }
    });
  });
}

diopiError_t diopiRotaryEmbedding(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t x,
                                  diopiConstTensorHandle_t cos, diopiConstTensorHandle_t sin, const bool conj,
                                  const bool interleaved) {
  return guard(__func__, [&] {
    const Tensor input(x);
    check(input.dim() > 0 && input.size(input.dim() - 1) % 2 == 0, "the last dimension must be even");
    Dims angles = input.shape;
    const int64_t half = angles[angles.n - 1] /= 2;
    visitFloat(input.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> from(input), c(Tensor(cos), angles), s(Tensor(sin), angles);
      Out<C> to(out);
      parallelFor(half > 0 ? from.numel / (2 * half) : 0, grainFor(half * 6), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) {
          rotate<C>(from + 2 * i * half, to + 2 * i * half, c + i * half, s + i * half, half, conj, interleaved);
        }
      });
    });
  });
}

// Query and key [tokens, heads * dim] are rotated in place; cos and sin hold a value
// for every element of a head.
diopiError_t diopiRotaryEmbeddingV2(diopiContextHandle_t, diopiTensorHandle_t query, diopiTensorHandle_t key,
                                    diopiConstTensorHandle_t cos, diopiConstTensorHandle_t sin, int64_t dim) {
  return guard(__func__, [&] {
    check(dim > 0 && dim % 2 == 0, "dim must be even");
    for (const Tensor& t : {Tensor(query), Tensor(key)}) {
      if (!t) continue;
      const int64_t tokens = t.dim() > 0 ? t.size(0) : 1, heads = t.numel / std::max<int64_t>(1, tokens * dim);
      check(t.numel == tokens * heads * dim, "query or key cannot be divided into heads of dim elements");
      visitFloat(t.dtype, [&](auto zero) {
        using C = decltype(zero);
        const Dims shape{tokens, heads, dim};
        const In<C> c(Tensor(cos), shape), s(Tensor(sin), shape);
        Out<C> to(t);
        to.load();
        const int64_t half = dim / 2;
        for (int64_t base = 0; base < t.numel; base += dim) {
          for (int64_t j = base; j < base + half; j++) {
            const C a = to[j], b = to[j + half];
            to[j] = a * c[j] - b * s[j];
            to[j + half] = b * c[j + half] + a * s[j + half];
          }
        }
      });
    }
  });
}

// out[dest_loc[i]] = k[i].
diopiError_t diopiDestIndexCopyKV(diopiContextHandle_t, diopiTensorHandle_t out, diopiConstTensorHandle_t k,
                                  diopiConstTensorHandle_t dest_loc) {
  return guard(__func__, [&] {
    const Tensor to(out), from(k);
    check(to.dim() > 0 && from.dim() > 0, "out and k want a first dimension");
    const In<int64_t> rows = checked(dest_loc, to.size(0));
    check(rows.numel == from.size(0), "dest_loc wants an element per row of k");
    for (int64_t i = 0; i < rows.numel; i++) copy(to.select(0, rows[i]), from.select(0, i));
  });
}

// Lowers the logits of tokens that occurred: by frequency for every time, by
// presence once. The tokens of row i are those from p_cumsum_seq_len[i] on.
diopiError_t diopiApplyPenalty(diopiContextHandle_t, diopiTensorHandle_t logits, diopiConstTensorHandle_t presence_penalty,
                               diopiConstTensorHandle_t frequency_penalty, diopiConstTensorHandle_t p_token_ids,
                               diopiConstTensorHandle_t p_token_counts, diopiConstTensorHandle_t p_cumsum_seq_len, int) {
  return guard(__func__, [&] {
    const Tensor t(logits);
    check(t.dim() == 2, "logits must have two dimensions");
    const In<int64_t> ids = checked(p_token_ids, t.size(1)), ends = checked(p_cumsum_seq_len, ids.numel + 1);
    check(ends.numel == t.size(0) + 1, "p_cumsum_seq_len wants one element more than the batch");
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const In<C> presence(presence_penalty), frequency(frequency_penalty), counts(p_token_counts);
      Out<C> to(t);
      to.load();
      for (int64_t i = 0; i < t.size(0); i++) {
        for (int64_t j = ends[i]; j < ends[i + 1]; j++) to[i * t.size(1) + ids[j]] -= counts[j] * frequency[i] + presence[i];
      }
    });
  });
}

// The same on flat token positions, with one penalty per token; repetition divides
// a positive logit and multiplies a negative one first.
diopiError_t diopiApplyPenaltyV2(diopiContextHandle_t, diopiTensorHandle_t logits, diopiConstTensorHandle_t presence_penalty,
                                 diopiConstTensorHandle_t frequency_penalty, diopiConstTensorHandle_t repetition_penalty,
                                 diopiConstTensorHandle_t p_token_ids, diopiConstTensorHandle_t p_token_counts) {
  return guard(__func__, [&] {
    const Tensor t(logits);
    const In<int64_t> ids = checked(p_token_ids, t.numel);
    visitFloat(t.dtype, [&](auto zero) {
      using C = decltype(zero);
      const Dims one{ids.numel};
      const In<C> presence(Tensor(presence_penalty), one), frequency(Tensor(frequency_penalty), one),
          repetition(Tensor(repetition_penalty), one), counts(Tensor(p_token_counts), one);
      Out<C> to(t);
      to.load();
      for (int64_t j = 0; j < ids.numel; j++) {
        const C x = to[ids[j]], scaled = x > 0 ? x / repetition[j] : x * repetition[j];
        to[ids[j]] = scaled - counts[j] * frequency[j] - presence[j];
      }
    });
  });
}

}  // extern "C"
