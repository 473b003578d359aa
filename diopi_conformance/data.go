package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/inputs"
	"github.com/optool/optool/diopi_conformance/numpypickle"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Store is the kit's tree of one suite: <cache>/<model or "diopi">.
type Store struct {
	Dir   string
	Model string // "" for the suite of all functions
}

// NewStore is the store of a model, or of the suite of all functions if model
// is "", below the cache directory.
func NewStore(cache, model string) *Store {
	name := model
	if name == "" {
		name = "diopi"
	}
	return &Store{Dir: filepath.Join(cache, name), Model: model}
}

// ItemsPath is the file of the suite's cases.
func (s *Store) ItemsPath() string {
	if s.Model == "" {
		return filepath.Join(s.Dir, "diopi_case_items.cfg")
	}
	return filepath.Join(s.Dir, s.Model+"_diopi_case_items.cfg")
}

// InputPath is the file of a case's arguments.
func (s *Store) InputPath(name string) string { return filepath.Join(s.Dir, "inputs", name) }

// OutputPath is the file of a case's result.
func (s *Store) OutputPath(name string) string { return filepath.Join(s.Dir, "outputs", name) }

// GradPath is the file of a case's gradients.
func (s *Store) GradPath(name string) string {
	return filepath.Join(s.Dir, "outputs", strings.TrimSuffix(name, ".pth")+"_backward.pth")
}

// CotangentPath is the file of the gradients of a case's results, if they are not
// the kit's ones. The kit knows no such file.
func (s *Store) CotangentPath(name string) string {
	return filepath.Join(s.Dir, "outputs", strings.TrimSuffix(name, ".pth")+"_grad_outputs.pth")
}

// Cases reads the suite's cases.
func (s *Store) Cases() ([]*configs.Case, error) {
	path := s.ItemsPath()
	v, err := numpypickle.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d, ok := v.(*value.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: want a dict of cases, got %s", path, value.Repr(v))
	}
	cases := make([]*configs.Case, len(d.Items))
	for i, it := range d.Items {
		name, ok := it.Key.(string)
		item, isDict := it.Value.(*value.Dict)
		if !ok || !isDict {
			return nil, fmt.Errorf("%s: case %s: want a name and a dict", path, value.Repr(it.Key))
		}
		cases[i] = &configs.Case{Name: name, Item: item}
	}
	return cases, nil
}

// Has reports whether anything is recorded of a case.
func (s *Store) Has(name string) bool { return s.HasInput(name) || s.HasOutput(name) }

// HasInput reports whether the arguments of a case are recorded.
func (s *Store) HasInput(name string) bool { return exists(s.InputPath(name)) }

// HasOutput reports whether the result of a case is recorded.
func (s *Store) HasOutput(name string) bool { return exists(s.OutputPath(name)) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// An Input is what the file of a case's arguments holds.
type Input = inputs.Input

// ReadInput reads the arguments of a case.
func (s *Store) ReadInput(name string) (*Input, error) {
	path := s.InputPath(name)
	v, err := numpypickle.ReadFile(path)
	if err != nil {
		return nil, err
	}
	in := &Input{}
	top, _ := v.(*value.Dict)
	if top != nil {
		fp, _ := get(top, "function_paras").(*value.Dict)
		in.Item, _ = get(top, "cfg").(*value.Dict)
		if fp != nil {
			in.Kwargs, _ = get(fp, "kwargs").(*value.Dict)
			in.RequiresGrad, _ = get(fp, "requires_grad").(*value.Dict)
		}
	}
	if in.Kwargs == nil || in.RequiresGrad == nil || in.Item == nil {
		return nil, fmt.Errorf("%s: want function_paras with kwargs and requires_grad, and cfg", path)
	}
	return in, nil
}

func get(d *value.Dict, key string) value.Value {
	v, _ := d.Get(key)
	return v
}

// WriteInput writes the arguments of a case.
func (s *Store) WriteInput(name string, in *Input) error {
	entry := func(key string, v value.Value) value.Item { return value.Item{Key: key, Value: v} }
	// The kit's program and a case's item both have a string "requires_grad".
	paras := &value.Dict{Items: []value.Item{entry("kwargs", in.Kwargs), {Key: numpypickle.Label("requires_grad"),
		Value: in.RequiresGrad}}}
	return write(s.InputPath(name), &value.Dict{Items: []value.Item{entry("function_paras", paras),
		entry("cfg", in.Item)}})
}

// ReadOutput reads the result of a case and its gradients; grads is nil if
// there are none. A result that is not there gives an error that is
// os.ErrNotExist.
func (s *Store) ReadOutput(name string) (out value.Value, grads *value.Dict, err error) {
	if out, err = numpypickle.ReadFile(s.OutputPath(name)); err != nil {
		return nil, nil, err
	}
	v, err := numpypickle.ReadFile(s.GradPath(name))
	switch {
	case os.IsNotExist(err):
		return out, nil, nil
	case err != nil:
		return nil, nil, err
	}
	grads, ok := v.(*value.Dict)
	if !ok {
		return nil, nil, fmt.Errorf("%s: want a dict of gradients, got %s", s.GradPath(name), value.Repr(v))
	}
	return out, grads, nil
}

// WriteOutput writes the result of a case and, unless nil, its gradients.
func (s *Store) WriteOutput(name string, out value.Value, grads *value.Dict) error {
	if grads != nil { // first, so that a result always has its gradients
		if err := write(s.GradPath(name), grads); err != nil {
			return err
		}
	}
	return write(s.OutputPath(name), out)
}

// ReadCotangents reads the gradients of a case's results that receive one, nil
// where none flows; all is nil if none are recorded, which stands for the kit's
// ones.
func (s *Store) ReadCotangents(name string) ([]*tensor.Tensor, error) {
	path := s.CotangentPath(name)
	v, err := numpypickle.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l, ok := v.(*value.Sequence)
	if !ok {
		return nil, fmt.Errorf("%s: want a list of gradients, got %s", path, value.Repr(v))
	}
	all := make([]*tensor.Tensor, len(l.Items))
	for i, it := range l.Items {
		if all[i], ok = it.(*tensor.Tensor); !ok && it != nil {
			return nil, fmt.Errorf("%s: gradient %d: want an array, got %s", path, i, value.Repr(it))
		}
	}
	return all, nil
}

// WriteCotangents records the gradients of a case's results; nil takes back what
// was recorded.
func (s *Store) WriteCotangents(name string, all []*tensor.Tensor) error {
	if all == nil {
		err := os.Remove(s.CotangentPath(name))
		if os.IsNotExist(err) {
			return nil
		}
		return err
	}
	l := value.NewList()
	for _, t := range all {
		if t == nil {
			l.Items = append(l.Items, nil)
		} else {
			l.Items = append(l.Items, t)
		}
	}
	return write(s.CotangentPath(name), l)
}

func write(path string, v value.Value) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return numpypickle.WriteFile(path, v)
}
