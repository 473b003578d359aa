package reports

import (
	"fmt"
	"slices"
)

// A Wrapper is a function of the program that wraps one of torch's. What is called inside was judged, but not the
// wrapper.
type Wrapper struct {
	Function string `json:"function"` // torch's: "torch.nn.functional.layer_norm"
	By       string `json:"by"`       // the program's, and where it is: "__main__.layer_norm (train.py:9)"
}

// String says that the wrapper was not judged.
func (w Wrapper) String() string {
	return fmt.Sprintf("%s is wrapped by %s: what it does around torch's own was not judged", Name(w.Function),
		OneLine(w.By))
}

// mostWrapped is how many wrappers are named.
const mostWrapped = 4

// addWrapped takes note of the wrappers inside of which a call was made.
func (s *Summary) addWrapped(r *Result) {
	for _, w := range r.Wrapped {
		if len(s.wrapped) < maxOps && !slices.Contains(s.wrapped, w) {
			s.wrapped = append(s.wrapped, w)
		}
	}
}

// wrappedLines say of the wrappers that they were not judged, and how to record them so that they are.
func (s *Summary) wrappedLines() (lines []string) {
	for i, w := range s.wrapped {
		if i == mostWrapped {
			return append(lines, fmt.Sprintf("%s of torch are wrapped by the program, too: what the wrappers do around "+
				"torch's own was not judged", Count(len(s.wrapped)-i, "further function")))
		}
		lines = append(lines, fmt.Sprintf("%s; record with wrap=[%q] to judge it", w, w.Function))
	}
	return lines
}
