package capture

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// LoadOptions select what Load reads.
type LoadOptions struct {
	Read pthformat.ReadMode
	Side Side
	Only FileSet // files to read; zero means all
	// Verify compares storages of any size with their checksums: see pthformat.Options.
	Verify bool
}

// Of is the set of the given kinds.
func Of(kinds ...Kind) FileSet {
	var s FileSet
	for _, k := range kinds {
		s.add(k)
	}
	return s
}

// A Call is a recorded call with its arguments, results and gradients in one
// form, whatever the layout. Payloads are not read until a tensor is.
type Call struct {
	Op         string        // the file's name for the op; the path's where no file could be read
	Args       []value.Value // positional arguments before the call
	Kwargs     *value.Dict   // keyword arguments; never nil
	Output     []value.Value // args of output.pth: one item, the result
	HasOutput  bool          // output.pth was read
	Identifier string        // of the first file read
	ByOpTools  bool          // see Record.ByOpTools

	GradInputs, GradOutputs []value.Value // nil where there is no file; entries may be nil (None)

	HasAfter    bool          // after.pth was read
	After       []value.Value // positional arguments after the call
	AfterKwargs *value.Dict   // keyword arguments after the call

	Unseen map[*tensor.Tensor]bool   // see Record.Unseen
	Placed string                    // see Record.Placed
	Names  map[*tensor.Tensor]string // of Args and Kwargs; see Record.Names
	Terms  map[*tensor.Tensor][]int  // of Args, Kwargs and GradInputs; see Record.Terms
	Means  map[*tensor.Tensor]bool   // of the same; see Record.Means
	Copies map[*tensor.Tensor]int    // of the same; see Record.Copies

	// Unknown are the files in which None may be a value that the producer does not know.
	Unknown FileSet

	entry       *Entry
	side        Side
	description description // see described
	files       []io.Closer
	read        FileSet
	names       [numKinds]string // the op as each file that was read names it
	errs        [numKinds]error
}

// Load opens the files of one side of a capture. It always returns a Call with
// what could be read, which the caller closes; the error joins the FileErrors
// of the files that could not and of those that are lost. Another file that does
// not exist is no error here: see Call.Err.
func (e *Entry) Load(opt LoadOptions) (*Call, error) {
	c := &Call{Op: e.Op, Kwargs: &value.Dict{}, ByOpTools: true, entry: e, side: opt.Side}
	for _, k := range Kinds() {
		if opt.Only != 0 && !opt.Only.Has(k) {
			continue
		}
		if !e.Has(opt.Side, k) {
			if e.lost(opt.Side, k) {
				c.errs[k] = &FileError{Path: e.RelPath(opt.Side, k), Err: lostError{}}
			}
			continue
		}
		r, err := c.open(k, pthformat.Options{Read: opt.Read, Verify: opt.Verify})
		if err != nil {
			c.errs[k] = &FileError{Path: e.RelPath(opt.Side, k), Err: err}
			continue
		}
		c.set(k, r)
	}
	if c.HasAfter && e.rec == nil {
		c.share(c.beside(Input))
	}
	return c, errors.Join(c.errs[:]...)
}

func (c *Call) open(k Kind, opt pthformat.Options) (*Record, error) {
	if c.entry.rec != nil {
		d, err := c.described()
		if err != nil {
			return nil, err
		}
		r, files, err := d.record(k, opt.Read)
		c.files = append(c.files, files...)
		return r, err
	}
	f, err := pthformat.Open(c.entry.Path(c.side, k), opt)
	if err != nil {
		return nil, err
	}
	r, err := ParseRecord(f.Root)
	if err != nil {
		f.Close()
		return nil, err
	}
	c.files = append(c.files, f)
	r.flatten(k, c.entry.Layout)
	return r, nil
}

// described is what another producer than op_tools says about the call.
func (c *Call) described() (description, error) {
	if c.description != nil {
		return c.description, nil
	}
	d, err := c.entry.rec.describe()
	if err == nil {
		c.description = d
	}
	return d, err
}

func (c *Call) set(k Kind, r *Record) {
	if c.read == 0 {
		c.Op, c.Identifier, c.ByOpTools = r.Name, r.Identifier, r.ByOpTools()
	}
	c.read.add(k)
	c.names[k] = r.Name
	c.Placed = cmp.Or(c.Placed, r.Placed)
	if len(r.Terms) > 0 && (k == Input || k == GradInputs) {
		if c.Terms == nil {
			c.Terms = map[*tensor.Tensor][]int{}
		}
		maps.Copy(c.Terms, r.Terms)
		if c.Means == nil {
			c.Means, c.Copies = map[*tensor.Tensor]bool{}, map[*tensor.Tensor]int{}
		}
		maps.Copy(c.Means, r.Means)
		maps.Copy(c.Copies, r.Copies)
	}
	if r.Unknown {
		c.Unknown.add(k)
	}
	switch k {
	case Input:
		c.Args, c.Kwargs, c.Names = r.Args, r.Kwargs, r.Names
	case Output:
		c.Output, c.HasOutput = r.Args, true
	case GradInputs:
		c.GradInputs = r.Args
	case GradOutputs:
		c.GradOutputs = r.Args
	case After:
		c.After, c.AfterKwargs, c.HasAfter, c.Unseen = r.Args, r.Kwargs, true, r.Unseen
		if c.read.Has(Input) && r.Unseen == nil {
			c.Unseen = map[*tensor.Tensor]bool{}
			c.After = c.unseen(c.Args, c.After)
			c.AfterKwargs = c.unseenItems(c.Kwargs, c.AfterKwargs)
		}
	}
}

// unseen puts the arguments before the call in place of None among those after it: the recorder did not look at them.
func (c *Call) unseen(before, after []value.Value) []value.Value {
	if len(before) != len(after) {
		return after
	}
	out := slices.Clone(after)
	for i, v := range before {
		switch v := v.(type) {
		case *tensor.Tensor:
			if out[i] == nil {
				out[i], c.Unseen[v] = v, true
			}
		case *value.Sequence:
			if s, ok := out[i].(*value.Sequence); ok {
				now := *s
				now.Items = c.unseen(v.Items, s.Items)
				out[i] = &now
			}
		}
	}
	return out
}

// unseenItems is unseen for keyword arguments.
func (c *Call) unseenItems(before, after *value.Dict) *value.Dict {
	if before == nil || after == nil || len(before.Items) != len(after.Items) {
		return after
	}
	out := &value.Dict{Items: slices.Clone(after.Items)}
	for i, it := range before.Items {
		out.Items[i].Value = c.unseen([]value.Value{it.Value}, []value.Value{after.Items[i].Value})[0]
	}
	return out
}

// Has reports whether the file of kind k was read.
func (c *Call) Has(k Kind) bool { return c.read.Has(k) }

// ErrNoFile is wrapped by Call.Err where the capture lacks the file.
var ErrNoFile = errors.New("capture is incomplete")

// A lostError is why a file that was written cannot be read.
type lostError struct{}

func (lostError) Error() string {
	return "the file is lost: others of this call, written with it or later, are there"
}

// Is makes it one of the files that are not there.
func (lostError) Is(target error) bool { return target == ErrNoFile }

// lost reports whether op_tools wrote a file that is missing now. It writes the result before the gradients, both files
// of gradients or neither, and the results of both sides of a failure.
func (e *Entry) lost(s Side, k Kind) bool {
	if e.ByOther() || e.single != "" || e.Has(s, k) {
		return false
	}
	switch k {
	case Output:
		return e.Has(s, GradInputs) || e.Has(s, GradOutputs) || e.IsPair() && e.Has(Device+Host-s, Output)
	case GradInputs:
		return e.Has(s, GradOutputs)
	case GradOutputs:
		return e.Has(s, GradInputs)
	}
	return false
}

// IsPair reports whether the call is one side of a failure that was saved with both.
func (c *Call) IsPair() bool { return c.entry != nil && c.entry.IsPair() }

// Err says why the file of kind k could not be used: nil if it was read, its
// *FileError if it was refused, an error that wraps ErrNoFile if there is none.
func (c *Call) Err(k Kind) error {
	switch {
	case c.read.Has(k):
		return nil
	case c.errs[k] != nil:
		return c.errs[k]
	}
	return fmt.Errorf("no %s.pth: %w", k, ErrNoFile)
}

// Name is the op as the file of kind k names it; empty if it was not read.
func (c *Call) Name(k Kind) string { return c.names[k] }

// Values returns the positional values of the file of kind k.
func (c *Call) Values(k Kind) []value.Value {
	return [...][]value.Value{c.Args, c.Output, c.GradInputs, c.GradOutputs, c.After}[k]
}

// Inputs returns the tensors among the arguments, positional ones first.
func (c *Call) Inputs() []*tensor.Tensor {
	return value.Tensors(value.NewTuple(value.NewTuple(c.Args...), c.Kwargs))
}

// Outputs returns the tensors of the result.
func (c *Call) Outputs() []*tensor.Tensor { return value.Tensors(value.NewTuple(c.Output...)) }

// Close releases the files. Tensors of the call must not be used after it.
func (c *Call) Close() error {
	var errs []error
	for _, f := range c.files {
		errs = append(errs, f.Close())
	}
	c.files = nil
	return errors.Join(errs...)
}
