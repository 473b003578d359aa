package reports

import (
	"slices"

	"github.com/optool/optool/compare/verdict"
)

// wordsOf explain verdicts to people who do not know the program.
var wordsOf = []Fact{
	{string(verdict.Warn), "more than rounding usually does, but explained by a lower precision inside: look at it"},
	{string(verdict.Repaired), "right, and wrong in the recording compared with"},
	{string(verdict.Known), "wrong, and already on the list of known failures"},
	{string(verdict.StillWrong), "wrong, and was wrong before: in the run or in the recording compared with"},
	{string(verdict.Mistrusted), "not judged: no error was seen, but that proves little: all zeros, or only rounding noise"},
	{string(verdict.Unsupported), "not judged: optool has no reference for this operator, argument or dtype"},
	{string(verdict.Skipped), "not judged for another reason, such as random numbers; the reason says which"},
}

// Glossary explains the words that the reports of the run use.
func (rec *Recording) Glossary() (words []Fact) {
	switch {
	case len(rec.Timings) > 0:
		return rec.timingWords()
	case rec.Overflow:
		return nil
	}
	used := rec.Summary.used()
	if rec.Summary.Differs() || slices.Contains(used, verdict.Known) {
		words = append(words, Fact{"error in %", "the largest difference of a value, divided by its largest correct element"},
			Fact{"ulp", "the distance between two neighbouring numbers of a dtype, the smallest error there is"})
	}
	for _, w := range wordsOf {
		if slices.Contains(used, verdict.Verdict(w.Name)) {
			words = append(words, w)
		}
	}
	return append(words, Fact{"capture", "the recording of one call; a call has several values, its results and gradients"})
}
