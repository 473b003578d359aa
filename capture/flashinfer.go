package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/internal/files"
	"github.com/optool/optool/pthformat"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// flashInfer is FlashInfer's log of level 10: a directory for each call, whose
// metadata.jsonl has a line written before the call and one after; the last holds.
//
// Source: flashinfer 0.7.2, flashinfer/api_logging.py, its dumps.
var flashInfer = producer{
	begins: func(name string) bool { return name == "metadata.jsonl" },
	open:   openFlashInfer,
	hidden: flashInferValues,
}

var flashInferValues = []string{"inputs.pt", "inputs.safetensors", "outputs.pt", "outputs.safetensors"}

// flashInferMeta is a line of metadata.jsonl.
type flashInferMeta struct {
	Function  string         `json:"function_name"`
	Sequence  int            `json:"call_sequence"`
	Timestamp string         `json:"timestamp"`
	PID       *int           `json:"process_id"`
	Inputs    map[string]any `json:"input_metadata"`
	Outputs   map[string]any `json:"output_metadata"`
	Tensors   struct {
		Inputs  []string `json:"input_tensor_keys"`
		Outputs []string `json:"output_tensor_keys"`
	} `json:"tensor_info"`
	Details map[string]struct {
		Device string `json:"device"`
	} `json:"tensor_details"`
	Format    string `json:"tensor_format"`
	Signature string `json:"function_signature"`
	Status    string `json:"execution_status"`
}

// A flashInferCall is the directory of a call.
type flashInferCall struct{ dir string }

// flashInferLimit bounds a metadata.jsonl, in bytes.
const flashInferLimit = 64 << 20

func openFlashInfer(dir, base string) (iter.Seq2[*Entry, error], bool) {
	if !bytes.Contains(head(filepath.Join(dir, base)), []byte(`"function_name"`)) {
		return nil, false
	}
	c := flashInferCall{dir}
	m, err := c.meta()
	return func(yield func(*Entry, error) bool) {
		if err != nil {
			yield(nil, &FileError{Path: filepath.Join(dir, "metadata.jsonl"), Err: err})
			return
		}
		e := newForeign(FlashInfer, "", c)
		e.Op, e.Time = "flashinfer."+m.Function, m.Timestamp
		e.Call = fmt.Sprintf("%s call%04d", m.Function, m.Sequence)
		if m.PID != nil && *m.PID >= 0 {
			e.PID = *m.PID
		}
		e.Files.add(Input)
		if m.Status == "completed" {
			e.Files.add(Output)
		}
		yield(e, nil)
	}, true
}

// meta reads the last whole line of the call's log.
func (c flashInferCall) meta() (*flashInferMeta, error) {
	b, err := readSmall(filepath.Join(c.dir, "metadata.jsonl"), flashInferLimit)
	if err != nil {
		return nil, err
	}
	var last *flashInferMeta
	var failure error
	for line := range bytes.Lines(plainJSON(b)) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(line))
		d.UseNumber()
		var m flashInferMeta
		if err := d.Decode(&m); err != nil {
			failure = jsonError(err) // a call that ended the process may have cut its line off
			continue
		}
		last = &m
	}
	switch {
	case last == nil && failure != nil:
		return nil, failure
	case last == nil || last.Function == "":
		return nil, errors.New("no line names a function")
	}
	return last, nil
}

// parts implements recording.
func (c flashInferCall) parts() []files.Part {
	paths := []string{filepath.Join(c.dir, "metadata.jsonl")}
	for _, base := range flashInferValues {
		paths = append(paths, filepath.Join(c.dir, base))
	}
	return files.Wholes(paths...)
}

// describe implements recording.
func (c flashInferCall) describe() (description, error) {
	m, err := c.meta()
	if err != nil {
		return nil, fmt.Errorf("metadata.jsonl: %w", err)
	}
	return flashInferDescription{c, m}, nil
}

// A flashInferDescription is what the log says about a call.
type flashInferDescription struct {
	flashInferCall
	meta *flashInferMeta
}

// record implements description.
func (c flashInferDescription) record(k Kind, mode pthformat.ReadMode) (*Record, []io.Closer, error) {
	m := c.meta
	r := &Record{Name: "flashinfer." + m.Function, Kwargs: &value.Dict{}}
	stem, plain, keys := "inputs", m.Inputs, m.Tensors.Inputs
	if k == Output {
		stem, plain, keys = "outputs", m.Outputs, m.Tensors.Outputs
	}
	named := map[string]value.Value{}
	for key, v := range plain {
		named[key] = describedValue(v)
	}
	var closers []io.Closer
	if len(keys) > 0 {
		f, err := c.tensors(stem, keys, named, mode)
		if err != nil {
			return nil, nil, err
		}
		closers = append(closers, f)
	}
	if k == Output {
		r.Args = []value.Value{numbered(named, "result")}
	} else {
		r.fillArguments(named, parameters(m.Signature))
	}
	return r, closers, nil
}

// tensors adds the tensors of inputs or outputs to named.
func (c flashInferDescription) tensors(stem string, keys []string, named map[string]value.Value,
	mode pthformat.ReadMode) (io.Closer, error) {
	m, base := c.meta, stem+".pt"
	if m.Format == "safetensors" {
		base = stem + ".safetensors"
	}
	f, err := pthformat.Open(filepath.Join(c.dir, base), pthformat.Options{Read: mode})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", base, reason(err))
	}
	d, ok := f.Root.(*value.Dict)
	if !ok {
		f.Close()
		return nil, fmt.Errorf("%s: not a dict of tensors", base)
	}
	for _, key := range keys {
		v, ok := d.Get(key)
		if !ok {
			f.Close()
			return nil, fmt.Errorf("%s: tensor %q is missing", base, key)
		}
		if t, ok := v.(*tensor.Tensor); ok && m.Details[key].Device != "" {
			t.Device = m.Details[key].Device
		}
		named[key] = v
	}
	return f, nil
}

// describedValue is an argument that is no tensor: plain JSON, or an object that
// says its type.
func describedValue(v any) value.Value {
	switch v := v.(type) {
	case nil, bool, string:
		return v
	case json.Number:
		if i, ok := jsonInt(v); ok {
			return i
		}
		f, _ := jsonFloat(v)
		return f
	case []any:
		l := value.NewList()
		for _, x := range v {
			l.Items = append(l.Items, describedValue(x))
		}
		return l
	case map[string]any:
		kind, _ := v["type"].(string)
		text, _ := v["value"].(string)
		if dt, ok := tensor.ParseDType(text); ok && strings.HasPrefix(text, "torch.") {
			return dt
		}
		return &value.Opaque{Global: kind, Reason: "value of " + kind}
	}
	return nil
}

// fillArguments sorts values called arg_0, arg_1_0, kwarg_out into args and
// kwargs. known are the names of the function's parameters.
func (r *Record) fillArguments(named map[string]value.Value, known []string) {
	if args, ok := numbered(named, "arg").(*value.Sequence); ok {
		r.Args = args.Items
	}
	lists := map[string]bool{}
	var names []string
	for key := range named {
		name, ok := strings.CutPrefix(key, "kwarg_")
		if !ok {
			continue
		}
		if stem, _, isItem := cutNumber(name); isItem && !slices.Contains(known, name) && slices.Contains(known, stem) {
			name = stem
			lists[name] = true
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		v := named["kwarg_"+name]
		if lists[name] {
			v = numbered(named, "kwarg_"+name)
		}
		r.Kwargs.Items = append(r.Kwargs.Items, value.Item{Key: name, Value: v})
	}
}

// cutNumber splits name_3 into name and 3.
func cutNumber(s string) (stem string, n int, ok bool) {
	i := strings.LastIndexByte(s, '_')
	if i < 0 {
		return "", 0, false
	}
	n, ok = number(s[i+1:])
	return s[:i], n, ok && n < value.MaxItems
}

// numbered is the value of that name, or the tuple of those called name_0, name_1,
// and so on, which may be tuples themselves.
func numbered(named map[string]value.Value, name string) value.Value {
	if v, ok := named[name]; ok {
		return v
	}
	most := -1
	for key := range named {
		rest, ok := strings.CutPrefix(key, name+"_")
		if !ok {
			continue
		}
		first, _, _ := strings.Cut(rest, "_")
		if n, ok := number(first); ok && n < 1<<16 {
			most = max(most, n)
		}
	}
	if most < 0 {
		return nil
	}
	s := value.NewTuple()
	for i := range most + 1 {
		s.Items = append(s.Items, numbered(named, name+"_"+strconv.Itoa(i)))
	}
	return s
}

// parameters are the names in a signature: "(input, weight, eps=1e-06)".
func parameters(signature string) []string {
	var names []string
	depth, start := 0, 0
	take := func(part string) {
		name, _, _ := strings.Cut(part, "=")
		name, _, _ = strings.Cut(name, ":")
		if name = strings.Trim(name, " *"); name != "" {
			names = append(names, name)
		}
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(signature), "("), " -> ")
	for i, c := range text {
		switch c {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
			if depth < 0 {
				take(text[start:i])
				return names
			}
		case ',':
			if depth == 0 {
				take(text[start:i])
				start = i + 1
			}
		}
	}
	return names
}
