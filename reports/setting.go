package reports

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Effects of a Setting.
const (
	Selects        = "selects"         // calls that it does not name are not looked at
	Tolerates      = "tolerates"       // it decides verdicts in place of the built-in rules
	Converts       = "converts"        // arguments are converted before they reach the device
	Excludes       = "excludes"        // what it names is not run, or not compared
	Spares         = "spares"          // what it names is not converted, or runs on the device after all
	OmitsGradients = "omits gradients" // gradients are not compared
	Fuses          = "fuses"           // calls are compared as one, with what leaves them
	Limits         = "limits"          // calls for which there was no time are not looked at
	Declares       = "declares"        // operators that it declares are judged as it says
)

// A Setting is what a run was told about what to check, and how strictly: an
// environment variable, a file or a flag.
type Setting struct {
	Kind   string `json:"kind"` // "variable", "file" or "flag"
	Name   string `json:"name"` // OP_AUTOCOMPARE_LIST, --tolerances
	Value  string `json:"value"`
	Effect string `json:"effect"`
	// Calls that were not looked at, or not compared, because of it.
	Hidden int `json:"hidden"`
	// Calls that have another verdict than without it, or whose arguments it had
	// converted, or that it spared, and those of them that fail without it and do not with it.
	Changed int `json:"changed"`
	Excused int `json:"excused"`
}

// String says what the setting did.
func (s *Setting) String() string {
	switch s.Effect {
	case Selects, Excludes, Limits:
		return Count(s.Hidden, "call") + " not checked"
	case OmitsGradients:
		return "gradients of " + Count(s.Hidden, "call") + " not checked"
	case Fuses:
		return Count(s.Hidden, "call") + " not compared by themselves"
	case Declares:
		return "its operators are judged as it says"
	case Converts:
		return Count(s.Changed, "call") + " converted"
	case Spares:
		return Count(s.Changed, "call") + " spared"
	}
	text := "changed no verdict"
	if s.Hidden > 0 {
		text = Count(s.Hidden, "call") + " not checked, " + text
	}
	if s.Changed > 0 {
		text = strings.Replace(text, "no verdict", "the verdict of "+Count(s.Changed, "call"), 1)
	}
	if s.Excused > 0 {
		without := Plural(s.Excused, "1 of which fails without it", "%d of which fail without it")
		if s.Changed == 1 {
			without = "which fails without it"
		}
		text += ", " + without
	}
	return text
}

// Settings are those of a run.
type Settings []*Setting

// Find returns the setting of that name, nil if there is none.
func (s Settings) Find(name string) *Setting {
	if i := slices.IndexFunc(s, func(x *Setting) bool { return x.Name == name }); i >= 0 {
		return s[i]
	}
	return nil
}

// Hide counts a call that the setting of that name kept from being checked.
func (s Settings) Hide(name string) {
	if x := s.Find(name); x != nil {
		x.Hidden++
	}
}

// Change counts a call that the setting of that name changed; it excused one that
// fails without it.
func (s Settings) Change(name string, excused bool) {
	if x := s.Find(name); x != nil {
		x.Changed++
		if excused {
			x.Excused++
		}
	}
}

// Uncounted are copies for a run that takes over the results: those that decide verdicts count them anew.
func (s Settings) Uncounted() (all Settings) {
	for _, x := range s {
		is := *x
		if is.Effect == Tolerates {
			is.Changed, is.Excused = 0, 0
		}
		all = append(all, &is)
	}
	return all
}

// Write prints a line for each setting, nothing if there are none.
func (s Settings) Write(w io.Writer, width int) error {
	if len(s) == 0 {
		return nil
	}
	l := NewListing(w, width, "in force", "value", "effect")
	l.Wrap()
	for _, x := range s {
		if err := l.Add(x.Kind+" "+x.Name, x.Value, x.String()); err != nil {
			return err
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}
