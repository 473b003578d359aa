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
	"github.com/optool/optool/internal/filelock"
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
	// Err is why there is no input or no output; a *WriteError if that is not for the case.
	Err error
}

// A WriteError says that data could not be written: that of other cases cannot either.
type WriteError struct{ error }

func (e *WriteError) Unwrap() error { return e.error }

func writeError(err error) error {
	if err == nil {
		return nil
	}
	return &WriteError{err}
}

// leftOver is after how long an unfinished file, which another process may be about to write,
// is taken to be left over.
const leftOver = time.Hour

// Begin writes the suite's file of cases, before their data is made; end is called after. It
// removes the unfinished files of a run that was killed: those that are old, and all if
// no other process makes data in this directory.
func (s *Store) Begin(cases []*configs.Case) (end func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	name := filepath.Join(s.Dir, ".lock")
	lock, err := filelock.Try(name, true)
	if err == nil {
		err = s.removeUnfinished(0)
		lock.Release()
	} else {
		err = s.removeUnfinished(leftOver)
	}
	if err != nil {
		return nil, err
	}
	for { // beside others, as soon as none of them looks for such files
		lock, err = filelock.Try(name, false)
		if !errors.Is(err, filelock.ErrHeld) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	end = func() {}
	switch {
	case err == nil:
		end = lock.Release
	case !errors.Is(err, filelock.ErrUnsupported):
		return nil, err
	}
	if err := numpypickle.WriteFile(s.ItemsPath(), configs.Items(cases)); err != nil {
		end()
		return nil, err
	}
	return end, nil
}

// removeUnfinished removes the unfinished files that were last written so long ago.
func (s *Store) removeUnfinished(age time.Duration) error {
	for _, pattern := range []string{"inputs/.*.pth.*", "outputs/.*.pth.*", ".*.cfg.*"} {
		unfinished, err := filepath.Glob(filepath.Join(s.Dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range unfinished {
			info, err := os.Stat(path)
			if err != nil || time.Since(info.ModTime()) < age {
				continue
			}
			if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
				return err
			}
		}
	}
	return nil
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
	if m.Err = writeError(s.WriteInput(c.Name, in)); m.Err != nil {
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
	if m.Err = writeError(s.WriteCotangents(c.Name, recorded)); m.Err != nil {
		return m
	}
	if m.Err = writeError(s.WriteOutput(c.Name, ref.Output, ref.Grads)); m.Err == nil {
		m.Output, m.Grads = true, ref.Grads != nil
	}
	return m
}

// complete reports whether all files of a case are there. Each file appears
// whole, and the result last.
func (s *Store) complete(c *configs.Case) bool {
	if c.NoOutputRef() {
		return s.HasInput(c.Name)
	}
	return s.HasOutput(c.Name)
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
