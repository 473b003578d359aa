// Package causes finds what went wrong in a call: a mistake under which the reference gives what was recorded.
//
// Search.Mistakes is the table of hypotheses. A generator makes the mistakes of one kind for any operator: other
// arguments, other operators, operands that are read, rounded or laid out in another way, terms that are masked,
// results that are written elsewhere or altered, numbers that are fitted. Generators combine: a mistake may be
// confined to the place of the errors, or have a factor besides. What only one operator gets wrong, the operator
// declares (opdef.Mistake).
//
// # Evidence
//
// One rule holds for all of them. Each element that a mistake brings nearer to what was recorded explains as many bits
// as its distance shrinks by, at most as many as its dtype has, and fewer where rounding is in the way (Evidence). Of n
// mistakes that were tried, one explains log2(n) bits by chance. A cause has to explain 14 bits more, so that one wrong
// cause in 16,000 values that are wrong at random is due. A number that was fitted to the value costs its own bits.
//
// # Non-goals
//
// Nothing here decides whether a value is wrong: package replay does, with its bounds. It also runs the call under each
// mistake, and a mistake that leaves a value outside of its bounds is no cause.
package causes
