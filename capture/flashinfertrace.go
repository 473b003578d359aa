package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// flashInferTrace is the data set of FlashInfer-Bench: workloads, one a line, for
// the definitions beside them. They have inputs and no outputs.
//
// Source: flashinfer-ai/flashinfer-bench, docs/flashinfer_trace.
var flashInferTrace = producer{
	begins: func(name string) bool { return strings.HasSuffix(name, ".jsonl") && name != "metadata.jsonl" },
	open:   openFlashInferTrace,
}

// A traceDefinition is what a file of definitions/ says of an operator.
type traceDefinition struct {
	OpType string `json:"op_type"`
	Axes   map[string]struct {
		Value *int64 `json:"value"`
	} `json:"axes"`
	Inputs json.RawMessage `json:"inputs"` // in the order of the arguments
}

// A traceWorkload is a line of a file of workloads/ or traces/.
type traceWorkload struct {
	Definition string `json:"definition"`
	Workload   *struct {
		UUID   string           `json:"uuid"`
		Axes   map[string]int64 `json:"axes"`
		Inputs map[string]struct {
			Type  string `json:"type"`
			Value any    `json:"value"`
			Path  string `json:"path"`
			Key   string `json:"tensor_key"`
		} `json:"inputs"`
	} `json:"workload"`
}

// A traceCall is a workload in its file.
type traceCall struct {
	path string // of the file
	root string // of the data set
	line span
}

// traceLimit bounds a file of workloads, and one of a definition, in bytes.
const traceLimit = 1 << 30

func openFlashInferTrace(dir, base string) (iter.Seq2[*Entry, error], bool) {
	path := filepath.Join(dir, base)
	if !looksLikeTrace(path) {
		return nil, false
	}
	return func(yield func(*Entry, error) bool) {
		b, err := readSmall(path, traceLimit)
		if err != nil {
			yield(nil, &FileError{Path: path, Err: err})
			return
		}
		root, opType := traceRoot(dir)
		at, order := int64(0), 0
		for line := range bytes.Lines(b) {
			s := span{at, at + int64(len(line))}
			at = s.end
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			w, err := parseWorkload(line)
			if err != nil {
				if !yield(nil, &FileError{Path: path, Err: fmt.Errorf("line %d: %w", order+1, err)}) {
					return
				}
				order++
				continue
			}
			e := newForeign(FlashInferTrace, base+"/"+w.Workload.UUID, traceCall{path, root, s})
			e.Op, e.Call, e.Order, e.ID = "flashinfer."+opType, w.Definition+" "+w.Workload.UUID, order, order
			e.Files.add(Input)
			if !yield(e, nil) {
				return
			}
			order++
		}
	}, true
}

// looksLikeTrace reports whether a file begins with a workload.
func looksLikeTrace(path string) bool {
	b := head(path)
	return bytes.Contains(b, []byte(`"definition"`)) && bytes.Contains(b, []byte(`"workload"`))
}

func parseWorkload(line []byte) (*traceWorkload, error) {
	d := json.NewDecoder(bytes.NewReader(plainJSON(bytes.Clone(line))))
	d.UseNumber()
	var w traceWorkload
	if err := d.Decode(&w); err != nil {
		return nil, jsonError(err)
	}
	if w.Workload == nil || w.Workload.UUID == "" || w.Workload.UUID != filepath.Base(w.Workload.UUID) {
		return nil, errors.New("no workload with a uuid")
	}
	return &w, nil
}

// traceRoot is the data set that workloads/<op type>/ or traces/.../<op type>/
// belongs to, and the op type.
func traceRoot(dir string) (root, opType string) {
	abs, err := files.Abs(dir)
	if err != nil {
		abs = dir
	}
	opType = filepath.Base(abs)
	for root = abs; root != filepath.Dir(root); root = filepath.Dir(root) {
		if info, err := files.Stat(filepath.Join(root, "definitions")); err == nil && info.IsDir() {
			return root, opType
		}
	}
	return abs, opType
}

// parts implements recording.
func (c traceCall) parts() []files.Part {
	w, err := c.workload()
	if err != nil {
		return nil
	}
	var paths []string
	for _, in := range w.Workload.Inputs {
		if path := localBlob(in.Path); in.Type == "safetensors" && filepath.IsLocal(path) {
			paths = append(paths, filepath.Join(c.root, path))
		}
	}
	slices.Sort(paths)
	return files.Wholes(slices.Compact(paths)...) // inputs of one file
}

// workload reads the line of the call.
func (c traceCall) workload() (*traceWorkload, error) {
	lines, err := readSpans(c.path, c.line)
	if err != nil {
		return nil, err
	}
	return parseWorkload(lines[0])
}

// describe implements recording.
func (c traceCall) describe() (description, error) { return c, nil }

// record implements description.
func (c traceCall) record(_ Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error) {
	w, err := c.workload()
	if err != nil {
		return nil, nil, err
	}
	_, opType := traceRoot(filepath.Dir(c.path))
	def, names, inputs, err := c.definition(opType, w.Definition)
	if err != nil {
		return nil, nil, err
	}
	r := &Record{Name: "flashinfer." + opType, Kwargs: &value.Dict{}}
	l := traceLoader{call: c, w: w, axes: map[string]int64{}, mode: mode}
	for name, a := range def.Axes {
		if a.Value != nil {
			l.axes[name] = *a.Value
		}
	}
	for name, n := range w.Workload.Axes {
		l.axes[name] = n
	}
	for i, name := range names {
		v, err := l.input(name, inputs[i])
		if err != nil {
			for _, f := range l.open {
				f.Close()
			}
			return nil, nil, fmt.Errorf("input %q: %w", name, err)
		}
		r.Args = append(r.Args, v)
	}
	return r, l.open, nil
}

// A traceInput is what a definition says of an input: a null shape is that of a
// Python number.
type traceInput struct {
	Shape *[]string `json:"shape"`
	DType string    `json:"dtype"`
}

// definition reads a definition and its inputs in order.
func (c traceCall) definition(opType, name string) (def traceDefinition, names []string, inputs []traceInput,
	err error) {
	if name != filepath.Base(name) || name == ".." {
		return def, nil, nil, fmt.Errorf("%q is not the name of a definition", name)
	}
	path := filepath.Join("definitions", opType, name+".json")
	b, err := readSmall(filepath.Join(c.root, path), traceLimit)
	if err != nil {
		return def, nil, nil, fmt.Errorf("definition: %w", err)
	}
	if err := json.Unmarshal(b, &def); err != nil {
		return def, nil, nil, fmt.Errorf("%s: %w", path, jsonError(err))
	}
	d := json.NewDecoder(bytes.NewReader(def.Inputs))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return def, nil, nil, fmt.Errorf("%s: inputs are not a JSON object", path)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return def, nil, nil, fmt.Errorf("%s: %w", path, jsonError(err))
		}
		var in traceInput
		if err := d.Decode(&in); err != nil {
			return def, nil, nil, fmt.Errorf("%s: %w", path, jsonError(err))
		}
		names, inputs = append(names, fmt.Sprint(t)), append(inputs, in)
	}
	return def, names, inputs, nil
}

// A traceLoader makes the arguments of a workload.
type traceLoader struct {
	call traceCall
	w    *traceWorkload
	axes map[string]int64
	mode pthformat.ReadMode
	open []io.Closer
}

func (l *traceLoader) input(name string, in traceInput) (value.Value, error) {
	given, ok := l.w.Workload.Inputs[name]
	if !ok {
		return nil, nil // an optional argument
	}
	switch given.Type {
	case "scalar":
		return describedValue(given.Value), nil
	case "safetensors":
		return l.stored(given.Path, given.Key)
	case "random":
		return l.random(name, in)
	}
	return nil, fmt.Errorf("kind %q is not known", given.Type)
}

// localBlob is a path relative to the data set; the older absolute ones are those of
// another machine, below its blob/.
func localBlob(path string) string {
	if i := strings.LastIndex(path, "/blob/"); i >= 0 && filepath.IsAbs(path) {
		return path[i+1:]
	}
	return path
}

// stored reads a tensor.
func (l *traceLoader) stored(path, key string) (value.Value, error) {
	path = localBlob(path)
	if !filepath.IsLocal(path) {
		return nil, fmt.Errorf("path %q leaves the data set", path)
	}
	f, err := pthformat.Open(filepath.Join(l.call.root, path), pthformat.Options{Read: l.mode})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", path, reason(err))
	}
	l.open = append(l.open, f)
	if d, ok := f.Root.(*value.Dict); ok {
		if v, ok := d.Get(key); ok {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%s: tensor %q is missing", path, key)
}

// random makes a tensor of numbers that are the same each time: standard normal
// ones, whole numbers 0 and 1 of dtypes without fractions.
func (l *traceLoader) random(name string, in traceInput) (value.Value, error) {
	dt, ok := tensor.ParseDType(in.DType)
	if !ok {
		return &value.Opaque{Global: in.DType, Reason: "dtype " + in.DType}, nil
	}
	if in.Shape == nil {
		return nil, errors.New("a number cannot be random")
	}
	shape := make([]int, len(*in.Shape))
	for i, axis := range *in.Shape {
		n, ok := l.axes[axis]
		if !ok {
			return nil, fmt.Errorf("axis %q has no size", axis)
		}
		shape[i] = int(n)
	}
	if _, err := tensor.Summarised(dt, shape, tensor.Summary{}); err != nil {
		return nil, err
	}
	h := fnv.New64a()
	io.WriteString(h, l.w.Workload.UUID+" "+name)
	seed := h.Sum64()
	if !dt.IsFloat() {
		return tensor.Lazy(dt, shape, 1, func(lo int, dst []int64) {
			for i := range dst {
				dst[i] = int64(mix(seed+uint64(lo+i)) >> 63)
			}
		}), nil
	}
	return tensor.Lazy(dt, shape, 1, func(lo int, dst []float64) {
		for i := range dst {
			a, b := mix(seed+2*uint64(lo+i)), mix(seed+2*uint64(lo+i)+1)
			r := math.Sqrt(-2 * math.Log((float64(a>>11)+0.5)/(1<<53)))
			dst[i] = dt.Round(r * math.Cos(2*math.Pi*float64(b>>11)/(1<<53)))
		}
	}), nil
}

// mix is splitmix64.
//
// Source: https://prng.di.unimi.it/splitmix64.c
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
