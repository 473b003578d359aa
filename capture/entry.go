package capture

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/optool/optool/internal/files"
)

// A Kind is one of the files of a recorded call.
type Kind uint8

// The files, in the order in which they are written and shown.
const (
	Input Kind = iota
	Output
	GradInputs
	GradOutputs
	After // the arguments after the call; not written by op_tools
	numKinds
)

var kindNames = [numKinds]string{"input", "output", "grad_inputs", "grad_outputs", "after"}

// String is the stem of the file: "grad_inputs".
func (k Kind) String() string { return kindNames[k] }

// Kinds lists all kinds in order.
func Kinds() []Kind { return []Kind{Input, Output, GradInputs, GradOutputs, After} }

// A FileSet says which files exist.
type FileSet uint8

// Has reports whether the file of kind k exists.
func (s FileSet) Has(k Kind) bool { return s&(1<<k) != 0 }

func (s *FileSet) add(k Kind) { *s |= 1 << k }

// String lists the stems, separated by commas.
func (s FileSet) String() string {
	var names []string
	for _, k := range Kinds() {
		if s.Has(k) {
			names = append(names, k.String())
		}
	}
	return strings.Join(names, ",")
}

// A Side is one of the two runs of a failure that op_tools saved.
type Side uint8

// Device is the run that was checked, and the only side of a plain capture;
// Host is the one it was compared with.
const (
	Device Side = iota
	Host
)

func (s Side) String() string { return [...]string{"device", "cpu"}[s] }

// An Entry is one recorded call, found by its path; nothing was read yet.
// Entries are small (a few hundred bytes) and immutable.
type Entry struct {
	Rel  string // name in results: relative to the PATH given, "." for that itself
	Dir  string // directory of the capture, to open files in
	Name        // what the path tells

	Files FileSet // the call's files (those of the device side of a saved failure)
	Host  FileSet // the host side of a saved failure

	// What only other producers record; numbers are -1 and strings empty where it is
	// not known.
	Call          string // name within the process and step: "Functional.silu.0"
	Step          int
	Order         int       // position among what the process recorded, from 0
	BackwardOrder int       // the same of the call's backward pass
	GradientOrder int       // the same of what came after its first gradient of an argument; 0: not known
	LaterOrder    []int     // the same of later backward passes, whose gradients LoadLater opens
	Occurrence    int       // 1 for the first call of its operator in its process, and so on; 0 if Scan did not find it
	Module        string    // path of the module that made the call: "blocks.0.mlp"
	Location      string    // line of the user's that made the call: "train.py:67"
	Torch         string    // version of torch that the program ran with, "" if it is not known
	Python        string    // path of the Python that ran the program, "" if it is not known
	Params        []string  // names of the positional arguments, of a function of the program's own
	Replaced      string    // the program's function that was in the place of torch's: "mymod.fast_gelu"
	ReplacedAt    string    // where that is defined: "/src/mymod.py:4"; "" where it is not known
	Wrapped       []Wrapper // functions of torch that the program wraps, and inside of which it made the call
	Raised        string    // the error that the call raised: "ValueError: Expected more than 1 spatial element"
	// Autocast has the dtypes that torch.autocast had by type of device ("cpu": "bfloat16"), none where it was off;
	// nil: not known.
	Autocast map[string]string
	Group    []int // ranks of a collective, in the group's order; nil if not known
	// GroupName tells groups of the same ranks apart, "" if the recorder does not know it.
	GroupName string
	Within    int // ID of the recorded call inside of which this one was made, -1 for none
	// WithinBackward is the ID of the recorded call in whose backward pass this one was made, -1 for none.
	WithinBackward int
	// Unended says why the recording of the process is not whole, so that calls and gradients may be missing; "" if it
	// is.
	Unended   string
	DrawnFrom int // number of the program's own generator that the call drew from, from 1; 0 for none
	// GeneratorSets are the settings of torch's own generators in the process, in order; nil if the recorder does not
	// know them.
	GeneratorSets []GeneratorSet
	// OptimizerSteps are the steps of optimizers in the process, in order; nil if the recorder does not know them.
	OptimizerSteps []OptimizerStep

	rec    recording // where the values are; nil in op_tools' files
	notRun string    // see NotRun

	single string // base name of a file that was given or found by itself
	sides  sides
}

// An OptimizerStep is a step that an optimizer made, of the parameters that it was given: it leaves out those that have
// no gradient.
type OptimizerStep struct {
	Params []string // their names, "" of those without one
	Order  int      // its place among the events of the process, as Entry.Order
}

// A Wrapper is a function of the program that wraps one of torch's and looks like it (functools.wraps). The recorder
// records what is called inside, and no call of the wrapper itself.
type Wrapper struct {
	Function string `json:"function"` // torch's: "torch.nn.functional.layer_norm"
	By       string `json:"by"`       // the program's, and where it is: "__main__.layer_norm (train.py:9)"
}

// Position is the place of the call among those of its process: where only hooks
// were counted, its number. It is -1 where neither is known.
func (e *Entry) Position() int {
	if e.Order >= 0 {
		return e.Order
	}
	return e.ID
}

// Compare orders the calls of one process as the program made them.
func (e *Entry) Compare(o *Entry) int {
	return cmp.Or(e.Step-o.Step, e.Position()-o.Position(), strings.Compare(e.Time, o.Time))
}

// ByOther reports whether the values are not in op_tools' files.
func (e *Entry) ByOther() bool { return e.rec != nil }

// NotRun says why the entry is not the call of an operator, for a result that is
// skipped; "" if it is one.
func (e *Entry) NotRun() string { return e.notRun }

// IsPair reports whether the entry is a failure saved with both sides.
func (e *Entry) IsPair() bool { return e.sides != plain }

// Has reports whether a file exists.
func (e *Entry) Has(s Side, k Kind) bool {
	if s == Host {
		return e.Host.Has(k)
	}
	return e.Files.Has(k)
}

// Number is the call's number and time as op_tools prints them; identifier is that
// in its files, for where neither is known.
func (e *Entry) Number(identifier string) string {
	switch {
	case e.ID >= 0 && e.Time != "":
		return fmt.Sprintf("%d/%s", e.ID, e.Time)
	case e.ID >= 0:
		return strconv.Itoa(e.ID)
	}
	return cmp.Or(identifier, "-")
}

// Path is where the file of kind k on side s is, whether it exists or not.
func (e *Entry) Path(s Side, k Kind) string { return filepath.Join(e.Dir, e.base(s, k)) }

// RelPath is Path as results name it: relative to the PATH given.
func (e *Entry) RelPath(s Side, k Kind) string {
	if e.single != "" {
		return e.Rel
	}
	return filepath.ToSlash(filepath.Join(e.Rel, e.base(s, k)))
}

func (e *Entry) base(s Side, k Kind) string {
	switch {
	case e.single != "":
		return e.single
	case e.rec != nil:
		return k.String()
	case e.sides == folders:
		return s.String() + "/" + k.String() + ".pth"
	case e.sides == flat:
		return s.String() + "_" + k.String() + ".pth"
	}
	return k.String() + ".pth"
}

// A FileRef names one existing file of an entry.
type FileRef struct {
	Side Side
	Kind Kind
}

// All lists the files that exist: the device side first, each in order.
func (e *Entry) All() []FileRef {
	var refs []FileRef
	for _, s := range []Side{Device, Host} {
		for _, k := range Kinds() {
			if e.Has(s, k) {
				refs = append(refs, FileRef{s, k})
			}
		}
	}
	return refs
}

// Parts are where the values of the call lie. Files that cannot be examined are left out.
func (e *Entry) Parts() []files.Part {
	if e.rec != nil {
		return e.rec.parts()
	}
	var paths []string
	for _, r := range e.All() {
		paths = append(paths, e.Path(r.Side, r.Kind))
	}
	return files.Wholes(paths...)
}

// Bytes is how many bytes hold the values of the call, as far as they can be examined.
func (e *Entry) Bytes() int64 {
	if m, ok := e.rec.(measured); ok {
		return m.bytes()
	}
	return files.Bytes(e.Parts())
}

// newSingle is the entry of one .pth file.
func newSingle(dir, base, abs, rel string) *Entry {
	e := &Entry{Rel: rel, Dir: dir, single: base, Name: parseName(abs, plain), Step: -1, Order: -1, BackwardOrder: -1,
		Within: -1, WithinBackward: -1}
	e.Layout = File
	e.Files.add(singleKind(base))
	return e
}

// singleKind guesses from its name which file of a call a file is; any other
// name is taken for a call.
func singleKind(base string) Kind {
	if _, k, ok := fileOf(base); ok {
		return k
	}
	return Input
}

// fileOf parses the name of a file that belongs to a capture.
func fileOf(base string) (prefix string, k Kind, ok bool) {
	stem, isPth := strings.CutSuffix(base, ".pth")
	if !isPth {
		return "", 0, false
	}
	for _, s := range []Side{Device, Host} {
		if rest, cut := strings.CutPrefix(stem, s.String()+"_"); cut {
			prefix, stem = s.String(), rest
		}
	}
	for _, k := range Kinds() {
		if stem == k.String() {
			return prefix, k, true
		}
	}
	return "", 0, false
}

// AutocastOf is the dtype that Entry.Autocast has for tensors of a device ("cuda:0"; "" is the CPU), "" if none.
func AutocastOf(dtypes map[string]string, device string) string {
	kind, _, _ := strings.Cut(cmp.Or(device, "cpu"), ":")
	return dtypes[kind]
}
