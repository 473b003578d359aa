package devicecheck

import (
	"slices"
	"strings"

	"github.com/optool/optool/ops/opcheck"
)

// A Function is what the cases of all operators said of a function of a library.
type Function struct {
	Function string `json:"function"`
	Cases    int    `json:"cases"`  // that called it
	Judged   int    `json:"judged"` // of these
	Wrong    int    `json:"wrong"`  // of these, by a value that it gave
	// Refused are the dtypes of which it took no case. Those cases were run in other dtypes.
	Refused []string `json:"refused"`
	// Never are the arguments that had only their defaults in all cases that were judged.
	Never []string `json:"never_judged"`
}

// Functions collect what cases say of functions, by name.
type Functions map[string]*collected

// collected is what is known of a function.
type collected struct {
	Function
	refused   []string        // dtypes
	taken     map[string]bool // dtypes
	given     []string        // arguments that are not their defaults, also of cases that were refused
	effective map[string]bool // of these, those of a case that was judged
}

// Of is what was collected of a function.
func (fs Functions) Of(name string) *Function {
	c := fs[name]
	if c == nil {
		return &Function{Function: name, Refused: []string{}, Never: []string{}}
	}
	f := c.Function
	f.Refused = slices.DeleteFunc(append([]string{}, c.refused...), func(dt string) bool { return c.taken[dt] })
	f.Never = slices.DeleteFunc(append([]string{}, c.given...), func(arg string) bool { return c.effective[arg] })
	return &f
}

// Add collects what the cases of an operator say, and returns the functions that they called, as far as the library has
// them.
func (fs Functions) Add(out *opcheck.Outcome, has func(function string) bool) (called []string) {
	for _, t := range out.Tries {
		for _, f := range slices.Concat(t.Forward, t.Backward) {
			if has(f) && !slices.Contains(called, f) {
				called = append(called, f)
			}
		}
	}
	for _, f := range called {
		if fs[f] == nil {
			fs[f] = &collected{Function: Function{Function: f}, taken: map[string]bool{}, effective: map[string]bool{}}
		}
		fs[f].add(out.Tries)
	}
	return called
}

func (c *collected) add(tries []*opcheck.Try) {
	cases, judged, wrong := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for _, t := range tries {
		if !slices.Contains(t.Forward, c.Function.Function) && !slices.Contains(t.Backward, c.Function.Function) {
			continue
		}
		cases[t.Case], judged[t.Case] = true, judged[t.Case] || t.Judged
		for _, f := range t.Findings {
			wrong[t.Case] = wrong[t.Case] || slices.Contains(strings.Split(f.Functions, ", "), c.Function.Function)
		}
		took := t.Judged && (!t.Refused || !slices.Contains(t.Backward, c.Function.Function))
		if !took && !t.Refused {
			continue // for want of another function
		}
		switch dt := t.DType(); {
		case dt == "":
		case took:
			c.taken[dt] = true
		case !slices.Contains(c.refused, dt):
			c.refused = append(c.refused, dt)
		}
		for _, a := range t.Call.Arguments() {
			if a.Required || a.IsDefault() {
				continue
			}
			if !slices.Contains(c.given, a.Name) {
				c.given = append(c.given, a.Name)
			}
			c.effective[a.Name] = c.effective[a.Name] || took
		}
	}
	c.Cases += len(cases)
	for i := range cases {
		if judged[i] {
			c.Judged++
		}
		if wrong[i] {
			c.Wrong++
		}
	}
}
