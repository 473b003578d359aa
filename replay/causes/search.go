package causes

import (
	"iter"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// A Search is what is known of a call of which values are wrong.
type Search struct {
	Bound    *opdef.Call
	Op       string // the recorded name
	Registry *opdef.Registry
	Ran      *opdef.Forward // of the sound call, nil if it was not run
	Original map[*tensor.Tensor]*tensor.Tensor
	Incoming []*tensor.Tensor // recorded gradients of results
	Recorded []*tensor.Tensor // results
	// Due are the sound values of a pass, "output" or "grad", by their targets.
	Due func(pass string) iter.Seq2[string, *tensor.Tensor]
	// Under is a value of the call that runs another way, nil if there is none.
	Under func(w Way, target string) *tensor.Tensor
	// Few are some elements of a value that failed, as they were recorded, as they are due, and as the call gives them
	// that runs another way. Most of them are wrong. It computes little else, and gives nil if there is no such value.
	Few func(w Way, target string) (got, due, made []float64)
	// Elsewhere runs f while the memory of the operands holds other bytes: those that like gives for a tensor there, if
	// that is not nil. under is a value of the call that runs another way then. nil: it cannot.
	Elsewhere func(like func(t *tensor.Tensor) []byte, f func(under func(w Way, target string) *tensor.Tensor))
	// Changed is an argument as a call that ran has changed it, by its target, nil if it has not.
	Changed   func(f *opdef.Forward, target string) *tensor.Tensor
	Work      *Work
	Likely    []string // texts of mistakes that are tried first
	InFormula int      // the number of elements of operands up to which formulas are tried, if that is more than usual
	// Guard runs what reads or computes tensors.
	Guard func(f func() error) error

	form   *opdef.Call          // see formula
	formed bool                 // form is known
	bare   map[string][]float64 // some elements that form gives of values that failed, where it explains them
	looked int                  // mistakes that few elements refuted before they were tried
	// gradientsOnly says that no result failed, and firstFail is the first value that did.
	gradientsOnly bool
	firstFail     string
}

// A Wrong is a value that failed, with the one that is due; both are nil if there are no such tensors.
type Wrong struct {
	Target    string // "output[0]", "grad[1]", "input[0]"
	Got, Want *tensor.Tensor
	// Allowed is what an element may be off by; nil if that is not known. It can panic with a *tensor.ReadError.
	Allowed func(at int) float64
}

// Pair is the recorded value and the one that is due, false if one of them is no tensor.
func (w *Wrong) Pair() (got, want *tensor.Tensor, ok bool) {
	return w.Got, w.Want, w.Got != nil && w.Want != nil
}

// floats is Pair of floating values of one shape that are not too large to copy.
func (w *Wrong) floats() (got, want *tensor.Tensor, ok bool) {
	got, want, ok = w.Pair()
	return got, want, ok && got.DType.IsFloat() && slices.Equal(got.Shape, want.Shape) && got.Numel() <= largestOperand
}

// Numel is the number of recorded elements.
func (w *Wrong) Numel() int {
	if w.Got == nil {
		return 0
	}
	return w.Got.Numel()
}

// Forward reports whether the value is a result, or an argument that the call changes.
func (w *Wrong) Forward() bool { return !w.Backward() }

// Backward reports whether the value is a gradient.
func (w *Wrong) Backward() bool { return strings.HasPrefix(w.Target, "grad") }

// A Way is how a call may have run: other arguments, other values.
type Way struct {
	Call *opdef.Call
	// Original maps the tensors of Call to the recorded ones they stand for.
	Original map[*tensor.Tensor]*tensor.Tensor
	Alter    Alteration // nil: none
	// Mistaken gives a part of the sound call the mistake that Call has, one that the operator declares; nil if Call
	// has none, or the part is too small for it.
	Mistaken func(part *opdef.Call) (*opdef.Call, error)
	// OnlyIncoming says that Alter changes the gradients that a backward pass starts from, and nothing else.
	OnlyIncoming bool
}

// An Alteration makes what is compared of a value of the reference, by its target. The gradient that a backward pass
// starts from has the target Incoming.
type Alteration func(target string, t *tensor.Tensor) *tensor.Tensor

// Incoming is the target of the gradients that a backward pass starts from.
const Incoming = "grad_output"

// Then is the way whose values are altered once more.
func (w Way) Then(next Alteration) Way {
	first := w.Alter
	w.OnlyIncoming = false
	w.Alter = func(target string, t *tensor.Tensor) *tensor.Tensor {
		if first != nil {
			t = first(target, t)
		}
		return next(target, t)
	}
	return w
}

// altering is the call as it is, of which other values are compared.
func (c *Search) altering(alter Alteration) func() (Way, error) {
	return func() (Way, error) { return Way{Call: c.Bound, Original: c.Original, Alter: alter}, nil }
}

// alteringIncoming is the call as it is whose backward pass starts from other gradients.
func (c *Search) alteringIncoming(f func(t *tensor.Tensor) *tensor.Tensor) func() (Way, error) {
	return func() (Way, error) {
		return Way{Call: c.Bound, Original: c.Original, OnlyIncoming: true,
			Alter: func(target string, t *tensor.Tensor) *tensor.Tensor {
				if target != Incoming {
					return t
				}
				return f(t)
			}}, nil
	}
}

// recorded is the recorded tensor that an argument of the call stands for.
func (c *Search) recorded(t *tensor.Tensor) *tensor.Tensor {
	if o, ok := c.Original[t]; ok {
		return o
	}
	return t
}

// A Mistake is a way to run a call wrongly.
type Mistake struct {
	Text string
	Make func() (Way, error)
	// Truly is the text, where that takes long to tell; it is asked for once the mistake explains something. nil: Text.
	Truly  func() string
	Rounds bool   // see opdef.Mistake
	Like   string // what it is one value of: once one explains, others are not tried
	// Unfitted: nothing in it was fitted, though others are like it.
	Unfitted bool
	// Gradients: see opdef.Mistake; it explains no result.
	Gradients bool
	All       bool // it explains nothing unless it explains all that failed
	// Numbers says that it takes numbers for others. Where only one number is, many such mistakes do the same.
	Numbers bool
	// Degrees is how many numbers it takes for others, 0 if that is not known: it explains no more than these hold.
	Degrees int
	// Scales says that it multiplies an operand by a number. Another factor of the result is no mistake besides.
	Scales bool
	// Everywhere: it shows in all results and gradients, so that one that is right but would not be refutes it.
	Everywhere bool
	// OnlyHere: it holds numbers of the values of this call, or where they lie, or what was computed of them, and makes
	// nothing of other operands.
	OnlyHere bool
	// Precision: see opdef.Mistake.
	Precision bool
	Known     bool // kernels are known to make it: see knownBits
	// Expected says that it is as likely as that a bit is flipped: an argument that has another value, a sign.
	Expected bool
	// Rival: it is another operator, which gives the values themselves, not values that rounding its steps to 16 bits
	// may explain.
	Rival bool
	// NotFinite: it says that numbers overflow on the way, or are NaN.
	NotFinite bool
	// Limits: it takes one number for all that are beyond it. Which those are says as much as what they hold.
	Limits bool
	// Number is the value of an argument, or of something else that is a number.
	Number *otherNumber
	Of     string // the argument that it gives another value, if it is of one
	// Argument says that an argument has another number than its default or 0, which are those of an ignored one.
	Argument bool
	// Cost is how many bits of what was recorded went into the mistake: numbers that were fitted, the place of errors.
	Cost float64
}

// truly is Truly of a mistake with a text around that of this one, nil if that is its Text.
func (m Mistake) truly(around func(text string) string) func() string {
	if m.Truly == nil {
		return nil
	}
	return func() string { return around(m.Truly()) }
}

// Few is of how many elements that were wrong one may still be under the mistake: of more
// where a number was fitted to them, which comes near to much.
func (m Mistake) Few() int {
	if m.Like != "" && !m.Unfitted {
		return 50
	}
	return 20
}

// An otherNumber is what a mistake takes for another number, with the call that takes any number for it.
type otherNumber struct {
	x, was float64
	with   func(x float64) (Way, error)
}

// A Cause is a mistake under which the reference gives what was recorded: another
// argument, an operand that was read or rounded in another way.
type Cause struct {
	Text string // "eps is 0.01, not 1e-05"
	// Targets are the values that fail and that it explains.
	Targets []string
	// Exact says that each explained element is the nearest value of its dtype.
	Exact bool
	// Share is the part of the elements that is explained: below 1 where values are
	// rounded on the way, and some lie near the middle between two.
	Share float64
	// Pattern says that nothing was found that reproduces the value: Text is what its errors
	// depend on, "it is wrong only where self is below 0.5".
	Pattern bool
	// Moot says that the call cannot be made with the mistake, so that it counts as none that was tried.
	Moot bool
	// Number: see Mistake.Argument. Whatever else explains as much is likelier.
	Number bool
	// Bits is how much of what was recorded the mistake explains and the sound call does not: see Evidence. BitsOf is
	// the same of each of Targets, nil if it is not counted.
	Bits   float64
	BitsOf []float64

	mistake   *Mistake
	oneNumber bool // see isOneNumber
	zeros     bool // all of the value is zero
}

// Mistakes are the kinds of what kernels get wrong, the likeliest first: arguments, results as
// such, what the operator declares, precision, how operands lie in memory, parts of
// them left out. Those of which a number is fitted to what was recorded, those that are
// confined to the place of the errors, and others that take long, come apart.
func (c *Search) Mistakes(fails []Wrong) (all, rest []iter.Seq[Mistake]) {
	if onlyNumbers(fails) {
		// another argument comes first: one number has few bits to tell steps apart
		all = []iter.Seq[Mistake]{c.misread(asHalves), c.wrongArguments(), c.declared(), c.formulas(fails),
			c.varied(fails)}
	}
	local := []iter.Seq[Mistake]{c.wrongArguments(), c.exchangedArguments(), c.declared(), c.listed(),
		c.listedResults(fails), c.absentArguments(), c.incompleteTiles(),
		c.movedTensors(), c.leftOut(), c.passedGradients(), c.derivedOtherwise(fails), c.takenFor(),
		c.takenForOtherwise(), c.misderived(fails),
		c.unsigned(), c.rounded(fails), c.gradientFactors(fails),
		c.misread(inMemory), c.misread(c.inOtherStrides()), c.paddedOperands(fails), c.constantOperands(),
		c.misread(ofElements), c.misread(asOtherDTypes), c.altered(fails, writtenAsOtherDTypes),
		c.misbroadcast(), c.misread(alongDimensions),
		c.permutedTogether(), c.swappedOperands(), c.altered(fails, ofElements), c.missingIndices(), c.missingParts(),
		c.missingRows(), c.lostDuplicates(fails), c.shifted(), c.twice(), c.averagedGradients(fails),
		c.byResults(fails), c.misreadIncoming(inMemory), c.misreadIncoming(ofElements),
		c.misreadIncoming(alongDimensions), c.untransposed(fails)}
	// The first judgedTogether kinds are those up to listedResults.
	if slices.ContainsFunc(fails, func(w Wrong) bool { return w.Got != nil && w.Got.DType.IsIntegral() }) {
		all = append(all, c.altered(fails, wrapping)) // few numbers show it
	}
	all = slices.Concat(all, []iter.Seq[Mistake]{c.negated(fails)}, local[:2],
		[]iter.Seq[Mistake]{c.plainFactors(fails)},
		[]iter.Seq[Mistake]{c.passing(fails), c.gatheredIncoming(fails), c.misread(ofIndices), c.misindexed(),
			c.misplacedResults(fails), c.exchanged(fails)},
		local[2:],
		[]iter.Seq[Mistake]{c.addedValues(fails), c.wrongSizes(), c.keptSums(fails), c.keptGradients(fails)})
	return all, []iter.Seq[Mistake]{c.roundedNumbers(fails), c.formulas(fails), c.cancelled(fails),
		c.ofComplex(fails), c.wholeTogether(),
		c.singled(),
		c.croppedElsewhere(fails), c.chosenInPlace(fails), c.spreadSums(fails),
		c.scaledTerms(fails), c.positioned(fails), c.otherwiseAdded(fails),
		c.constants(fails, plainNamed), c.approximated(fails), c.strided(fails),
		c.overflowed(fails), c.misranked(fails), c.byMagnitude(fails), c.tied(fails), c.inOtherOrder(fails),
		c.mispassed(fails), c.zeroTimes(fails), c.unfilledHalves(fails), c.together(ofWholeNumbers),
		c.together(inMemory),
		c.overwritten(fails), c.overwrittenResults(fails), c.keptIndices(fails),
		c.pickedIndices(fails), c.resultsInOrder(fails), c.carried(fails), c.contributed(fails), c.misread(remapped),
		c.misreadIncoming(remapped),
		c.movedFactors(), c.addedOperands(), c.relatives(fails), c.termed(fails),
		c.backwards(), c.varied(fails), c.expressed(fails), c.polynomials(fails),
		c.keptTails(fails), c.piledUp(fails),
		c.reduced(fails), c.sectioned(fails), c.mergedSections(fails), c.unfinished(fails),
		c.lackingWhere(fails), c.unwrittenEdges(fails), c.unwrittenAt(fails),
		c.displaced(fails), c.missingFactors(fails),
		c.fittedNumbers(fails, 0), c.factorsAlong(fails), c.oddArguments(), c.constants(fails, plainGeneric),
		c.constants(fails, asIf),
		c.averaged(), c.ofOneResult(fails), c.transposed(fails), c.copiedTiles(fails), c.repeatedRuns(fails),
		c.joinedSections(fails),
		c.exchangedBlocks(), c.alteredBlocks(), c.twoArguments(fails), c.limited(fails), c.weightedParts(fails, nil),
		c.misread(withinLimits), c.misread(inFewBits), c.together(inFewBits), c.altered(fails, inFewBits),
		c.misread(inOtherLayouts), c.misreadIncoming(inOtherLayouts), c.misread(offsetParts),
		c.misreadIncoming(offsetParts),
		c.misreadIncoming(pushed), c.misread(slidInMemory), c.misreadIncoming(slidInMemory),
		c.confined(fails, slices.Concat(local,
			[]iter.Seq[Mistake]{c.misread(remapped), c.misread(rolled)})),
		c.scaledBesides(fails, local)}
}

// onlyNumbers reports whether all values that failed have one element. The first ofNumbers kinds are of these then.
func onlyNumbers(fails []Wrong) bool {
	return !slices.ContainsFunc(fails, func(w Wrong) bool { return w.Numel() != 1 })
}

const ofNumbers = 5

// upTo are the numbers from lo to below hi.
func upTo(lo, hi int) []int {
	idx := tensor.Make[int](hi - lo)
	for i := range idx {
		idx[i] = lo + i
	}
	return idx
}

// Nearness is how much nearer values have to be under a mistake.
const Nearness = 8
