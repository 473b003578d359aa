// Package compare answers two questions about a recorded tensor and a
// reference: what would op_tools print for the pair (OpToolsTensors,
// OpToolsValues), and is the difference rounding or a bug (Check)?
//
// It does not compute references, decide which values belong together, or
// print. Tensors are walked once, in blocks and in parallel; nothing is
// materialised, and results do not depend on the number of goroutines.
//
// # The error model
//
// The reference r is exact for practical purposes: it was computed in float64,
// or in complex128 or integers, and not rounded. It is rounded once to the
// dtype of the recorded value, as oneDNN's benchdnn rounds what it expects (doc
// "benchdnn general info"), so that a correctly rounded result is never off. A
// comparison with fixed tolerances (PyTorch's assert_close has one pair per
// dtype, op_tools another) cannot serve as a verdict: an absolute error that is
// harmless after cancellation is a bug elsewhere. Instead each op declares a
// Model, and an element x passes if it is the rounded reference or
//
//	|x - r| <= k*ulp(r) + c(n)*u*S
//
// where k is Model.ULPs, ulp(r) the spacing of the dtype at r, S = Model.Scale
// the sum of the magnitudes of the n = Model.Terms terms that were added, and u
// the unit roundoff of what a sound device accumulates in: 2^-24 (float32) for
// dtypes of 32 bits or fewer, 2^-53 for float64 and complex128. The first term
// is the final rounding, the second the rounding of the sum.
//
// Adding n terms in any order is off by at most about n*u*S (N. J. Higham,
// Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2). With
// roundings that are independent, lambda*sqrt(n)*u*S holds with overwhelming
// probability for a lambda of a few (N. J. Higham and T. Mary, A New Approach
// to Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41, 2019).
// Simulated float32 sums, one term after the other, were off by at most
//
//	3.5 u*S               products of normal numbers, n from 8 to 8192
//	0.85 sqrt(n) u*S      products of uniform numbers in (0, 1)
//	n/4 u*S               n equal terms: here roundings are not independent
//
// and far less with 16 partial sums (0.5, 5 and 130 u*S at n = 8192). Hence
//
//	c(n) = 4 + 4 sqrt(n),  n at most 2^20
//
// covers equal terms in chains of up to 256 and everything else several times
// over. At n = 8192 and float32 the second term is 2.2e-5 S. For products of random
// signs, S is 10 to 60 times the largest result. So errors of a tenth of a per cent of
// the largest value stay visible.
//
// S is computed only where it decides. A sum of magnitudes is at least the
// magnitude of the sum, so that an element within k*ulp(r) + c(n)*u*|r| does not
// need it (Model.Covers). For the other elements, a lower bound of S is computed first, if
// the operator has one (Model.Least). Then S is computed in pieces of a block, or block by
// block if there are many. A tenth of the terms is enough for nearly all sound elements:
// they are off by a few u*S, while c(n) is 36 to 4000.
//
// Terms below the accumulator's smallest normal number (2^-126, for float64
// 2^-1022) lose bits, and many devices flush them to zero; sums may be off by
// c(n) times that number besides.
//
// Parts of complex numbers are judged one by one, with the ULP of the modulus.
// NaN must meet NaN and Inf must meet Inf. Near the largest value either may be Inf
// if the exact value is within the bound of overflowing. Signs of zero matter where
// values are moved (Model.Moved). They also matter where IEEE 754 fixes them: in
// products, quotients, square roots and rounding (Model.Signed). Exact ops, integers
// and bool must be equal.
//
// # Accumulated in low precision
//
// Some devices (and torch's CPU kernels) accumulate bfloat16 in bfloat16. An
// element outside the bound above, of a 16-bit dtype, but within
//
//	k*ulp(r) + 6*u'*S    u' = 2^-8 for bfloat16, 2^-11 for float16 and float8
//
// is a warning. Sums of random signs are off by 0.5 u'*S (root mean square) for
// every n, and by at most 3.5 u'*S in 40,000 sums. The tail is exponential, and the
// factor 6 leaves room for it. A product of n factors that is rounded after each factor is
// off by the sum of n roundings of its own size. That was at most 2 sqrt(n) u' in 200
// products of up to 1,000 factors (Model.Factors). For products, 3 sqrt(n) u' replaces 6 u'
// if it is larger. For large n, S is far larger than the results, and this bound would
// hide real errors. So a warning must also look like rounding: it becomes a failure
//
//   - if all values are off by one factor: its least-squares estimate is more
//     than 4 eps from 1 and more than 6 standard errors;
//   - if the tensor ends in zeros where the reference does not, by more than the errors of the other elements;
//   - if one |x-r|/S exceeds the root mean square of the others that are not
//     exact by more than 10 + ln(number of elements). An exponential tail does not
//     (from 8 elements on). Errors of the size of roundings of subnormal numbers
//     count on neither side.
//
// Values with equal errors everywhere and no pattern remain a warning: one tensor
// does not tell them from accumulation in bfloat16. Functions of one element add
// nothing (Model.Single). Their warning says that intermediate results were rounded:
// torch 1.13 computes gelu so. Roundings of subnormal numbers, float16's below 2^-14,
// add 3 sqrt(n) of the smallest.
//
// # Added one after the other
//
// torch's CPU kernels add the terms of some 16-bit gradients (weight and bias of
// normalisations) row after row in the dtype. The error of such a sum is at most u'
// times the sum of the partial sums' magnitudes, sum |s_k| (Higham, section 4.2).
// Model.Chain gives this bound. It can be as large as the sum: more than 2^9 equal terms
// in bfloat16 stagnate. An error within it is a warning, unless a common factor is larger
// than it explains. All zeros are a failure.
//
// A sum of n > c(n) terms of float32 or wider that is outside of c(n)*u*S is a warning within
//
//	k*ulp(r) + c(n)*u*S + n/2*u*|r|
//
// since partial sums grow to |r|, and their roundings may all lie to one side where
// terms are equal: 32,128 terms of one sign may be off by 1e-3 of the result. A large first
// term and 48 small ones, as of an attention to one key, may be off by 48*u*|r|.
//
// # Jumps
//
// If a function or its derivative jumps within rounding of an argument, both sides
// are right (Model.Else). Examples are the slope of hardswish at 3, the gradient of
// grid_sample's positions on a grid line, and a limit of 0.1, which bfloat16 does not
// have. float8_e4m3fn has no infinity: an overflow is NaN in torch before 2.12, and the
// largest value since then and on GPUs. The sign of a number is exact in every dtype, so
// a jump at 0 has one right side. A sum of powers that overflows its accumulator may be
// infinite although its root is finite.
//
// # All elements together
//
// A tensor whose elements are each within their bounds may still be wrong: sums
// have wide bounds, and a kernel that scales, shifts or truncates stays inside.
// Distribution measures in one pass how far all elements are from the nearest values of
// the dtype. It reads evenly spread blocks of a large tensor. It estimates
//
//   - the common factor and the offset by least squares. The standard error does not
//     assume errors of one size. Beyond 8 eps of float32, or 0.25 eps of a 16-bit
//     dtype, and 8 standard errors, it is a failure. Sound kernels multiply all
//     elements by one number if results are rounded on the way, and in gradients (of
//     a mean, of a saved norm, near one pole): 1 eps of 16 bits, 64 of float32 are
//     allowed there. Elements that share terms which cancel may be off together, by
//     2*u*S each;
//   - the mean difference of elements that had to be rounded, in ULP. It is half an
//     ULP if a kernel truncates. Beyond 0.25 and 8 standard errors it is a warning
//     that says how the kernel rounds, if nearly no element is off by more than an ULP.
//
// torch's CPU kernels showed factors of up to 0.8 eps in float32 and 0.17 eps in 16
// bits (0.41 in gradients); docs/verdicts.md has the figures and how to repeat them.
//
// # Mistrusted
//
// If both sides are all zero, all NaN or empty, equality proves little. The verdict
// says so, unless the op makes such results (Model.Trivial). The same holds if the
// terms of every element cancel so well that its bound reaches zero, as in the gradient
// of a softmax whose results are then summed. The recorded values are then only
// rounding, and any other rounding, or zeros, would pass too. They are not mistrusted if
// a quarter of at least 64 elements that are not zero are within k*ulp(r): rounding is
// not that close by chance.
//
// # Tolerances
//
// Tolerances finds op_tools' tolerance of a value: its defaults, its environment
// variables, a YAML file in layers (ToleranceFile), the command line. One that
// was asked for replaces the model; Result.Rule names the rule that decided.
package compare
