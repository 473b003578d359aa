package cli

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/replay"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A failureSaver writes failing calls as op_tools does: the recorded values as device/,
// and the rounded values of the reference as cpu/.
type failureSaver struct {
	dir string
	now time.Time // for calls whose time is not known
	pid int       // for those whose process is not
	// apart separates the calls of several recordings, whose processes may have the same
	// numbers. The directories below dir are then those of the recordings below the PATH.
	apart bool
}

// recording is where the recording of a call lies below the PATH.
func recording(e *capture.Entry) string {
	parts := strings.Split(e.Rel, "/")
	i := slices.Index(parts, e.Op)
	if i < 0 {
		return ""
	}
	for i > 0 && (parts[i-1] == "op_capture_results" || parts[i-1] == "op_tools_results") {
		i--
	}
	return filepath.Join("/", filepath.Join(parts[:i]...)) // not above the directory, whatever the PATH was
}

// mostUnlike limits the results of the reference, in bytes, where the recorded results are smaller.
// Larger ones are not saved: only their shape was compared.
const mostUnlike = 64 << 20

// like is the reference's values, rounded to what a file would hold, nil where they are too large.
func like(recorded, computed []value.Value) []value.Value {
	if n := bytesOf(computed); n > mostUnlike && n > bytesOf(recorded) {
		return nil
	}
	return rounded(computed)
}

func bytesOf(vs []value.Value) int64 {
	n := int64(0)
	for _, t := range value.Tensors(value.NewTuple(vs...)) {
		b := t.Bytes()
		if b > math.MaxInt64-n {
			return math.MaxInt64
		}
		n += b
	}
	return n
}

// save writes the files of a compared call, those of its backward pass too if
// that failed, and returns their directory.
func (s *failureSaver) save(e *capture.Entry, c *replay.Call, backward bool) (string, error) {
	v := c.Values()
	when := e.Time
	if when == "" {
		when = s.now.Format(reports.TimeLayout)
	}
	root := s.dir
	if s.apart {
		root = filepath.Join(root, recording(e))
	}
	above := filepath.Join(root, "op_tools_results", "op_capture_results", c.Op, number(e.PID, s.pid),
		"autocompare", number(e.ID, 0))
	dir := filepath.Join(above, when)
	// Directories of op_tools stay as they are. An empty one comes from a run that was killed.
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 && !capture.Marked(dir) {
		when = s.now.Format(reports.TimeLayout)
		dir = filepath.Join(above, when)
	}
	if err := mark(dir); err != nil {
		return "", fmt.Errorf("saving %s: %w", dir, err)
	}
	ident := number(e.ID, 0) + "/" + when + "/"
	write := func(side, name string, args []value.Value, kwargs *value.Dict) error {
		if args == nil {
			return nil
		}
		path := filepath.Join(dir, side, name+".pth")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		return pthformat.WriteFile(path, (&capture.Record{Name: c.Op, Args: args, Kwargs: kwargs,
			Identifier: ident + side + "/" + name}).Value())
	}
	type file struct {
		side, name string
		args       []value.Value
		kwargs     *value.Dict
	}
	args, kwargs := c.Record.Args, c.Record.Kwargs
	files := []file{
		{"device", "input", args, kwargs}, {"device", "output", v.RecordedOutput, nil},
		{"cpu", "input", args, kwargs}, {"cpu", "output", like(v.RecordedOutput, v.Output), nil},
	}
	if backward {
		files = append(files,
			file{"device", "grad_outputs", v.RecordedGradOutputs, nil},
			file{"device", "grad_inputs", v.RecordedGradInputs, nil},
			file{"cpu", "grad_outputs", v.RecordedGradOutputs, nil},
			file{"cpu", "grad_inputs", like(v.RecordedGradInputs, v.GradInputs), nil})
	}
	for _, f := range files {
		if err := write(f.side, f.name, f.args, f.kwargs); err != nil {
			return "", fmt.Errorf("saving %s: %w", dir, err)
		}
	}
	return dir, nil
}

// mark makes a directory that scans pass over.
func mark(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return capture.Mark(dir)
}

func number(n, otherwise int) string {
	if n < 0 {
		n = otherwise
	}
	return strconv.Itoa(n)
}

// saveReference writes the reference's results of one call below dir, unrounded.
func saveReference(dir string, c *replay.Call) error {
	v := c.Values()
	for name, args := range map[string][]value.Value{"output": v.Output, "grad_inputs": v.GradInputs} {
		if args == nil {
			continue
		}
		path := filepath.Join(dir, "cpu", name+".pth")
		if err := cmp.Or(mark(dir), os.MkdirAll(filepath.Dir(path), 0o777)); err != nil {
			return err
		}
		wide := mapTensors(args, func(t *tensor.Tensor) *tensor.Tensor {
			switch t.DType.Kind() {
			case tensor.KindFloat:
				return opdef.Cast(t, tensor.Float64)
			case tensor.KindComplex:
				return opdef.Cast(t, tensor.Complex128)
			}
			return t
		})
		rec := &capture.Record{Name: c.Op, Args: wide, Identifier: "reference/" + name}
		if err := pthformat.WriteFile(path, rec.Value()); err != nil {
			return err
		}
	}
	return nil
}

// rounded rounds computed tensors to their dtype, as a file would hold them.
func rounded(vs []value.Value) []value.Value {
	if vs == nil {
		return nil
	}
	return mapTensors(vs, (*tensor.Tensor).Rounded)
}

// mapTensors applies f to the tensors in vs, one level of containers deep.
func mapTensors(vs []value.Value, f func(*tensor.Tensor) *tensor.Tensor) []value.Value {
	out := make([]value.Value, len(vs))
	for i, v := range vs {
		switch v := v.(type) {
		case *tensor.Tensor:
			out[i] = f(v)
		case *value.Sequence:
			out[i] = &value.Sequence{Kind: v.Kind, Class: v.Class, Items: mapTensors(v.Items, f)}
		default:
			out[i] = v
		}
	}
	return out
}
