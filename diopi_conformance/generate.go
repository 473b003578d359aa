package conformance

import (
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/optool/optool/diopi_conformance/configs"
	"github.com/optool/optool/diopi_conformance/inputs"
	"github.com/optool/optool/diopi_conformance/numpypickle"
	"github.com/optool/optool/diopi_conformance/reference"
	"github.com/optool/optool/tensor"
)

// GenerateOptions say how data is made.
type GenerateOptions struct {
	Seed uint64
	// RandomCotangents draws the gradients of results instead of the kit's ones,
	// which hide errors: the gradient of softmax for ones is zero. They are
	// recorded; the kit's run_test, which knows of ones only, cannot check such data.
	RandomCotangents bool
	// Resume keeps files of cases that are complete.
	Resume bool
}

// A Made says what became of the data of one case.
type Made struct {
	Case *configs.Case
	// Kept: the files were there already. Output and Grads were written unless
	// the function is random or Err says why not.
	Kept, Input, Output, Grads bool
	// Err is why there is no input or no output.
	Err error
}

// leftOver is after how long an unfinished file, which another process may be about to write,
// is taken to be left over.
const leftOver = time.Hour

// WriteItems writes the suite's file of cases, before their data is made. It
// removes the unfinished files of a run that was killed: those that are old, and all if
// no other process makes data in this directory.
func (s *Store) WriteItems(cases []*configs.Case, alone bool) error {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"inputs/.*.pth.*", "outputs/.*.pth.*", ".*.cfg.*"} {
		unfinished, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range unfinished {
			info, err := os.Stat(path)
			if err != nil || !alone && time.Since(info.ModTime()) < leftOver {
				continue
			}
			if err := os.Remove(path); err != nil {
				return err
			}
		}
	}
	return numpypickle.WriteFile(s.ItemsPath(), configs.Items(cases))
}

// Generate makes the data of one case: its arguments, and unless the function
// is random its results and gradients.
func (s *Store) Generate(c *configs.Case, opt GenerateOptions) Made {
	m := Made{Case: c}
	if opt.Resume && s.complete(c) {
		m.Kept = true
		return m
	}
	in, err := inputs.Draw(c, opt.Seed)
	if err != nil {
		m.Err = err
		return m
	}
	if m.Err = s.WriteInput(c.Name, in); m.Err != nil {
		return m
	}
	m.Input = true
	ref, err := reference.Compute(c, in.Kwargs, opt.cotangents(c))
	if errors.Is(err, reference.ErrNone) {
		return m
	}
	if m.Err = err; err != nil {
		return m
	}
	recorded := ref.Cotangents
	if !opt.RandomCotangents {
		recorded = nil
	}
	if m.Err = s.WriteCotangents(c.Name, recorded); m.Err != nil {
		return m
	}
	if m.Err = s.WriteOutput(c.Name, ref.Output, ref.Grads); m.Err == nil {
		m.Output, m.Grads = true, ref.Grads != nil
	}
	return m
}

// complete reports whether all files of a case are there. Each file appears
// whole, and the result last.
func (s *Store) complete(c *configs.Case) bool {
	path := s.OutputPath(c.Name)
	if c.NoOutputRef() {
		path = s.InputPath(c.Name)
	}
	_, err := os.Stat(path)
	return err == nil
}

func (opt GenerateOptions) cotangents(c *configs.Case) reference.Cotangents {
	if !opt.RandomCotangents {
		return reference.Ones
	}
	h := fnv.New64a()
	h.Write([]byte(c.Name + " cotangents"))
	r := rand.New(rand.NewPCG(opt.Seed, h.Sum64()))
	return func(_ int, out *tensor.Tensor) *tensor.Tensor {
		n := out.Numel()
		if out.DType.IsComplex() {
			v := make([]complex128, n)
			for i := range v {
				v[i] = complex(r.NormFloat64(), r.NormFloat64())
			}
			return tensor.New(out.DType, out.Shape, v).Rounded()
		}
		v := make([]float64, n)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		return tensor.New(out.DType, out.Shape, v).Rounded()
	}
}
