package torchbridge

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Around each block of memory lie bytes that nobody may write.
const (
	guardBytes = 256
	guardFill  = 0xFF
)

// A request is what worker.py's Worker.run is given.
type request struct {
	Number  int            `json:"number"`
	Op      string         `json:"op"`
	Args    []any          `json:"args"`
	Kwargs  map[string]any `json:"kwargs"`
	Blocks  []*block       `json:"blocks"`
	Tensors []*placed      `json:"tensors"`
	Need    []int          `json:"need"`
	// GradOutputs are tensors by number, nil for a result that none flows into.
	GradOutputs []*int `json:"grad_outputs"`
	After       []int  `json:"after"`
	InPlace     bool   `json:"inplace"`
	Repeat      int    `json:"repeat"`
	Top         int64  `json:"top"`   // where results may be written
	Limit       int64  `json:"limit"` // bytes that one of them may have
	// Time asks for measurements instead of results.
	Time *Timing `json:"time"`

	numbers map[*tensor.Tensor]int
	call    *Call
}

// A block is memory between guards, of one tensor or of several that share it.
type block struct {
	At      int64  `json:"at"`    // of its first guard, in the shared memory
	Bytes   int64  `json:"bytes"` // with both guards
	Start   int64  `json:"start"` // of what is between them, counted from At
	End     int64  `json:"end"`
	Name    string `json:"name"`
	Written bool   `json:"written"`

	number int
	t      *tensor.Tensor // the first of those in it
	lo, hi int64          // the bytes of its storage that are sent
}

// A placed tensor lies in a block.
type placed struct {
	Block   int    `json:"block"`
	Start   int64  `json:"start"` // of its memory in the block's bytes
	End     int64  `json:"end"`
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Stride  []int  `json:"stride"`
	Grad    bool   `json:"grad"`
	Written bool   `json:"written"`

	t     *tensor.Tensor
	block *block
}

// newRequest finds the tensors of a call and gives them places.
func newRequest(c *Call) (*request, error) {
	r := &request{Op: c.Op, Kwargs: map[string]any{}, Args: []any{}, Tensors: []*placed{}, Blocks: []*block{},
		Need: []int{}, After: []int{}, InPlace: c.InPlace, Repeat: max(c.Repeat, 1),
		numbers: map[*tensor.Tensor]int{}, call: c}
	var err error
	for _, v := range c.Args {
		e, err := r.value(v)
		if err != nil {
			return nil, err
		}
		r.Args = append(r.Args, e)
	}
	if c.Kwargs != nil {
		for _, it := range c.Kwargs.Items {
			key, ok := it.Key.(string)
			if !ok {
				return nil, &ArgumentError{"a keyword that is no string: " + value.Repr(it.Key)}
			}
			if r.Kwargs[key], err = r.value(it.Value); err != nil {
				return nil, err
			}
		}
	}
	for _, t := range c.Written {
		n := r.tensor(t)
		r.After = append(r.After, n)
	}
	for _, t := range c.Need {
		n := r.tensor(t)
		r.Tensors[n].Grad = true
		r.Need = append(r.Need, n)
	}
	for _, g := range c.GradOutputs {
		if g == nil {
			r.GradOutputs = append(r.GradOutputs, nil)
			continue
		}
		n := r.tensor(g)
		r.GradOutputs = append(r.GradOutputs, &n)
	}
	return r, r.place()
}

// tensor is the number of a tensor.
func (r *request) tensor(t *tensor.Tensor) int {
	if n, ok := r.numbers[t]; ok {
		return n
	}
	n := len(r.Tensors)
	r.numbers[t] = n
	r.Tensors = append(r.Tensors, &placed{t: t, DType: t.DType.String(), Shape: orEmpty(t.Shape),
		Stride: orEmpty(t.Stride), Written: slices.Contains(r.call.Written, t)})
	return n
}

func orEmpty(s []int) []int {
	if s == nil {
		return []int{}
	}
	return s
}

// bytesOf are the first byte and the end of a tensor's memory, in its storage or, where it
// has none, in a block of its own.
func bytesOf(t *tensor.Tensor) (lo, hi int64) {
	size, n := int64(t.DType.Size()), int64(1)
	for d, k := range t.Shape {
		n += int64(k-1) * int64(t.Stride[d])
	}
	if t.Numel() == 0 {
		n = 0
	}
	if t.Storage() != nil {
		lo = int64(t.Offset) * size
	}
	return lo, lo + n*size
}

// place lays blocks out one behind the other, with a tensor each or all that share a
// storage.
func (r *request) place() error {
	blocks := map[any]*block{}
	for _, p := range r.Tensors {
		lo, hi := bytesOf(p.t)
		var key any = p.t
		if s := p.t.Storage(); s != nil {
			key = s
		}
		b := blocks[key]
		if b == nil {
			b = &block{number: len(r.Blocks), Name: r.name(p.t), t: p.t, lo: lo, hi: hi}
			blocks[key] = b
			r.Blocks = append(r.Blocks, b)
		}
		b.lo, b.hi = min(b.lo, lo), max(b.hi, hi)
		b.Written = b.Written || p.Written
		p.block = b
	}
	guard := int64(guardBytes)
	if r.call.Absolute {
		guard = 0
	}
	for _, b := range r.Blocks {
		b.lo -= b.lo % 16 // what is aligned in the storage is aligned behind the guard
		if s := b.t.Storage(); s != nil && r.call.Absolute {
			b.lo, b.hi = 0, s.Len()
		}
		b.At, b.Start, b.End = r.Top, guard, guard+b.hi-b.lo
		b.Bytes = (b.End + guardBytes + 63) / 64 * 64
		r.Top += b.Bytes
	}
	for _, p := range r.Tensors {
		lo, hi := bytesOf(p.t)
		p.Block, p.Start, p.End = p.block.number, guard+lo-p.block.lo, guard+hi-p.block.lo
	}
	if err := quota.CheckMemory(r.Top); err != nil {
		return fmt.Errorf("the memory shared with the device: %w", err)
	}
	return nil
}

func (r *request) name(t *tensor.Tensor) string {
	if name := r.call.Roles[t]; name != "" {
		return name
	}
	if i := slices.Index(r.call.GradOutputs, t); i >= 0 {
		return fmt.Sprintf("grad_outputs[%d]", i)
	}
	return "an argument"
}

// fill writes the blocks into the shared memory, which has Top bytes.
func (r *request) fill(memory []byte) error {
	for _, b := range r.Blocks {
		m := memory[b.At : b.At+b.Bytes]
		for _, guard := range [][]byte{m[:b.Start], m[b.End:]} {
			for i := range guard {
				guard[i] = guardFill
			}
		}
		m = m[b.Start:b.End:b.End]
		if s := b.t.Storage(); s != nil {
			data, err := s.Load()
			if err != nil {
				return err
			}
			copy(m, data[b.lo:])
			continue
		}
		spread(m, b.t)
	}
	return nil
}

// spread writes the elements of a tensor at their strides.
func spread(m []byte, t *tensor.Tensor) {
	if t.IsContiguous() {
		t.AppendBytes(m[:0:len(m)])
		return
	}
	for i := range m {
		m[i] = guardFill
	}
	size := t.DType.Size()
	dense := t.AppendBytes(make([]byte, 0, t.Numel()*size))
	at, offset := make([]int, t.Dim()), 0
	for i := range t.Numel() {
		copy(m[offset*size:(offset+1)*size], dense[i*size:])
		for d := t.Dim() - 1; d >= 0; d-- {
			offset += t.Stride[d]
			if at[d]++; at[d] < t.Shape[d] {
				break
			}
			offset -= t.Shape[d] * t.Stride[d]
			at[d] = 0
		}
	}
}

// An ArgumentError is about an argument that cannot be sent to a device.
type ArgumentError struct{ what string }

func (e *ArgumentError) Error() string { return e.what + " cannot be sent to a device" }

// one is an object of one field, as worker.py's Worker.value reads it.
func one(kind string, v any) map[string]any { return map[string]any{kind: v} }

// value is what is sent for a Python value.
func (r *request) value(v value.Value) (any, error) {
	switch v := v.(type) {
	case nil, bool, string:
		return v, nil
	case *tensor.Tensor:
		if v.Layout != "" && v.Layout != "torch.strided" {
			return nil, &ArgumentError{"a tensor of layout " + v.Layout}
		}
		return one("tensor", r.tensor(v)), nil
	case *value.Sequence:
		return r.sequence(v)
	case *value.Dict:
		pairs := []any{}
		for _, it := range v.Items {
			pair, err := r.values([]value.Value{it.Key, it.Value})
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair)
		}
		return one("dict", pairs), nil
	case value.Slice:
		parts, err := r.values([]value.Value{v.Start, v.Stop, v.Step})
		return one("slice", parts), err
	case *value.Opaque:
		return nil, &ArgumentError{"an argument of type " + v.Global}
	}
	if kind, text := described(v); kind != "" {
		return one(kind, text), nil
	}
	return nil, &ArgumentError{fmt.Sprintf("an argument of type %T", v)}
}

// described is a value that holds no others as its kind and what JSON has of it; kind is "" for other values.
func described(v value.Value) (kind string, text any) {
	switch v := v.(type) {
	case int64:
		return "int", strconv.FormatInt(v, 10)
	case *big.Int:
		return "int", v.String()
	case float64:
		return "float", hexFloat(v)
	case complex128:
		return "complex", []string{hexFloat(real(v)), hexFloat(imag(v))}
	case value.Bytes:
		return "bytes", hex.EncodeToString(v)
	case tensor.DType:
		return "dtype", v.String()
	case value.Device:
		return "device", v.Type
	case value.Layout:
		return "layout", strings.TrimPrefix(string(v), "torch.")
	case value.MemoryFormat:
		return "memory_format", strings.TrimPrefix(string(v), "torch.")
	case value.Ellipsis:
		return "ellipsis", true
	}
	return "", nil
}

func (r *request) sequence(v *value.Sequence) (any, error) {
	items, err := r.values(v.Items)
	kind := [...]string{value.List: "list", value.Tuple: "tuple", value.Set: "set", value.FrozenSet: "set"}[v.Kind]
	switch {
	case err != nil:
		return nil, err
	case v.Class == "torch.Size":
		kind = "size"
	case kind == "list":
		return items, nil
	}
	return one(kind, items), nil
}

func (r *request) values(vs []value.Value) ([]any, error) {
	out := []any{}
	for _, v := range vs {
		e, err := r.value(v)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// hexFloat is a float as Python's float.fromhex reads it: every bit.
func hexFloat(x float64) string {
	switch {
	case x != x:
		return "nan"
	case x > maxFloat:
		return "inf"
	case x < -maxFloat:
		return "-inf"
	}
	return strconv.FormatFloat(x, 'x', -1, 64)
}

const maxFloat = 0x1p1023 * (1 + (1 - 0x1p-52))

// An answer is what the worker writes.
type answer struct {
	Number   int       `json:"number"`
	Status   string    `json:"status"` // "", unsupported, missing, error
	Reason   string    `json:"reason"`
	Faults   []string  `json:"faults"`
	Outputs  []*stored `json:"outputs"`
	After    []*stored `json:"after"`
	Backward *answer   `json:"backward"`
	Grads    []*stored `json:"grads"`
	Runs     []int64   `json:"runs"`  // nanoseconds of each
	Clock    string    `json:"clock"` // host or device
	Memory   *Memory   `json:"memory"`
	Absent   bool      `json:"absent"` // of unsupported: there is no function of that name
	Fatal    bool      `json:"fatal"`  // the device is of no use to this process any more
	Worn     bool      `json:"worn"`   // the process is of no use for other calls

	Info
}

// A stored tensor lies row by row in the shared memory.
type stored struct {
	At     int64  `json:"at"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	Device string `json:"device"`
}

func decodeAnswer(line []byte) (*answer, error) {
	a := &answer{}
	if err := json.Unmarshal(line, a); err != nil {
		return nil, &garbledError{err}
	}
	return a, nil
}

func (a *answer) pass() Pass {
	p := Pass{Reason: a.Reason, Faults: a.Faults, Absent: a.Absent}
	switch a.Status {
	case "":
	case "unsupported":
		p.Status = Unsupported
	case "missing":
		p.Status = Missing
	default:
		p.Status = Failed
	}
	return p
}

// A garbledError is about an answer that is none.
type garbledError struct{ err error }

func (e *garbledError) Error() string { return "the worker's answer cannot be read: " + e.err.Error() }
func (e *garbledError) Unwrap() error { return e.err }
