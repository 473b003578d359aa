package devicebridge

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/internal/quota"
	"github.com/optool/optool/tensor"
)

// Layout of the shared memory; native/worker/arena.h and arena.cc know the same.
const (
	guardBytes = 1024
	alignment  = 256
	arenaBytes = 1 << 38 // of addresses; the file takes what is used
	// arenaTurn is how many bytes of addresses a worker's plans use before another worker
	// takes over. The tables of the pages of so many take 32 MiB.
	arenaTurn = 16 << 30
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
	plan    *diopi.Plan
	blocks  []block
	allocs  []*diopi.Alloc
	outs    []*diopi.Out
	gens    []*diopi.Generator
	calls   encoder
	writes  [][]int // by call: the blocks it may write
	top     int64
	byT     map[*diopi.Tensor]int
	readers map[*diopi.Out]func(bits uint64) any // of plain results
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
	r := &request{plan: p, top: guardBytes, byT: map[*diopi.Tensor]int{}, readers: map[*diopi.Out]func(uint64) any{}}
	for _, c := range p.Calls {
		if err := r.call(c); err != nil {
			return nil, fmt.Errorf("%s: %w", c.Function, err)
		}
	}
	if err := quota.CheckMemory(r.top); err != nil {
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
			e.tag(diopi.FormContext)
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
	how, ok := p.Kind.Passing()
	switch {
	case a == nil && how.Nullable:
		r.calls.tag(diopi.FormNull)
		return nil, nil
	case a == nil:
		return nil, fmt.Errorf("want a value for %s, got nil", p.Kind)
	case !ok || encoders[how.Form] == nil:
		return nil, fmt.Errorf("a parameter of kind %s can only be null", p.Kind)
	}
	return encoders[how.Form](r, argument{p, how}, a)
}

// An argument is what its encoder knows of its parameter.
type argument struct {
	param *diopi.Param
	how   diopi.Passing
}

// A formEncoder appends an argument to the calls, and returns the blocks the
// callee may write through it.
type formEncoder func(r *request, p argument, a diopi.Arg) (writes []int, err error)

var encoders = map[diopi.Form]formEncoder{
	diopi.FormTensor:         (*request).tensorArg,
	diopi.FormTensors:        writing((*request).tensorsArg),
	diopi.FormAllocAddress:   plainly(func(r *request, a *diopi.Alloc) { r.calls.u32(r.alloc(a)) }),
	diopi.FormScalar:         writing((*request).scalarArg),
	diopi.FormSize:           plainly(func(r *request, v diopi.Size) { r.calls.ints64(v) }),
	diopi.FormSizePointer:    plainly(func(r *request, v diopi.Size) { r.calls.ints64(v) }),
	diopi.FormInteger:        (*request).integerArg,
	diopi.FormReal:           plainly(func(r *request, v diopi.Real) { r.calls.real(float64(v)) }),
	diopi.FormIntegerPointer: plainly(func(r *request, v diopi.Integer) { r.calls.i64(int64(v)) }),
	diopi.FormRealPointer:    plainly(func(r *request, v diopi.Real) { r.calls.real(float64(v)) }),
	diopi.FormBoolPointer:    plainly(func(r *request, v diopi.Bool) { r.calls.i64(boolInt(bool(v))) }),
	diopi.FormText:           plainly(func(r *request, v diopi.Text) { r.calls.text(string(v)) }),
	diopi.FormGenerator:      plainly(func(r *request, g *diopi.Generator) { r.calls.u32(r.generator(g)) }),
	diopi.FormGenerators: plainly(func(r *request, list diopi.Generators) {
		r.calls.u32(len(list))
		for _, g := range list {
			r.calls.u32(r.generator(g))
		}
	}),
	diopi.FormOut: writing((*request).outArg),
}

// wrongType says what type of argument a parameter wants.
func wrongType(p argument, want string, a diopi.Arg) error {
	return fmt.Errorf("want %s for %s, got %T", want, p.param.Kind, a)
}

// writing is the encoder of a form whose arguments are all of one type; write follows
// the form.
func writing[T diopi.Arg](write func(r *request, p argument, a T) ([]int, error)) formEncoder {
	return func(r *request, p argument, a diopi.Arg) ([]int, error) {
		v, ok := a.(T)
		if !ok {
			return nil, wrongType(p, fmt.Sprintf("%T", v), a)
		}
		r.calls.tag(p.how.Form)
		return write(r, p, v)
	}
}

// plainly is writing for arguments that cannot be wrong and through which nothing is
// written.
func plainly[T diopi.Arg](write func(r *request, a T)) formEncoder {
	return writing(func(r *request, _ argument, a T) ([]int, error) {
		write(r, a)
		return nil, nil
	})
}

func (r *request) tensorArg(p argument, a diopi.Arg) (writes []int, err error) {
	switch a := a.(type) {
	case *diopi.Tensor:
		k, err := r.tensor(a)
		if err != nil {
			return nil, err
		}
		r.calls.tag(diopi.FormTensor)
		r.calls.u32(k)
		if p.how.Writes {
			writes = r.parts(k)
		}
		return writes, nil
	case *diopi.Alloc:
		r.calls.tag(diopi.FormAlloc)
		r.calls.u32(r.alloc(a))
		return nil, nil
	}
	return nil, wrongType(p, "*diopi.Tensor or *diopi.Alloc", a)
}

func (r *request) tensorsArg(p argument, list diopi.Tensors) (writes []int, err error) {
	numbers := make([]int, len(list))
	for i, t := range list {
		numbers[i] = math.MaxUint32
		if t == nil {
			continue
		}
		if numbers[i], err = r.tensor(t); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		if p.how.Writes {
			writes = append(writes, r.parts(numbers[i])...)
		}
	}
	r.calls.ints32(numbers)
	return writes, nil
}

func (r *request) scalarArg(_ argument, s diopi.Scalar) ([]int, error) {
	dt, err := dtypeNumber(s.DType)
	if err != nil {
		return nil, err
	}
	r.calls.u8(dt)
	if s.UsesInt() {
		r.calls.i64(s.Int)
	} else {
		r.calls.real(s.Float)
	}
	return nil, nil
}

// integerArg is what C passes as an integer: also bool and enumerations.
func (r *request) integerArg(p argument, a diopi.Arg) ([]int, error) {
	enum, v := p.param.Kind.Enum(), int64(0)
	fits := enum == ""
	switch a := a.(type) {
	case diopi.Integer:
		v = int64(a)
	case diopi.Bool:
		v = boolInt(bool(a))
	case diopi.Enum:
		n, known := diopi.Enums()[enum][string(a)]
		if !known {
			return nil, fmt.Errorf("%s has no enumerator %s", p.param.Kind, a)
		}
		v, fits = int64(n), true
	default:
		fits = false
	}
	if !fits {
		return nil, wrongType(p, "diopi.Integer, diopi.Bool or the diopi.Enum of an enumeration", a)
	}
	r.calls.tag(p.how.Form)
	r.calls.i64(v)
	return nil, nil
}

// outArg: an Out keeps its type from the pointer it is first passed as.
func (r *request) outArg(p argument, o *diopi.Out) ([]int, error) {
	if o.Value != nil {
		want := fmt.Sprintf("%T", p.how.Read(0))
		if got := fmt.Sprintf("%T", o.Value); got != want {
			return nil, fmt.Errorf("want a value of %s, got %s", want, got)
		}
	}
	r.readers[o] = p.how.Read
	r.calls.u32(number(&r.outs, o))
	return nil, nil
}

// boolInt is a bool as C has it.
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

// message is the request as bytes; number tells its answers from those of others.
func (r *request) message(number uint32, start int64, o Options, fill byte) []byte {
	var e encoder
	e.u32(0) // the length
	e.u32(int(number))
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
	e.i64(start)
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
