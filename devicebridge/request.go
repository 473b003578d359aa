package devicebridge

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
)

// Layout of the shared memory; native/worker/arena.h and arena.cc know the same.
const (
	guardBytes = 1024
	alignment  = 256
	arenaBytes = 1 << 38 // of addresses; the file takes what is used
)

// Memory for results, and the gaps between the elements of strided tensors, hold
// a pattern before the first call: all ones, NaN in every floating dtype. What
// still holds it afterwards may not have been written; a second run with another
// pattern proves it.
const (
	poison      = 0xFF
	otherPoison = 0x7F
)

// A block is a tensor's place in the shared memory.
type block struct {
	t       *diopi.Tensor
	stride  []int
	offset  int64
	nbytes  int64
	written bool // by a call that ended well
}

// A request is a plan as the worker is told it.
type request struct {
	plan     *diopi.Plan
	blocks   []block
	allocs   []*diopi.Alloc
	outs     []*diopi.Out
	gens     []*diopi.Generator
	calls    encoder
	writes   [][]int // by call: the blocks it may write
	top      int64
	byT      map[*diopi.Tensor]int
	outKinds map[*diopi.Out]string
}

// operators are the functions the worker can call, by name; the number is their
// place in the worker's table.
var operators = sync.OnceValue(func() map[string]int {
	m := map[string]int{}
	for i, f := range diopi.Operators() {
		m[f.Name] = i
	}
	return m
})

// newRequest checks the plan's arguments against the interface and gives every
// tensor its place.
func newRequest(p *diopi.Plan) (*request, error) {
	r := &request{plan: p, top: guardBytes, byT: map[*diopi.Tensor]int{}, outKinds: map[*diopi.Out]string{}}
	for _, c := range p.Calls {
		if err := r.call(c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Function, err)
		}
	}
	if err := tensor.CheckMemory(r.top); err != nil {
		return nil, fmt.Errorf("the memory shared with the device: %w", err)
	}
	return r, nil
}

func (r *request) call(c *diopi.Call) error {
	number, ok := operators()[c.Function]
	if !ok {
		return fmt.Errorf("no such operator in DIOPI's interface")
	}
	f, _ := diopi.Lookup(c.Function)
	e := &r.calls
	e.u32(number)
	e.u8(uint8(slices.Index([]diopi.Phase{diopi.Forward, diopi.Backward, diopi.InPlace}, c.Phase)))
	e.u32(len(f.Params))
	given := 0
	var writes []int
	for i := range f.Params {
		p := &f.Params[i]
		if p.Kind == diopi.KindContext {
			e.tag(tagContext)
			continue
		}
		a, ok := c.Args[p.Name]
		if !ok {
			return fmt.Errorf("argument %s is not given", p.Name)
		}
		given++
		written, err := r.arg(p, a)
		if err != nil {
			return fmt.Errorf("argument %s: %w", p.Name, err)
		}
		writes = append(writes, written...)
	}
	if given != len(c.Args) {
		for name := range c.Args {
			if _, ok := f.Param(name); !ok {
				return fmt.Errorf("it has no parameter %s", name)
			}
		}
	}
	slices.Sort(writes)
	writes = slices.Compact(writes)
	e.ints32(writes)
	r.writes = append(r.writes, writes)
	return nil
}

func (e *encoder) ints32(v []int) {
	e.u32(len(v))
	for _, x := range v {
		e.u32(x)
	}
}

// arg appends an argument and returns the blocks the callee may write through it.
func (r *request) arg(p *diopi.Param, a diopi.Arg) (writes []int, err error) {
	e := &r.calls
	kind, enum, _ := strings.Cut(string(p.Kind), ":")
	wrong := func(want string) error { return fmt.Errorf("want %s for %s, got %T", want, p.Kind, a) }
	if a == nil {
		switch kind {
		case "size", "size_ptr", "scalar_ptr", "int64_ptr", "double_ptr", "bool_ptr", "generator", "generator_array",
			"string", "void_ptr_mut",
			"tensor_in", "tensor_out", "tensor_inout", "tensor_ptr_out", "tensor_array_in", "tensor_array_out",
			"tensor_array_inout",
			"bool_ptr_out", "int64_ptr_out", "double_ptr_out", "int64_ptr_inout":
			e.tag(tagNull)
			return nil, nil
		}
		return nil, wrong("a value")
	}
	switch kind {
	case "tensor_in", "tensor_out", "tensor_inout":
		switch a := a.(type) {
		case *diopi.Tensor:
			k, err := r.tensor(a)
			if err != nil {
				return nil, err
			}
			e.tag(tagTensor)
			e.u32(k)
			if kind != "tensor_in" {
				writes = r.parts(k)
			}
			return writes, nil
		case *diopi.Alloc:
			e.tag(tagAlloc)
			e.u32(r.alloc(a))
			return nil, nil
		}
		return nil, wrong("*Tensor or *Alloc")
	case "tensor_ptr_out":
		al, ok := a.(*diopi.Alloc)
		if !ok {
			return nil, wrong("*Alloc")
		}
		e.tag(tagAllocAddress)
		e.u32(r.alloc(al))
	case "tensor_array_in", "tensor_array_out", "tensor_array_inout":
		list, ok := a.([]*diopi.Tensor)
		if !ok {
			return nil, wrong("[]*Tensor")
		}
		numbers := make([]int, len(list))
		for i, t := range list {
			numbers[i] = math.MaxUint32
			if t == nil {
				continue
			}
			if numbers[i], err = r.tensor(t); err != nil {
				return nil, fmt.Errorf("item %d: %w", i, err)
			}
			if kind != "tensor_array_in" {
				writes = append(writes, r.parts(numbers[i])...)
			}
		}
		e.tag(tagTensors)
		e.ints32(numbers)
	case "scalar_ptr":
		s, ok := a.(diopi.Scalar)
		if !ok {
			return nil, wrong("Scalar")
		}
		dt, err := dtypeNumber(s.DType)
		if err != nil {
			return nil, err
		}
		e.tag(tagScalar)
		e.u8(dt)
		if dt <= 7 { // diopi_dtype_uint64: the union's integer
			e.i64(s.Int)
		} else {
			e.real(s.Float)
		}
	case "size", "size_ptr":
		v, ok := a.([]int64)
		if !ok {
			return nil, wrong("[]int64")
		}
		e.tag(map[string]argTag{"size": tagSize, "size_ptr": tagSizePointer}[kind])
		e.ints64(v)
	case "int64", "int32", "cint", "uint64", "int64_ptr":
		v, ok := a.(int64)
		if !ok {
			return nil, wrong("int64")
		}
		if kind == "int64_ptr" {
			e.tag(tagIntegerPointer)
		} else {
			e.tag(tagInteger)
		}
		e.i64(v)
	case "double", "float", "double_ptr":
		v, ok := a.(float64)
		if !ok {
			return nil, wrong("float64")
		}
		if kind == "double_ptr" {
			e.tag(tagRealPointer)
		} else {
			e.tag(tagReal)
		}
		e.real(v)
	case "bool", "bool_ptr":
		v, ok := a.(bool)
		if !ok {
			return nil, wrong("bool")
		}
		if kind == "bool_ptr" {
			e.tag(tagBoolPointer)
		} else {
			e.tag(tagInteger)
		}
		e.i64(boolInt(v))
	case "string":
		v, ok := a.(string)
		if !ok {
			return nil, wrong("string")
		}
		e.tag(tagText)
		e.text(v)
	case "enum":
		name, ok := a.(diopi.Enum)
		if !ok {
			return nil, wrong("Enum")
		}
		v, ok := diopi.Enums()[enum][string(name)]
		if !ok {
			return nil, fmt.Errorf("%s has no enumerator %s", enum, name)
		}
		e.tag(tagInteger)
		e.i64(int64(v))
	case "generator":
		g, ok := a.(*diopi.Generator)
		if !ok {
			return nil, wrong("*Generator")
		}
		e.tag(tagGenerator)
		e.u32(r.generator(g))
	case "generator_array":
		list, ok := a.([]*diopi.Generator)
		if !ok {
			return nil, wrong("[]*Generator")
		}
		e.tag(tagGenerators)
		e.u32(len(list))
		for _, g := range list {
			e.u32(r.generator(g))
		}
	case "bool_ptr_out", "int64_ptr_out", "int64_ptr_inout", "double_ptr_out":
		o, ok := a.(*diopi.Out)
		if !ok {
			return nil, wrong("*Out")
		}
		e.tag(tagOut)
		k, err := r.out(o, kind)
		if err != nil {
			return nil, err
		}
		e.u32(k)
	default:
		return nil, fmt.Errorf("a parameter of kind %s can only be null", p.Kind)
	}
	return writes, nil
}

func boolInt(v bool) int64 {
	if v {
		return 1
	}
	return 0
}

// parts are the blocks that hold what a write to tensor k may change.
func (r *request) parts(k int) []int {
	if csr := r.blocks[k].t.CSR; csr != nil {
		return []int{r.byT[csr.CrowIndices], r.byT[csr.ColIndices], r.byT[csr.Values]}
	}
	return []int{k}
}

func number[T comparable](list *[]T, x T) int {
	if i := slices.Index(*list, x); i >= 0 {
		return i
	}
	*list = append(*list, x)
	return len(*list) - 1
}

func (r *request) alloc(a *diopi.Alloc) int         { return number(&r.allocs, a) }
func (r *request) generator(g *diopi.Generator) int { return number(&r.gens, g) }

// An Out keeps its type from the pointer it is first passed as.
func (r *request) out(o *diopi.Out, kind string) (int, error) {
	if o.Value != nil {
		want := map[string]string{"bool_ptr_out": "bool", "int64_ptr_out": "int64", "int64_ptr_inout": "int64",
			"double_ptr_out": "float64"}[kind]
		if got := fmt.Sprintf("%T", o.Value); got != want {
			return 0, fmt.Errorf("want a value of %s, got %s", want, got)
		}
	}
	r.outKinds[o] = kind
	return number(&r.outs, o), nil
}

// tensor gives a tensor a number and a place in the shared memory.
func (r *request) tensor(t *diopi.Tensor) (int, error) {
	if k, ok := r.byT[t]; ok {
		return k, nil
	}
	b := block{t: t, stride: t.Stride}
	if t.CSR != nil {
		for _, part := range []*diopi.Tensor{t.CSR.CrowIndices, t.CSR.ColIndices, t.CSR.Values} {
			if part == nil {
				return 0, fmt.Errorf("a part of the sparse tensor %s is missing", t.Role)
			}
			if _, err := r.tensor(part); err != nil {
				return 0, err
			}
		}
	} else {
		if t.Value != nil && (t.Value.DType != t.DType || !slices.Equal(t.Value.Shape, t.Shape)) {
			return 0, fmt.Errorf("%s is %s%s, its value %s", t.Role, t.DType, tensor.ShapeString(t.Shape),
				t.Value.Meta())
		}
		if b.stride == nil {
			b.stride = runningProduct(t.Shape)
		}
		var err error
		if b.nbytes, err = storageBytes(t.DType, t.Shape, b.stride); err != nil {
			return 0, fmt.Errorf("%s: %w", t.Role, err)
		}
		b.offset = (r.top + guardBytes + alignment - 1) / alignment * alignment
		r.top = b.offset + b.nbytes + guardBytes
		if r.top > arenaBytes/2 {
			return 0, fmt.Errorf("%s: the tensors need %d GiB, more than a worker can share", t.Role, r.top>>30)
		}
	}
	if _, err := dtypeNumber(t.DType); err != nil {
		return 0, fmt.Errorf("%s: %w", t.Role, err)
	}
	r.byT[t] = len(r.blocks)
	r.blocks = append(r.blocks, b)
	return len(r.blocks) - 1, nil
}

// runningProduct are the strides of a dense row-major tensor as DIOPI's runtime
// computes them: dimensions left of an empty one get 0.
func runningProduct(shape []int) []int {
	stride := make([]int, len(shape))
	product := 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = product
		product *= shape[i]
	}
	return stride
}

// storageBytes is the size of the memory that shape and stride reach.
func storageBytes(dt tensor.DType, shape, stride []int) (int64, error) {
	if len(shape) != len(stride) {
		return 0, fmt.Errorf("shape %v and stride %v differ in length", shape, stride)
	}
	last, empty := uint64(1), false
	for i, n := range shape {
		if n < 0 || stride[i] < 0 {
			return 0, fmt.Errorf("shape %v, stride %v: negative", shape, stride)
		}
		if n == 0 {
			empty = true
			continue
		}
		hi, lo := bits.Mul64(uint64(n-1), uint64(stride[i]))
		if last += lo; hi != 0 || lo > arenaBytes || last > arenaBytes {
			last = arenaBytes
		}
	}
	if empty {
		return 0, nil
	}
	return int64(last) * int64(dt.Size()), nil
}

// dtypeNumber is the diopiDtype_t of a dtype.
func dtypeNumber(dt tensor.DType) (uint8, error) {
	v, ok := diopi.Enums()["diopiDtype_t"]["diopi_dtype_"+dt.String()]
	if !ok {
		return 0, fmt.Errorf("DIOPI has no dtype %s", dt)
	}
	return uint8(v), nil
}

var dtypeNames = sync.OnceValue(func() map[uint8]string {
	m := map[uint8]string{}
	for name, v := range diopi.Enums()["diopiDtype_t"] {
		m[uint8(v)] = strings.TrimPrefix(name, "diopi_dtype_")
	}
	return m
})

// message is the request as bytes.
func (r *request) message(o Options, fill byte) []byte {
	var e encoder
	e.u32(0) // the length
	e.u8(fill)
	e.u32(max(1, o.Repeat))
	var t Timing
	if o.Time != nil {
		t = *o.Time
	}
	e.u32(t.WarmUp)
	e.u32(t.Runs)
	e.i64(t.FlushBytes)
	e.i64(int64(t.Budget))
	e.i64(r.top)
	e.u32(len(r.blocks))
	for i := range r.blocks {
		b := &r.blocks[i]
		dt, _ := dtypeNumber(b.t.DType) // known since the tensor was numbered
		e.u8(dt)
		var flags uint8
		if b.t.Host {
			flags |= tensorOnHost
		}
		if b.t.Value != nil {
			flags |= tensorHasValue
		}
		if b.t.CSR != nil {
			flags |= tensorSparse
		}
		if b.t.Stride != nil {
			flags |= tensorHasStride
		}
		e.u8(flags)
		e.i64(b.offset)
		e.i64(b.nbytes)
		e.ints(b.t.Shape)
		e.ints(b.t.Stride)
		if csr := b.t.CSR; csr != nil {
			e.u32(r.byT[csr.CrowIndices])
			e.u32(r.byT[csr.ColIndices])
			e.u32(r.byT[csr.Values])
		}
	}
	e.u32(len(r.outs))
	for _, o := range r.outs {
		switch v := o.Value.(type) {
		case bool:
			e.i64(boolInt(v))
		case int64:
			e.i64(v)
		case float64:
			e.real(v)
		default:
			e.u64(0)
		}
	}
	e.u32(len(r.allocs))
	e.u32(len(r.gens))
	for _, g := range r.gens {
		e.u64(g.Seed)
		e.u64(g.Offset)
	}
	e.u32(len(r.plan.Calls))
	e.b = append(e.b, r.calls.b...)
	le.PutUint32(e.b, uint32(len(e.b)-4))
	return e.b
}
