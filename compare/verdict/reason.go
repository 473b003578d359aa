package verdict

import (
	"strings"
	"unicode"
)

// Reasons why something is skipped. Besides these there are those that an
// operator's declaration gives: that it draws random numbers, that it has no
// gradient, that what was recorded belongs to another operator.
const (
	NoOutput         = "no output.pth: nothing to compare"
	NoResult         = "the recorder has no result: nothing to compare"
	Raised           = "the call raised an error: " // and which
	NothingReturned  = "returns nothing that could be compared"
	ModuleCall       = "a module's call: those of its operators are judged"
	ValueOnly        = "a value in a model, not a call: compare and check look at it"
	NoTensorReturned = "returns no tensor"
	BetweenProcesses = "other processes decide its result"
	NoGradient       = "no gradient was recorded"
	NoGradOutput     = "no gradient of a result was recorded"
	GradOfAnotherOp  = "gradients belong to another op"
	NoDeviceCall     = "takes no call of the device"
	FallsBack        = "falls back to the CPU"
	NoGradientOfOp   = "no gradient: " // and why, as the operator declares
	OnlyIn           = "only in "      // and which of the two recordings that are compared
)

// families are reasons that name something special behind these words, and what they say without it.
var families = []struct{ words, general string }{
	{NoGradientOfOp, "the operator has no gradient"},
	{OnlyIn, "only in one of the two recordings"},
	{"object of class ", "an object, which is no value"},
	{"the library has no ", "the library lacks a function"},
}

// General is a reason without what it says of one value only: numbers, names, files and what
// explains it. Values that were not judged are counted by it.
func General(reason string) string {
	for _, f := range families {
		if strings.HasPrefix(reason, f.words) {
			return f.general
		}
	}
	name, why, ok := strings.Cut(reason, ": ")
	named := strings.HasPrefix(name, "op ") || strings.HasPrefix(name, `argument "`)
	if ok && named && strings.Count(name, " ") == 1 {
		return General(why) // `op add: why`, `argument "size": why`
	}
	reason = strings.Replace(reason, "the only element is", "all elements are", 1)
	if at := strings.IndexAny(reason, ":;,("); at >= 0 {
		reason = reason[:at]
	}
	var words []string
	for _, w := range strings.Fields(reason) {
		stem := strings.TrimSuffix(strings.TrimSuffix(w, ".pth"), ".")
		name := strings.Contains(stem, ".") || strings.ContainsAny(w, `/"_`)
		if !name && !strings.ContainsFunc(w, unicode.IsDigit) {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}
