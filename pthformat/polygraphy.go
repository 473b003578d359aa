package pthformat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/internal/lazyregexp"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// polygraphyClass is the key by which Polygraphy's JSON says what an object is.
const polygraphyClass = `"polygraphy_class"`

// runStamp ends the name of a runner: when it ran, which differs between two runs.
var runStamp = lazyregexp.New(`-\d\d/\d\d/\d\d-\d\d:\d\d:\d\d$`)

// isPolygraphy reports whether a file is JSON of Polygraphy.
func (f *File) isPolygraphy() bool {
	head, err := f.src.view(0, 1)
	if err != nil || head[0] != '{' && head[0] != '[' {
		return false
	}
	b, err := f.src.view(0, f.Size)
	return err == nil && bytes.Contains(b, []byte(polygraphyClass))
}

// readPolygraphy reads what `polygraphy run` saves: the inputs, an array of dicts, one
// for each iteration, or the outputs of each runner and iteration. Root is the dict of
// arrays, in a list where there are several iterations, in a dict by the name of the
// runner where there are several of those.
//
// Source: NVIDIA/TensorRT, tools/Polygraphy, polygraphy/json and comparator/struct.py.
func (f *File) readPolygraphy() error {
	f.Format = "polygraphy"
	text, err := f.src.view(0, f.Size)
	if err != nil {
		return err
	}
	p := polygraphy{limit: f.lim.Records}
	if text[0] == '[' {
		f.Root, err = p.iterations(text, func(raw json.RawMessage) (value.Value, error) { return p.arrays(raw) })
	} else {
		f.Root, err = p.results(text)
	}
	f.Expanded = 2*p.seen + 1
	return err
}

// A polygraphy reads the values of one file.
type polygraphy struct{ seen, limit int }

func (p *polygraphy) results(text []byte) (value.Value, error) {
	var all struct {
		Class   string              `json:"polygraphy_class"`
		Runners [][]json.RawMessage `json:"lst"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, malformed("polygraphy: JSON: %s", jsonError(err))
	}
	if all.Class != "RunResults" {
		return nil, malformed("polygraphy: %q is not RunResults", all.Class)
	}
	runners := &value.Dict{}
	for i, r := range all.Runners {
		var name string
		if len(r) != 2 || json.Unmarshal(r[0], &name) != nil {
			return nil, malformed("polygraphy: runner %d is not a name with its iterations", i)
		}
		v, err := p.iterations(r[1], func(raw json.RawMessage) (value.Value, error) {
			var result struct {
				Outputs json.RawMessage `json:"outputs"`
			}
			if err := json.Unmarshal(raw, &result); err != nil {
				return nil, malformed("polygraphy: JSON: %s", jsonError(err))
			}
			return p.arrays(result.Outputs)
		})
		if err != nil {
			return nil, within(err, "runner %d", i)
		}
		runners.Items = append(runners.Items, value.Item{Key: runStamp().ReplaceAllString(name, ""), Value: v})
	}
	if len(runners.Items) == 1 {
		return runners.Items[0].Value, nil
	}
	return runners, nil
}

// iterations are what read makes of each item; of one alone itself.
func (p *polygraphy) iterations(text []byte, read func(json.RawMessage) (value.Value, error)) (value.Value, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, malformed("polygraphy: JSON: %s", jsonError(err))
	}
	all := value.NewList()
	for i, raw := range items {
		v, err := read(raw)
		if err != nil {
			return nil, within(err, "iteration %d", i)
		}
		all.Items = append(all.Items, v)
	}
	if len(all.Items) == 1 {
		return all.Items[0], nil
	}
	return all, nil
}

// arrays reads an object of arrays, in the order of the file.
func (p *polygraphy) arrays(text json.RawMessage) (value.Value, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, malformed("polygraphy: the arrays are not a JSON object")
	}
	out := &value.Dict{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, malformed("polygraphy: JSON: %s", jsonError(err))
		}
		name, _ := t.(string)
		if _, twice := out.Get(name); twice {
			return nil, malformed("polygraphy: array %q appears twice", name)
		}
		if p.seen++; p.seen > p.limit {
			return nil, malformed("polygraphy: more than %d arrays", p.limit)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, malformed("polygraphy: JSON: %s", jsonError(err))
		}
		v, err := p.array(raw, 0)
		if err != nil {
			return nil, within(err, "array %q", name)
		}
		out.Items = append(out.Items, value.Item{Key: name, Value: v})
	}
	return out, nil
}

// array reads an array: a .npy file in base64, which may be wrapped once.
func (p *polygraphy) array(raw json.RawMessage, depth int) (value.Value, error) {
	var a struct {
		Class  string          `json:"polygraphy_class"`
		Values json.RawMessage `json:"values"`
		Array  []byte          `json:"array"`
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, malformed("polygraphy: JSON: %s", jsonError(err))
	}
	switch {
	case a.Class == "LazyArray" && a.Values != nil && depth == 0:
		return p.array(a.Values, depth+1)
	case a.Class != "ndarray":
		return &value.Opaque{Global: "polygraphy." + a.Class, Reason: "a " + a.Class + " is not read"}, nil
	}
	array, err := parseNpy(a.Array)
	if err != nil {
		return nil, err
	}
	v, err := array.value(int64(len(a.Array)), func(at, n int64) ([]byte, error) { return a.Array[at : at+n], nil })
	if t, ok := v.(*tensor.Tensor); ok {
		t.Device = "cpu"
	}
	return v, err
}

// within says in which part of a file an error is.
func within(err error, format string, args ...any) error {
	var fe *FormatError
	if errors.As(err, &fe) {
		fe.Record = strings.TrimSuffix(fmt.Sprintf(format, args...)+": "+fe.Record, ": ")
	}
	return err
}
