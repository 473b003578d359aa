package step

import (
	"fmt"
	"math"
	"slices"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/tensor"
)

// files are the recorded files that one piece of work reads. The files used last stay open,
// so that a file with many values is read once, not once for each value. One goroutine uses it.
type files struct {
	opened []*file // the one used last is the last
	loads  int     // files read so far
	// left is what the call leftBy left in its arguments, by the number of their leaves.
	leftBy *Call
	left   map[int]*tensor.Tensor
	done   func() // ends leftBy's
	// memory is the memory of memoryOf, and kept ends it.
	memory   *tensor.Tensor
	memoryOf *Value
	kept     func()
}

// A file is one that was read.
type file struct {
	call    *Call
	kind    capture.Kind
	later   bool // it has the gradients of later backward passes
	rec     *capture.Call
	tensors map[slot]*tensor.Tensor
	users   int  // who still read its tensors
	dropped bool // no longer among those opened
}

// A slot is where a file has a tensor.
type slot struct {
	pass int // see Value.pass
	leaf int // number among the leaves
}

// mostOpen is how many files stay open beside those in use.
const mostOpen = 4

// of is the file that holds a value.
func (fs *files) of(v *Value, opt Options) (*file, error) {
	later := v.pass > 0
	i := slices.IndexFunc(fs.opened, func(f *file) bool {
		return f.call == v.Call && f.kind == v.Kind && f.later == later
	})
	if i >= 0 {
		f := fs.opened[i]
		fs.opened = append(slices.Delete(fs.opened, i, i+1), f)
		return f, nil
	}
	fs.loads++
	f := &file{call: v.Call, kind: v.Kind, later: later, tensors: map[slot]*tensor.Tensor{}}
	n := math.MaxInt // of leaves in a pass
	var rec *capture.Call
	var err error
	if f.later {
		n = len(v.Call.Inputs)
		rec, err = v.Call.Entry.LoadLater()
	} else {
		rec, err = v.Call.Entry.Load(capture.LoadOptions{Read: opt.Read, Only: capture.Of(v.Kind)})
	}
	f.rec = rec
	if err == nil {
		var ls []capture.Leaf
		ls, err = rec.Leaves(v.Kind)
		for _, l := range ls {
			at := slot{leaf: l.Number % n}
			if f.later {
				at.pass = l.Number/n + 1
			}
			f.tensors[at] = l.Tensor
		}
	}
	if err != nil {
		rec.Close()
		return nil, err
	}
	fs.opened = append(fs.opened, f)
	if len(fs.opened) > mostOpen {
		k := fs.cheapest()
		fs.opened[k].drop()
		fs.opened = slices.Delete(fs.opened, k, k+1)
	}
	return f, nil
}

// cheapest is the file to close: the one whose last use is longest ago, of those that do not have many values if there
// are any. A fused optimizer's file is read again for each of its values otherwise, where the gradients of several
// batches are compared with each.
func (fs *files) cheapest() int {
	const many = 64
	return max(0, slices.IndexFunc(fs.opened[:len(fs.opened)-1], func(f *file) bool { return len(f.tensors) < many }))
}

// drop closes f once nobody reads its tensors.
func (f *file) drop() {
	f.dropped = true
	f.release(0)
}

func (f *file) release(n int) {
	if f.users -= n; f.dropped && f.users == 0 {
		f.rec.Close()
	}
}

// end closes all files.
func (fs *files) end() {
	for _, done := range []func(){fs.done, fs.kept} {
		if done != nil {
			done()
		}
	}
	for _, f := range fs.opened {
		f.drop()
	}
}

// load gives the tensor of a value, until release is called.
func (v *Value) load(opt Options) (t *tensor.Tensor, release func(), err error) {
	fs := opt.files
	if fs == nil {
		fs = &files{}
		defer fs.end()
	}
	f, err := fs.of(v, opt)
	if err != nil {
		return nil, nil, err
	}
	if t = f.tensors[slot{v.pass, v.leaf}]; t == nil {
		return nil, nil, fmt.Errorf("%s: %s is not there any more", v.Call.Entry.Rel, v.Target)
	}
	f.users++
	return t, func() { f.release(1) }, nil
}

// leftIn is what the reference says that a call left in its argument w; nil if it did not change it.
func (fs *files) leftIn(w *Value, opt Options) (*tensor.Tensor, error) {
	if fs.leftBy == w.Call {
		return fs.left[w.leaf], nil
	}
	if fs.done != nil {
		fs.done()
	}
	call := replay.Open(w.Call.Entry, opt.Options)
	fs.leftBy, fs.left, fs.done = w.Call, map[int]*tensor.Tensor{}, func() { call.Close() }
	fs.loads++
	if err := call.Start(); err != nil {
		return nil, err
	}
	ls, err := call.Record.Leaves(capture.Input)
	if err != nil {
		return nil, err
	}
	changed := call.Changed()
	for _, l := range ls {
		if t := changed[l.Tensor]; t != nil {
			fs.left[l.Number] = t
		}
	}
	return fs.left[w.leaf], nil
}

// lying is the elements of w as they lay in memory, which has no gaps.
func (fs *files) lying(w *Value, opt Options) (*tensor.Tensor, error) {
	if fs.memoryOf == w {
		return fs.memory, nil
	}
	t, done, err := w.load(opt)
	if err != nil {
		return nil, err
	}
	if fs.kept != nil {
		fs.kept()
	}
	fs.memoryOf, fs.memory, fs.kept = w, lying(t.Dense(), w), done
	return fs.memory, nil
}
