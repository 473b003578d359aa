// Package causes finds the mistake in a call: with this mistake the reference gives the recorded values.
//
// Search.Mistakes is the table of hypotheses. A generator makes the mistakes of one kind for any operator: other
// arguments, other operators, operands that are read, rounded or laid out in another way, terms that are masked,
// results that are written elsewhere or altered, numbers that are fitted. Generators combine: a mistake may be
// confined to the place of the errors, or have a factor besides. An operator declares the mistakes that only it can
// have (opdef.Mistake).
//
// # Evidence
//
// One rule holds for all of them. A mistake brings elements nearer to the recorded values. Each such element explains
// the bits by which its distance shrinks: at most those of its dtype, and fewer where rounding hides them (Evidence).
// If n mistakes were tried, one of them explains log2(n) bits by chance. A cause must explain 14 bits more. So one in
// 16,000 values that are wrong at random gets a wrong cause. A number that was fitted to the value costs its own bits.
// A mistake that changes nothing, or what another changed, is none that was tried. One that an operator lists, or
// another formula of it, needs knownBits less.
//
// # Non-goals
//
// Nothing here decides whether a value is wrong: package replay does, with its bounds. It also runs the call under each
// mistake, and a mistake that leaves a value outside of its bounds is no cause.
package causes
