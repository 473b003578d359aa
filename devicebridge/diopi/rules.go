package diopi

import (
	"math"
	"slices"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// Rules for what calls write: dtype and shape follow from the arguments, as the
// kit has it.

type (
	dtypeRule = func(b *build) tensor.DType
	shapeRule = func(b *build) []int
)

// result and aux are a result and an auxiliary tensor of the given dtype and shape.
func result(dt dtypeRule, sh shapeRule) out { return out{rule: fresh(dt, sh)} }
func aux(dt dtypeRule, sh shapeRule) out    { return out{rule: fresh(dt, sh), aux: true} }

// fresh is a dense tensor.
func fresh(dt dtypeRule, sh shapeRule) func(*build) any {
	return func(b *build) any { return newTensor(dt(b), sh(b)) }
}

func newTensor(dt tensor.DType, shape []int) *Tensor { return &Tensor{DType: dt, Shape: shape} }

// like is a tensor with dtype, shape and strides of an argument, dense if the
// argument repeats elements.
func like(arg string) out { return out{rule: func(b *build) any { return rawLike(b.tensor(arg)) }} }

func rawLike(t *Tensor) *Tensor {
	if overlaps(t) {
		return newTensor(t.DType, t.Shape)
	}
	return &Tensor{DType: t.DType, Shape: t.Shape, Stride: t.Stride}
}

// overlaps says that elements of a tensor may share memory, so that results cannot
// be laid out like it.
func overlaps(t *Tensor) bool {
	var dims []int
	for d := range t.Stride {
		if t.Shape[d] == 0 {
			return false
		}
		if t.Shape[d] > 1 {
			dims = append(dims, d)
		}
	}
	slices.SortFunc(dims, func(a, b int) int { return t.Stride[a] - t.Stride[b] })
	span := 0 // of the dimensions so far, to their last element
	for _, d := range dims {
		if t.Stride[d] <= span {
			return true
		}
		span += t.Stride[d] * (t.Shape[d] - 1)
	}
	return false
}

// tensor is the tensor argument of a name.
func (b *build) tensor(arg string) *Tensor {
	t, ok := b.args[arg].(*Tensor)
	if !ok || t == nil {
		b.fail("%s must be a tensor, got %s", arg, describe(b.args[arg]))
	}
	return t
}

// tensors is the argument of a name that is a list of tensors, at least one.
func (b *build) tensors(arg string) Tensors {
	list, ok := b.args[arg].(Tensors)
	if !ok || len(list) == 0 || slices.Contains(list, nil) {
		b.fail("%s must be a list of tensors, got %s", arg, describe(b.args[arg]))
	}
	return list
}

// int is an integer argument.
func (b *build) int(arg string) int {
	i, _, integral, _ := number(b.scalarOf(b.args[arg]))
	if !integral {
		b.fail("%s must be an integer, got %s", arg, describe(b.args[arg]))
	}
	return int(i)
}

// float is a number argument.
func (b *build) float(arg string) float64 {
	_, f, _, ok := number(b.scalarOf(b.args[arg]))
	if !ok {
		b.fail("%s must be a number, got %s", arg, describe(b.args[arg]))
	}
	return f
}

// bool is an argument that is true or false.
func (b *build) bool(arg string) bool { return b.args[arg] != nil && b.float(arg) != 0 }

// ints is an argument that is a number or a list of numbers.
func (b *build) ints(arg string) []int {
	s, ok := sizes(b.args[arg])
	if !ok {
		b.fail("%s must be integers, got %s", arg, describe(b.args[arg]))
	}
	n := make([]int, len(s))
	for i, x := range s {
		n[i] = int(x)
	}
	return n
}

// dim is a dimension argument of a shape of rank n, from the front.
func (b *build) dim(arg string, n int) int { return b.inRange(arg, b.int(arg), n) }

func (b *build) inRange(what string, d, n int) int {
	if d < 0 {
		d += n
	}
	if d < 0 || d >= n {
		b.fail("%s is out of range for %d dimensions", what, n)
	}
	return d
}

// rank checks the number of dimensions of an argument.
func (b *build) rank(arg string, ranks ...int) []int {
	t := b.tensor(arg)
	if !slices.Contains(ranks, len(t.Shape)) {
		b.fail("%s must have %v dimensions, got shape %v", arg, ranks, t.Shape)
	}
	return t.Shape
}

// unsqueeze adds a dimension of size 1 to an argument.
func (b *build) unsqueeze(arg string, dim int) {
	b.args[arg] = unsqueezed(b.tensor(arg), dim)
	if b.added == nil {
		b.added = map[string][]int{}
	}
	b.added[arg] = append(b.added[arg], dim)
}

// unsqueezed is t with a dimension of size 1 more.
func unsqueezed(t *Tensor, dim int) *Tensor {
	u := *t
	u.Shape, u.Stride = slices.Insert(slices.Clone(t.Shape), dim, 1), nil
	if t.Value != nil {
		u.Value = t.Value.Unsqueeze(dim)
		u.Stride = u.Value.Stride
	}
	return &u
}

// squeeze plans the calls that take dimensions of size 1, in the reverse order in
// which they were added, from t to out.
func (b *build) squeeze(out, t *Tensor, dims []int) {
	for i, d := range slices.Backward(dims) {
		to := out
		if i > 0 {
			to = newTensor(t.DType, slices.Delete(slices.Clone(t.Shape), d, d+1))
			to.Role = t.Role
		}
		b.call("Select", bindings{"dim": d, "index": 0}, map[string]Arg{"out": to, "input": t})
		t = to
	}
}

// Rules for dtypes.

func dtypeOf(arg string) dtypeRule {
	return func(b *build) tensor.DType { return b.tensor(arg).DType }
}

func constant(dt tensor.DType) dtypeRule { return func(*build) tensor.DType { return dt } }

// index is the dtype of indices.
func index(b *build) tensor.DType {
	if b.c.FourBytes {
		return tensor.Int32
	}
	return tensor.Int64
}

// floating is the dtype of an argument, float32 for integers and bool.
func floating(arg string) dtypeRule { return promoted(arg, tensor.Float32) }

// promoted is the dtype of an argument, to for integers and bool.
func promoted(arg string, to tensor.DType) dtypeRule {
	return func(b *build) tensor.DType {
		dt := b.tensor(arg).DType
		if dt.IsIntegral() || dt == tensor.Bool {
			return to
		}
		return dt
	}
}

// halfToSingle is the dtype of an argument, float32 for float16.
func halfToSingle(arg string) dtypeRule {
	return func(b *build) tensor.DType {
		if dt := b.tensor(arg).DType; dt != tensor.Float16 && dt != tensor.BFloat16 {
			return dt
		}
		return tensor.Float32
	}
}

// orDType is the argument dtype if there is one, else what the rule says.
func orDType(rule dtypeRule) dtypeRule {
	return func(b *build) tensor.DType {
		if dt, ok := b.args["dtype"].(tensor.DType); ok {
			return dt
		}
		return rule(b)
	}
}

// kindOf is the dtype of a tensor or number as the kit has it.
func (b *build) kindOf(v any) tensor.DType {
	if t, ok := v.(*Tensor); ok && t != nil {
		return t.DType
	}
	i, f, integral, ok := number(v)
	if !ok {
		b.fail("%s is neither a tensor nor a number", describe(v))
	}
	return b.scalar(i, f, integral).DType
}

// common is the dtype the kit gives the result of two operands: it knows
// float before integer before bool, and of a kind the larger in the order of
// diopiDtype_t.
func common(x, y string) dtypeRule {
	return func(b *build) tensor.DType { return b.common(b.args[x], b.args[y]) }
}

func (b *build) common(x, y any) tensor.DType {
	dx, dy := b.kindOf(x), b.kindOf(y)
	_, tx := x.(*Tensor)
	_, ty := y.(*Tensor)
	switch {
	case tx && !ty:
		return withNumber(dx, dy)
	case ty && !tx:
		return withNumber(dy, dx)
	case dx.IsFloat() && !dy.IsFloat():
		return dx
	case dy.IsFloat() && !dx.IsFloat():
		return dy
	case dx == tensor.Bool:
		return dy
	case dy == tensor.Bool:
		return dx
	case code(dx) >= code(dy):
		return dx
	}
	return dy
}

// withNumber is the dtype of a tensor of dtype dt with a number of dtype n.
func withNumber(dt, n tensor.DType) tensor.DType {
	switch {
	case dt.IsFloat():
		return dt
	case n.IsFloat():
		return tensor.Float32
	case dt == tensor.Bool:
		return tensor.Int64
	}
	return dt
}

// code is the value of a dtype in diopiDtype_t.
func code(dt tensor.DType) int32 { return Enums()["diopiDtype_t"]["diopi_dtype_"+dt.String()] }

// complexOf is the complex dtype of parts like an argument.
func complexOf(arg string) dtypeRule {
	return func(b *build) tensor.DType { return b.tensor(arg).DType.Complex() }
}

// Rules for shapes.

func shapeOf(arg string) shapeRule { return func(b *build) []int { return b.tensor(arg).Shape } }

// sizeOf is the shape an argument spells out.
func sizeOf(arg string) shapeRule { return func(b *build) []int { return b.ints(arg) } }

// broadcast is the shape arguments have together; numbers and None have none.
func broadcast(args ...string) shapeRule {
	return func(b *build) []int {
		shape := []int{}
		for _, a := range args {
			if t, ok := b.args[a].(*Tensor); ok && t != nil {
				shape = b.broadcast(shape, t.Shape)
			}
		}
		return shape
	}
}

func (b *build) broadcast(x, y []int) []int {
	if len(x) < len(y) {
		x, y = y, x
	}
	shape := slices.Clone(x)
	for i, n := range y {
		k := len(x) - len(y) + i
		if x[k] != n && x[k] != 1 && n != 1 {
			b.fail("shapes %v and %v cannot be broadcast together", x, y)
		}
		if x[k] == 1 {
			shape[k] = n
		}
	}
	return shape
}

// replaced is the shape of an argument with dimension dim of size n.
func replaced(shape []int, dim, n int) []int {
	s := slices.Clone(shape)
	s[dim] = n
	return s
}

// reduced is the shape of an argument without the dimensions in dim, or with
// size 1 for them if keepdim is true.
func reduced(arg string) shapeRule {
	return func(b *build) []int {
		t := b.tensor(arg)
		keep := b.bool("keepdim")
		shape := []int{}
		dims, all := b.dims(len(t.Shape)), b.args["dim"] == nil
		for i, n := range t.Shape {
			switch {
			case !all && !slices.Contains(dims, int64(i)):
				shape = append(shape, n)
			case keep:
				shape = append(shape, 1)
			}
		}
		return shape
	}
}

// dims is the argument dim, counted from the front and sorted.
func (b *build) dims(rank int) Size {
	if b.args["dim"] == nil {
		return Size{}
	}
	var dims Size
	for _, d := range b.ints("dim") {
		if d < 0 {
			d += rank
		}
		dims = append(dims, int64(d))
	}
	slices.Sort(dims)
	return dims
}

// channelsLast lays t out with channels last if the case asks for it.
func (b *build) channelsLast(t *Tensor, spatial int) *Tensor {
	n := len(t.Shape)
	if !b.c.ChannelsLast || n < spatial+1 || n > spatial+2 {
		return t
	}
	channel := n - spatial - 1
	t.Stride = make([]int, n)
	step := 1
	set := func(d int) { t.Stride[d] = step; step *= t.Shape[d] }
	set(channel)
	for d := n - 1; d > channel; d-- {
		set(d)
	}
	if channel == 1 {
		set(0)
	}
	return t
}

// spread makes sizes of n numbers of the arguments that are single numbers.
func (b *build) spread(n int, args ...string) {
	for _, a := range args {
		if i, _, integral, _ := number(b.args[a]); integral {
			b.args[a] = slices.Repeat(Size{i}, n)
		}
		if s, ok := b.args[a].(*value.Sequence); ok && len(s.Items) == 1 && n > 1 {
			if i, _, integral, _ := number(s.Items[0]); integral {
				b.args[a] = slices.Repeat(Size{i}, n)
			}
		}
	}
}

// spatial are the sizes argument a spells out for n spatial dimensions.
func (b *build) spatial(arg string, n int) []int {
	s := b.ints(arg)
	if len(s) != n {
		b.fail("%s must have %d numbers, got %d", arg, n, len(s))
	}
	return s
}

// windows is the number of positions of a window along a dimension.
func (b *build) windows(size, kernel, stride, pad, dilation int, ceil bool) int {
	if stride <= 0 {
		b.fail("stride must be positive, got %d", stride)
	}
	n := float64(size+2*pad-dilation*(kernel-1)-1) / float64(stride)
	if ceil {
		return int(math.Ceil(n)) + 1
	}
	return int(math.Floor(n)) + 1
}

// adaptiveSize makes n numbers of output_size, where None is the size of the input.
func (b *build) adaptiveSize(n int) {
	x := b.rank("input", n+1, n+2)
	b.spread(n, "output_size")
	if b.args["output_size"] == nil {
		b.args["output_size"] = mustSizes(x[len(x)-n:])
	}
	s, ok := b.args["output_size"].(*value.Sequence)
	if !ok {
		return
	}
	items := slices.Clone(s.Items)
	for i, it := range items {
		if it == nil && i < n {
			items[i] = int64(x[len(x)-n+i])
		}
	}
	b.args["output_size"] = value.NewTuple(items...)
}
