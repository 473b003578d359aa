// Attention of training: flash attention and its relatives, on padded batches and
// on sequences of varying length laid end to end, with gradients.
//
// Keys and values may have fewer heads than the queries; consecutive query heads
// then share one. Dropout draws from the generator's seed and offset; a forward
// call moves the offset on, the backward call that follows goes one step back.
#include "attention.h"

#include <cstring>
#include <vector>

#include "loop.h"

namespace host {

namespace {

constexpr uint64_t kDraw = 4;  // offset used up by a call

// Place says where the rows of one tensor lie: [sequence, position, head, dim].
struct Place {
  int64_t sequence, position, head;
};

// Sequence is one of a batch: where its rows begin and how many there are.
struct Sequence {
  int64_t queryStart, queries, keyStart, keys;  // starts in elements
};

struct Job {
  std::vector<Sequence> sequences;
  int64_t heads, keyHeads, dim;
  Place query, key;
  int64_t longest;  // rows of softmax_lse per head
  double scale;
  bool causal;
  int64_t left, right;
  Tensor alibi, mask;
  double dropout;
  uint64_t seed;
  const uint8_t* kept = nullptr;  // the mask of dropout [sequence, head, longest, longestKeys]

  int64_t longestKeys() const {
    int64_t n = 0;
    for (const Sequence& s : sequences) n = std::max(n, s.keys);
    return n;
  }
  int64_t group() const { return heads / keyHeads; }

  template <class C>
  Head<C> head(int64_t s, int64_t h, const C* q, const C* k, const C* v, const In<C>& slopes, const In<bool>& hidden) const {
    const Sequence& seq = sequences[s];
    const int64_t at = seq.keyStart + h / group() * key.head;
    Head<C> one{q + seq.queryStart + h * query.head, k + at, v + at, seq.queries, seq.keys, dim,
                query.position, key.position, key.position, static_cast<C>(scale)};
    one.causal = causal;
    one.left = left;
    one.right = right;
    if (hidden) {  // [.., .., queries, keys], its first dimensions of one or all
      const int n = hidden.shape.n;
      const int64_t rows = hidden.shape[n - 2], columns = hidden.shape[n - 1];
      int64_t plane = 0;
      if (n >= 3 && hidden.shape[n - 3] > 1) plane = n == 3 ? s : h;
      if (n >= 4 && hidden.shape[0] > 1) plane += s * hidden.shape[n - 3];
      check(rows >= seq.queries && columns >= seq.keys, "attention_mask is smaller than the scores");
      one.mask = hidden + plane * rows * columns;
      one.maskRow = columns;
      one.maskColumn = 1;
    }
    if (slopes) one.slope = slopes[(slopes.shape.n == 2 ? s * heads : 0) + h];
    one.dropout = dropout;
    one.seed = seed + static_cast<uint64_t>(s * heads + h) * 0xd1342543de82ef95u;
    if (kept) {
      one.kept = kept + (s * heads + h) * longest * longestKeys();
      one.keptRow = longestKeys();
    }
    return one;
  }
};

// padded describes [batch, position, head, dim] tensors in one of the layouts
// BSND, BNSD, BSH and SBH.
Job padded(const Tensor& q, const Tensor& k, const char* layout, int64_t heads) {
  Job job{};
  int64_t batch, queries, keys;
  const std::string l = layout;
  if (l == "BSND" || l == "BNSD") {
    check(q.dim() == 4 && k.dim() == 4, "queries and keys must have four dimensions");
    const int s = l == "BSND" ? 1 : 2, n = 3 - s;
    batch = q.size(0);
    queries = q.size(s);
    keys = k.size(s);
    job.heads = q.size(n);
    job.keyHeads = k.size(n);
    job.dim = q.size(3);
  } else {
    check(l == "BSH" || l == "SBH", "input_layout must be BSND, BNSD, BSH or SBH");
    check(q.dim() == 3 && k.dim() == 3 && heads > 0 && q.size(2) % heads == 0, "queries and keys must have three dimensions, the last divisible by head_num");
    const int b = l == "BSH" ? 0 : 1;
    batch = q.size(b);
    queries = q.size(1 - b);
    keys = k.size(1 - b);
    job.heads = heads;
    job.dim = q.size(2) / heads;
    check(job.dim > 0 && k.size(2) % job.dim == 0, "keys do not fit the dimension of a head");
    job.keyHeads = k.size(2) / job.dim;
  }
  const auto place = [&](int64_t count, int64_t positions) -> Place {
    const int64_t row = count * job.dim;
    if (l == "BNSD") return {positions * row, job.dim, positions * job.dim};
    if (l == "SBH") return {row, batch * row, job.dim};
    return {positions * row, row, job.dim};
  };
  job.query = place(job.heads, queries);
  job.key = place(job.keyHeads, keys);
  job.longest = queries;
  for (int64_t b = 0; b < batch; b++) job.sequences.push_back({b * job.query.sequence, queries, b * job.key.sequence, keys});
  return job;
}

// ragged describes [total positions, head, dim] tensors cut at the cumulative lengths.
Job ragged(const Tensor& q, const Tensor& k, const std::vector<int64_t>& queryEnds, const std::vector<int64_t>& keyEnds,
           int64_t longest) {
  check(q.dim() == 3 && k.dim() == 3, "queries and keys must have three dimensions");
  check(!queryEnds.empty() && queryEnds.size() == keyEnds.size(), "queries and keys have different numbers of sequences");
  Job job{};
  job.heads = q.size(1);
  job.keyHeads = k.size(1);
  job.dim = q.size(2);
  job.query = {0, job.heads * job.dim, job.dim};
  job.key = {0, job.keyHeads * job.dim, job.dim};
  job.longest = longest;
  for (size_t i = 0; i + 1 < queryEnds.size(); i++) {
    const Sequence s{queryEnds[i] * job.query.position, queryEnds[i + 1] - queryEnds[i], keyEnds[i] * job.key.position,
                     keyEnds[i + 1] - keyEnds[i]};
    check(queryEnds[i] >= 0 && s.queries >= 0 && queryEnds[i + 1] <= q.size(0) && keyEnds[i] >= 0 && s.keys >= 0 &&
              keyEnds[i + 1] <= k.size(0) && s.queries <= longest,
          "cumulative lengths do not fit the tensors");
    job.sequences.push_back(s);
  }
  return job;
}

std::vector<int64_t> values(const Tensor& t) {
  const In<int64_t> in(t);
  return std::vector<int64_t>(static_cast<const int64_t*>(in), in + in.numel);
}

// fromZero are cumulative lengths that, as the customized functions have them, leave out the 0 they begin with.
std::vector<int64_t> fromZero(diopiSize_t s) {
  std::vector<int64_t> ends(1, 0);
  ends.insert(ends.end(), s.data, s.data + s.len);
  return ends;
}

void settings(Job& job, double scale, bool causal, int64_t left, int64_t right, const Tensor& alibi, const Tensor& mask,
              double dropout) {
  check(job.keyHeads > 0 || job.heads == 0, "keys have no heads");
  check(job.keyHeads == 0 || job.heads % job.keyHeads == 0, "the heads of the queries cannot be divided among those of the keys");
  check(dropout >= 0 && dropout < 1, "the probability of dropout must lie in [0, 1)");
  job.scale = scale;
  job.causal = causal;
  job.left = left;
  job.right = right;
  job.alibi = alibi;
  job.mask = causal ? Tensor() : mask;  // the mask of a causal call says the same
  job.dropout = dropout;
}

// draw takes the seed of a forward call, or that of the call before for a backward one.
void draw(Job& job, diopiGeneratorHandle_t generator, bool backward) {
  if (job.dropout <= 0) return;
  check(generator != nullptr, "dropout wants a generator");
  uint64_t seed = 0, offset = 0;
  check(diopiGeneratorGetSeedAndOffset(generator, &seed, &offset) == diopiSuccess, "the generator cannot be read");
  if (backward) {
    offset -= kDraw;
  } else {
    check(diopiGeneratorSetSeedAndOffset(generator, seed, offset + kDraw) == diopiSuccess, "the generator cannot be written");
  }
  job.seed = seed * 0x9e3779b97f4a7c15u + offset;
}

void forward(const Job& job, const Tensor& out, const Tensor& lse, const Tensor& q, const Tensor& k, const Tensor& v) {
  visitFloat(q.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> query(q), key(k), value(v), slopes(job.alibi);
    const In<bool> hidden(job.mask);
    Out<C> to(out), sums(lse);
    to.zero();
    if (sums) std::fill_n(static_cast<C*>(sums), sums.numel, std::numeric_limits<C>::infinity());
    const int64_t count = static_cast<int64_t>(job.sequences.size()) * job.heads;
    parallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const int64_t s = i / job.heads, h = i % job.heads;
        const Head<C> head = job.head<C>(s, h, query, key, value, slopes, hidden);
        head.forward(to + job.sequences[s].queryStart + h * job.query.head, job.query.position, sums ? sums + i * job.longest : nullptr);
      }
    });
  });
}

void backward(const Job& job, const Tensor& gradQ, const Tensor& gradK, const Tensor& gradV, const Tensor& gradOut,
              const Tensor& q, const Tensor& k, const Tensor& v) {
  visitFloat(q.dtype, [&](auto zero) {
    using C = decltype(zero);
    const In<C> query(q), key(k), value(v), grad(gradOut), slopes(job.alibi);
    const In<bool> hidden(job.mask);
    Out<C> toQ(gradQ), toK(gradK), toV(gradV);
    toQ.zero();
    toK.zero();
    toV.zero();
    const int64_t count = static_cast<int64_t>(job.sequences.size()) * job.keyHeads;
    parallelFor(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) {
        const int64_t s = i / job.keyHeads;
        const Sequence& seq = job.sequences[s];
        const int64_t keys = seq.keyStart + i % job.keyHeads * job.key.head;
        for (int64_t h = i % job.keyHeads * job.group(); h < (i % job.keyHeads + 1) * job.group(); h++) {
          const int64_t queries = seq.queryStart + h * job.query.head;
          job.head<C>(s, h, query, key, value, slopes, hidden)
              .backward(grad + queries, job.query.position, toQ + queries, toK + keys, toV + keys);
        }
      }
    });
  });
}

// customizedForward also makes the tensors that a customized call hands out: the
// maximum and the sum of every row's softmax (as its logarithm and 1), the mask of
// dropout, and an empty softmax_out.
void customizedForward(diopiContextHandle_t ctx, Job& job, const Tensor& out, diopiTensorHandle_t* dropoutMask,
                       diopiTensorHandle_t* softmaxMax, diopiTensorHandle_t* softmaxSum, diopiTensorHandle_t* softmaxOut,
                       diopiGeneratorHandle_t gen, const Tensor& q, const Tensor& k, const Tensor& v) {
  draw(job, gen, false);
  const Dims rows{static_cast<int64_t>(job.sequences.size()), job.heads, job.longest};
  const int64_t keys = job.longestKeys();
  Tensor mask;
  if (job.dropout > 0 && dropoutMask) {
    Dims shape = rows;
    shape.push(keys);
    *dropoutMask = requireTensor(ctx, shape, diopi_dtype_uint8);
    mask = Tensor(*dropoutMask);
    fillZero(mask);
    for (int64_t i = 0; i < rows.product(); i++) {
      const Sequence& s = job.sequences[i / job.longest / job.heads];
      const uint64_t seed = job.seed + static_cast<uint64_t>(i / job.longest) * 0xd1342543de82ef95u;
      const int64_t row = i % job.longest;
      for (int64_t j = 0; row < s.queries && j < s.keys; j++) {
        mask.ptr<uint8_t>()[i * keys + j] = Head<float>::keeps(seed, static_cast<uint64_t>(row * s.keys + j), job.dropout);
      }
    }
  }
  Tensor lse;
  if (softmaxMax) {
    *softmaxMax = requireTensor(ctx, rows, diopi_dtype_float32);
    lse = Tensor(*softmaxMax);
  }
  forward(job, out, lse, q, k, v);
  if (softmaxSum) {
    *softmaxSum = requireTensor(ctx, rows, diopi_dtype_float32);
    fill(Tensor(*softmaxSum), scalar(1.0));
  }
  if (softmaxOut) *softmaxOut = requireTensor(ctx, Dims{0}, q.dtype);
}

// useMask makes a backward call drop what the forward call's mask says.
void useMask(Job& job, const Tensor& mask) {
  if (job.dropout <= 0) return;
  check(mask && mask.dtype == diopi_dtype_uint8 && mask.contiguous(), "the dropout mask of the forward call is missing");
  job.kept = mask.ptr<uint8_t>();
}

}  // namespace

}  // namespace host

using namespace host;

extern "C" {

diopiError_t diopiFlashAttention(diopiContextHandle_t, diopiTensorHandle_t attention_out, diopiTensorHandle_t softmax_lse,
                                 diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                 diopiConstTensorHandle_t v, diopiConstTensorHandle_t alibi_slopes, float p_dropout,
                                 float softmax_scale, bool is_causal, int32_t window_size_left, int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = padded(q, k, "BSND", 0);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, Tensor(), p_dropout);
    draw(job, gen, false);
    forward(job, attention_out, softmax_lse, q, k, v);
  });
}

diopiError_t diopiFlashAttentionBackward(diopiContextHandle_t, diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k,
                                         diopiTensorHandle_t grad_v, diopiConstTensorHandle_t grad_output,
                                         diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                         diopiConstTensorHandle_t v, diopiConstTensorHandle_t alibi_slopes,
                                         diopiConstTensorHandle_t, diopiConstTensorHandle_t, float p_dropout,
                                         float softmax_scale, bool is_causal, int32_t window_size_left,
                                         int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = padded(q, k, "BSND", 0);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, Tensor(), p_dropout);
    draw(job, gen, true);
    backward(job, grad_q, grad_k, grad_v, grad_output, q, k, v);
  });
}

diopiError_t diopiFlashAttentionVarLen(diopiContextHandle_t, diopiTensorHandle_t attention_out, diopiTensorHandle_t softmax_lse,
                                       diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                       diopiConstTensorHandle_t v, diopiConstTensorHandle_t cum_seq_q,
                                       diopiConstTensorHandle_t cum_seq_kv, diopiConstTensorHandle_t alibi_slopes,
                                       int32_t max_seqlen_q, int32_t, float p_dropout, float softmax_scale, bool is_causal,
                                       int32_t window_size_left, int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, values(Tensor(cum_seq_q)), values(Tensor(cum_seq_kv)), max_seqlen_q);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, Tensor(), p_dropout);
    draw(job, gen, false);
    forward(job, attention_out, softmax_lse, q, k, v);
  });
}

diopiError_t diopiFlashAttentionVarLenBackward(
    diopiContextHandle_t, diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k, diopiTensorHandle_t grad_v,
    diopiConstTensorHandle_t grad_output, diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
    diopiConstTensorHandle_t v, diopiConstTensorHandle_t cum_seq_q, diopiConstTensorHandle_t cum_seq_kv,
    diopiConstTensorHandle_t alibi_slopes, diopiConstTensorHandle_t, diopiConstTensorHandle_t, int32_t max_seqlen_q, int32_t,
    float p_dropout, float softmax_scale, bool is_causal, int32_t window_size_left, int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, values(Tensor(cum_seq_q)), values(Tensor(cum_seq_kv)), max_seqlen_q);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, Tensor(), p_dropout);
    draw(job, gen, true);
    backward(job, grad_q, grad_k, grad_v, grad_output, q, k, v);
  });
}

diopiError_t diopiMultiHeadAttention(diopiContextHandle_t, diopiTensorHandle_t q, diopiTensorHandle_t k, diopiTensorHandle_t v,
                                     double dropout_p, bool is_causal, bool, double scale, diopiTensorHandle_t out,
                                     diopiTensorHandle_t softmax_lse, diopiGeneratorHandle_t gen, diopiTensorHandle_t) {
  return guard(__func__, [&] {
    Job job = padded(q, k, "BSND", 0);
    settings(job, scale, is_causal, -1, -1, Tensor(), Tensor(), dropout_p);
    draw(job, gen, false);
    forward(job, out, softmax_lse, q, k, v);
  });
}

diopiError_t diopiMultiHeadAttentionBackward(diopiContextHandle_t, diopiConstTensorHandle_t grad_out,
                                             diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                             diopiConstTensorHandle_t v, diopiConstTensorHandle_t, diopiConstTensorHandle_t,
                                             double dropout_p, bool is_causal, diopiGeneratorHandle_t gen, double scale,
                                             diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k,
                                             diopiTensorHandle_t grad_v) {
  return guard(__func__, [&] {
    Job job = padded(q, k, "BSND", 0);
    settings(job, scale, is_causal, -1, -1, Tensor(), Tensor(), dropout_p);
    draw(job, gen, true);
    backward(job, grad_q, grad_k, grad_v, grad_out, q, k, v);
  });
}

diopiError_t diopiMultiHeadAttentionVarLen(diopiContextHandle_t, diopiTensorHandle_t q, diopiTensorHandle_t k,
                                           diopiTensorHandle_t v, diopiConstTensorHandle_t cum_seq_q,
                                           diopiConstTensorHandle_t cum_seq_k, int64_t max_q, int64_t, double dropout_p,
                                           bool is_causal, bool, double scale, diopiTensorHandle_t out,
                                           diopiTensorHandle_t softmax_lse, diopiGeneratorHandle_t gen, diopiTensorHandle_t) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, values(Tensor(cum_seq_q)), values(Tensor(cum_seq_k)), max_q);
    settings(job, scale, is_causal, -1, -1, Tensor(), Tensor(), dropout_p);
    draw(job, gen, false);
    forward(job, out, softmax_lse, q, k, v);
  });
}

diopiError_t diopiMultiHeadAttentionVarLenBackward(
    diopiContextHandle_t, diopiConstTensorHandle_t grad_out, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
    diopiConstTensorHandle_t v, diopiConstTensorHandle_t, diopiConstTensorHandle_t, diopiConstTensorHandle_t cum_seq_q,
    diopiConstTensorHandle_t cum_seq_k, int64_t max_q, int64_t, double dropout_p, bool is_causal, diopiGeneratorHandle_t gen,
    double scale, diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k, diopiTensorHandle_t grad_v) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, values(Tensor(cum_seq_q)), values(Tensor(cum_seq_k)), max_q);
    settings(job, scale, is_causal, -1, -1, Tensor(), Tensor(), dropout_p);
    draw(job, gen, true);
    backward(job, grad_q, grad_k, grad_v, grad_out, q, k, v);
  });
}

diopiError_t diopiCustomizedFlashAttention(diopiContextHandle_t ctx, diopiTensorHandle_t attention_out,
                                           diopiTensorHandle_t* dropout_mask, diopiTensorHandle_t* softmax_max,
                                           diopiTensorHandle_t* softmax_sum, diopiTensorHandle_t* softmax_out,
                                           diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k,
                                           diopiConstTensorHandle_t v, diopiConstTensorHandle_t alibi_slopes,
                                           diopiConstTensorHandle_t attention_mask, float p_dropout, float softmax_scale,
                                           bool is_causal, int32_t window_size_left, int32_t window_size_right,
                                           int32_t head_num, const char* input_layout) {
  return guard(__func__, [&] {
    Job job = padded(q, k, input_layout, head_num);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, attention_mask, p_dropout);
    customizedForward(ctx, job, attention_out, dropout_mask, softmax_max, softmax_sum, softmax_out, gen, q, k, v);
  });
}

diopiError_t diopiCustomizedFlashAttentionBackward(
    diopiContextHandle_t, diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k, diopiTensorHandle_t grad_v,
    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k, diopiConstTensorHandle_t v,
    diopiConstTensorHandle_t alibi_slopes, diopiConstTensorHandle_t, diopiConstTensorHandle_t attention_mask,
    diopiConstTensorHandle_t dropout_mask, diopiConstTensorHandle_t, diopiConstTensorHandle_t, diopiConstTensorHandle_t,
    float p_dropout, float softmax_scale, bool is_causal, int32_t window_size_left, int32_t window_size_right,
    int32_t head_num, const char* input_layout) {
  return guard(__func__, [&] {
    Job job = padded(q, k, input_layout, head_num);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, attention_mask, p_dropout);
    useMask(job, dropout_mask);
    backward(job, grad_q, grad_k, grad_v, grad_output, q, k, v);
  });
}

diopiError_t diopiCustomizedFlashAttentionVarLen(
    diopiContextHandle_t ctx, diopiTensorHandle_t attention_out, diopiTensorHandle_t* dropout_mask,
    diopiTensorHandle_t* softmax_max, diopiTensorHandle_t* softmax_sum, diopiTensorHandle_t* softmax_out,
    diopiGeneratorHandle_t gen, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k, diopiConstTensorHandle_t v,
    diopiSize_t cum_seq_q, diopiSize_t cum_seq_kv, diopiConstTensorHandle_t alibi_slopes,
    diopiConstTensorHandle_t attention_mask, int32_t max_seqlen_q, int32_t, float p_dropout, float softmax_scale,
    bool is_causal, int32_t window_size_left, int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, fromZero(cum_seq_q), fromZero(cum_seq_kv), max_seqlen_q);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, attention_mask, p_dropout);
    customizedForward(ctx, job, attention_out, dropout_mask, softmax_max, softmax_sum, softmax_out, gen, q, k, v);
  });
}

diopiError_t diopiCustomizedFlashAttentionVarLenBackward(
    diopiContextHandle_t, diopiTensorHandle_t grad_q, diopiTensorHandle_t grad_k, diopiTensorHandle_t grad_v,
    diopiConstTensorHandle_t grad_output, diopiConstTensorHandle_t q, diopiConstTensorHandle_t k, diopiConstTensorHandle_t v,
    diopiSize_t cum_seq_q, diopiSize_t cum_seq_kv, diopiConstTensorHandle_t alibi_slopes, diopiConstTensorHandle_t,
    diopiConstTensorHandle_t attention_mask, diopiConstTensorHandle_t dropout_mask, diopiConstTensorHandle_t,
    diopiConstTensorHandle_t, diopiConstTensorHandle_t, int32_t max_seqlen_q, int32_t, float p_dropout, float softmax_scale,
    bool is_causal, int32_t window_size_left, int32_t window_size_right) {
  return guard(__func__, [&] {
    Job job = ragged(q, k, fromZero(cum_seq_q), fromZero(cum_seq_kv), max_seqlen_q);
    settings(job, softmax_scale, is_causal, window_size_left, window_size_right, alibi_slopes, attention_mask, p_dropout);
    useMask(job, dropout_mask);
    backward(job, grad_q, grad_k, grad_v, grad_output, q, k, v);
  });
}

}  // extern "C"
