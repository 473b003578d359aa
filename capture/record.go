package capture

import (
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Record is the content of one file of a capture, as op_tools wrote it: the
// dict with the keys name, args, kwargs and identifier.
type Record struct {
	Name       string        // dotted name of the op
	Args       []value.Value // positional arguments, results or gradients
	Kwargs     *value.Dict   // never nil
	Identifier string        // "<id>/<time>/<file>"; empty where there is none
	Unknown    bool          // None may be a value that the producer does not know

	// Placed is how a DTensor among the values lies on several processes: its value is the part of this process.
	Placed string
	// Unseen are the tensors of an After record that the producer did not look at after the call: it saw no change.
	Unseen map[*tensor.Tensor]bool
	// Names are the names of parameters and buffers in the model, as far as the producer knows them.
	Names map[*tensor.Tensor]string
	// Terms are the ranks whose parts add up to a DTensor that is a partial sum; a DTensor that is none has no ranks.
	Terms map[*tensor.Tensor][]int
	// Means are those of these DTensors that are the mean of the parts.
	Means map[*tensor.Tensor]bool
	// Copies are the numbers of mesh dimensions along which DTensors are said to be replicated.
	Copies map[*tensor.Tensor]int
}

// ErrNotCapture is wrapped by the errors of ParseRecord for files that hold
// something else, such as a model checkpoint.
var ErrNotCapture = errors.New("not a capture")

// ParseRecord checks that root, the object of a file, is a record and returns
// it. A list of args counts as a tuple; kwargs and identifier may be missing.
func ParseRecord(root value.Value) (*Record, error) {
	d, ok := root.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("%w: not a dict", ErrNotCapture)
	}
	name, hasName := d.Get("name")
	args, hasArgs := d.Get("args")
	switch {
	case !hasName && !hasArgs:
		return nil, fmt.Errorf("%w: keys name and args missing", ErrNotCapture)
	case !hasName:
		return nil, fmt.Errorf("%w: key name missing", ErrNotCapture)
	case !hasArgs:
		return nil, fmt.Errorf("%w: key args missing", ErrNotCapture)
	}
	r := &Record{Kwargs: &value.Dict{}}
	if r.Name, ok = name.(string); !ok {
		return nil, fmt.Errorf("%w: op name is not a string", ErrNotCapture)
	}
	seq, ok := args.(*value.Sequence)
	if !ok || seq.Kind != value.Tuple && seq.Kind != value.List {
		return nil, fmt.Errorf("%w: args is not a tuple", ErrNotCapture)
	}
	r.Args = seq.Items
	if kwargs, has := d.Get("kwargs"); has && kwargs != nil {
		if r.Kwargs, ok = kwargs.(*value.Dict); !ok {
			return nil, fmt.Errorf("%w: kwargs is not a dict", ErrNotCapture)
		}
	}
	if id, has := d.Get("identifier"); has {
		r.Identifier, _ = id.(string)
	}
	if unknown, has := d.Get("unknown"); has {
		r.Unknown, _ = unknown.(bool)
	}
	return r, nil
}

// ByOpTools reports whether op_tools wrote the record: whether its gradients
// are those of the result's last autograd node. An identifier that begins with
// the op's name marks files of other writers, whose grad_inputs hold one entry
// per tensor of args, then kwargs.
func (r *Record) ByOpTools() bool { return !strings.HasPrefix(r.Identifier, r.Name) }

// untimed reports whether the identifier names no time, as those of old layouts.
func (r *Record) untimed() bool { return strings.Count(r.Identifier, "/") <= 1 }

// nested reports whether args is the pair (args, kwargs) of old layouts (see
// Layout.nests). Their identifiers, "8/input" and "device_input", name no
// time; later layouts never nest.
func (r *Record) nested(l Layout) bool {
	if !l.nests() {
		return false
	}
	if len(r.Args) != 2 || len(r.Kwargs.Items) != 0 || !r.untimed() || !r.ByOpTools() {
		return false
	}
	args, isSeq := r.Args[0].(*value.Sequence)
	_, isDict := r.Args[1].(*value.Dict)
	return isSeq && isDict && args.Kind == value.Tuple && args.Class == ""
}

// flatten undoes the nesting of old layouts: (args, kwargs) of a call,
// ((g, ...), {}) and ((g, ...),) of gradients.
func (r *Record) flatten(k Kind, l Layout) {
	if r.nested(l) {
		r.Kwargs = r.Args[1].(*value.Dict)
		r.Args = r.Args[0].(*value.Sequence).Items
	}
	if (k == GradInputs || k == GradOutputs) && len(r.Args) == 1 && r.untimed() {
		if s, ok := r.Args[0].(*value.Sequence); ok && s.Kind == value.Tuple {
			r.Args = s.Items
		}
	}
}

// A FileError is a file of a capture that cannot be used. It wraps the
// *pthformat.FormatError where the file itself is at fault.
type FileError struct {
	Path string // as results name it: relative to the PATH given
	Err  error
	Cut  bool // the recording in it is not whole, and Err says why; what is there was read
	// Rel is, of an error of Scan, the file below the PATH given, as Entry.Rel is.
	Rel string
}

func (e *FileError) Error() string {
	text := e.Path + ": "
	if e.Cut {
		text += "the recording is not whole: "
	}
	return pthformat.Visible(text + e.Reason())
}

// Reason is the message without the name of the file.
func (e *FileError) Reason() string { return reason(e.Err) }

func (e *FileError) Unwrap() error { return e.Err }

// reason is err's message, without the path that a format error or a system
// call repeats.
func reason(err error) string {
	var fe *pthformat.FormatError
	if errors.As(err, &fe) {
		short := *fe
		short.File = ""
		return strings.TrimPrefix(short.Error(), ": ")
	}
	return err.Error()
}
