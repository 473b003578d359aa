package causes

import (
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// searched is the search for what is wrong with a call, and the results that are due.
func searched(t *testing.T, op string, args ...value.Value) (*Search, []*tensor.Tensor) {
	t.Helper()
	call, err := ops.Default().Bind(op, args, nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	c := &Search{Bound: call, Op: op, Registry: ops.Default(), Ran: f, Guard: func(f func() error) error { return f() }}
	c.Due = func(string) iter.Seq2[string, *tensor.Tensor] {
		return func(yield func(string, *tensor.Tensor) bool) {
			for i, o := range f.Outs {
				if !yield("output["+string(rune('0'+i))+"]", o) {
					return
				}
			}
		}
	}
	return c, f.Outs
}

// forward is the call that a mistake makes, and its forward pass.
func forward(t *testing.T, m Mistake) (Way, *opdef.Forward) {
	t.Helper()
	way, err := m.Make()
	if err != nil {
		t.Fatal(err)
	}
	f, err := way.Call.Forward()
	if err != nil {
		t.Fatal(err)
	}
	return way, f
}

// made is what the mistake with a text makes of a value, nil if there is no such mistake.
func made(t *testing.T, ms iter.Seq[Mistake], text, target string, due *tensor.Tensor) []float64 {
	t.Helper()
	for m := range ms {
		if m.Text != text {
			continue
		}
		way, err := m.Make()
		if err != nil || way.Call == nil {
			t.Fatal(text, err)
		}
		if way.Alter != nil {
			return elements(way.Alter(target, due))
		}
		f, err := way.Call.Forward()
		if err != nil {
			t.Fatal(err)
		}
		return elements(resultOf(f, target))
	}
	return nil
}

// rows are numbers without order.
func rows(seed uint64, shape ...int) *tensor.Tensor {
	r, v := rand.New(rand.NewPCG(seed, 5)), make([]float64, tensor.Numel(shape))
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return tensor.New(tensor.Float32, shape, v).Rounded()
}

// TestEmptiedParts: parts that hold zeros are not those of zeros that are due elsewhere, and parts in place stay there.
func TestEmptiedParts(t *testing.T) {
	part := func(rows ...int) (v []float64) {
		for _, r := range rows {
			v = append(v, float64(r), float64(2*r), float64(r), float64(3*r))
		}
		return v
	}
	for _, c := range []struct {
		got, want []int
		order     []int
	}{
		{[]int{0, 0, 3, 0, 5}, []int{0, 2, 3, 4, 5}, nil},
		{[]int{0, 0, 3, 4, 5}, []int{0, 0, 3, 4, 5}, nil},
		{[]int{7, 7, 3, 3, 5}, []int{7, 7, 3, 4, 5}, []int{0, 1, 2, 2, 4}},
		{[]int{0, 5, 3, 4}, []int{0, 3, 4, 5}, []int{0, 3, 1, 2}},
		{[]int{0, 5, 0, 3, 0}, []int{0, 3, 0, 5, 0}, []int{4, 3, 2, 1, 0}},
	} {
		m := &misplaced{shape: []int{len(c.got), 4}, got: part(c.got...), want: part(c.want...), near: 1e-6}
		if o := m.order(0); !slices.Equal(o, c.order) {
			t.Errorf("%v for %v: got the order %v, want %v", c.got, c.want, o, c.order)
		}
	}
}

func same64(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-6*max(1, math.Abs(want[i]))) {
			t.Errorf("%s: element %d is %v, want %v", what, i, got[i], want[i])
			return
		}
	}
}

// wrong are failures of the first result, all of whose elements are 0.
func wrong(target string, due *tensor.Tensor) []Wrong {
	return []Wrong{{Target: target, Got: tensor.Full(tensor.Float32, due.Shape, 0.0).Rounded(), Want: due}}
}

// TestSections: each half of a row is sorted by itself; positions count from the beginning of the row, or of the half.
func TestSections(t *testing.T) {
	x := rows(1, 3, 8)
	c, outs := searched(t, "torch.sort", x, int64(1))
	v := elements(x)
	values, at, own := make([]float64, 24), make([]float64, 24), make([]float64, 24)
	for lo := 0; lo < 24; lo += 4 {
		order := upTo(lo, lo+4)
		slices.SortFunc(order, func(a, b int) int { return int(math.Copysign(1, v[a]-v[b])) })
		for k, i := range order {
			values[lo+k], at[lo+k], own[lo+k] = v[i], float64(i%8), float64(i%4)
		}
	}
	text := "each 4 indices of dimension 1 are taken by themselves"
	same64(t, "values", made(t, c.sectioned(wrong("output[0]", outs[0])), text, "output[0]", outs[0]), values)
	same64(t, "positions", made(t, c.sectioned(wrong("output[0]", outs[0])), text, "output[1]", outs[1]), at)
	same64(t, "own positions", made(t, c.sectioned(wrong("output[0]", outs[0])),
		text+", and positions count from the beginning of each", "output[1]", outs[1]), own)
	c, outs = searched(t, "torch.exp", x)
	for m := range c.sectioned(wrong("output[0]", outs[0])) {
		t.Error("an operator on elements has no sections: ", m.Text)
	}
}

// TestOverwritten: of the columns that fold adds to one element the last, or the first, is written; and of incoming
// gradients of windows that share their largest element.
func TestOverwritten(t *testing.T) {
	columns := rows(2, 1, 2, 4) // windows of 2, one further each, of a row of 5
	c, outs := searched(t, "torch.nn.functional.fold", columns, value.NewList(int64(1), int64(5)),
		value.NewList(int64(1), int64(2)))
	v := elements(columns)
	last := []float64{v[0], v[4], v[5], v[6], v[7]}
	first := []float64{v[0], v[1], v[2], v[3], v[7]}
	text := "of the elements of input that are added to one element only the "
	fails := wrong("output[0]", outs[0])
	same64(t, "last", made(t, c.overwritten(fails), text+"last counts", "output[0]", outs[0]), last)
	same64(t, "first", made(t, c.overwritten(fails), text+"first counts", "output[0]", outs[0]), first)

	x := tensor.New(tensor.Float32, []int{1, 1, 6}, []float64{0, 1, 5, 2, 4, 3}).Rounded()
	c, _ = searched(t, "torch.nn.functional.max_pool1d", x, int64(3), int64(1))
	up := rows(3, 1, 1, 4)
	c.Incoming = []*tensor.Tensor{up}
	g := elements(up)
	due := tensor.New(tensor.Float32, x.Shape, []float64{0, 0, g[0] + g[1] + g[2], 0, g[3], 0})
	text = "of the elements of the incoming gradient that are added to one element only the last counts"
	same64(t, "gradient", made(t, c.overwritten(wrong("grad[0]", due)), text, "grad[0]", due),
		[]float64{0, 0, g[2], 0, g[3], 0})
}

// TestRanks: the element of the next rank in place of a median, the mean of both, and gradients of equal elements.
func TestRanks(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{2, 4}, []float64{7, 1, 3, 5, 2, 2, 9, 4}).Rounded()
	c, outs := searched(t, "torch.median", x, int64(1))
	fails := wrong("output[0]", outs[0])
	next := "the next larger element of self along dimension 1"
	same64(t, "values", made(t, c.misranked(fails), next+" is taken", "output[0]", outs[0]), []float64{5, 4})
	same64(t, "positions", made(t, c.misranked(fails), next+" is taken", "output[1]", outs[1]), []float64{3, 3})
	same64(t, "means", made(t, c.misranked(fails), "the mean of what is due and "+next+" is taken", "output[0]",
		outs[0]), []float64{4, 3})

	c, _ = searched(t, "torch.amin", x, int64(1))
	c.Incoming = []*tensor.Tensor{tensor.New(tensor.Float32, []int{2}, []float64{1, 8}).Rounded()}
	due := tensor.New(tensor.Float32, x.Shape, []float64{0, 1, 0, 0, 4, 4, 0, 0})
	for text, want := range map[string][]float64{
		"to the first of them":           {0, 1, 0, 0, 8, 0, 0, 0},
		"to the last of them":            {0, 1, 0, 0, 0, 8, 0, 0},
		"to each of them in full":        {0, 1, 0, 0, 8, 8, 0, 0},
		"to all of them in equal shares": {0, 1, 0, 0, 4, 4, 0, 0},
	} {
		text = "where several elements of self along dimension 1 equal the result, the gradient goes " + text
		same64(t, text, made(t, c.mispassed(wrong("grad[0]", due)), text, "grad[0]", due), want)
	}
}

// TestOverflowed: results are infinite where their squares are beyond float16.
func TestOverflowed(t *testing.T) {
	x := tensor.New(tensor.Float32, []int{6}, []float64{100, 300, 255, 257, -400, 500}).Rounded()
	c, outs := searched(t, "torch.abs", x)
	fails := wrong("output[0]", outs[0])
	inf := math.Inf(1)
	fails[0].Got = tensor.New(tensor.Float32, []int{6}, []float64{100, inf, 255, inf, inf, inf}).Rounded()
	got := made(t, c.overflowed(fails), "the square of the result overflows float16", "output[0]", outs[0])
	if !slices.Equal(got, []float64{100, inf, 255, inf, inf, inf}) {
		t.Error(got)
	}
	for m := range c.overflowed(wrong("output[0]", outs[0])) {
		t.Error("nothing is infinite: ", m.Text)
	}
}

// TestLists: tensors of a list are read, and results written, in another order; not where shapes differ.
func TestLists(t *testing.T) {
	a, b, d := rows(4, 2), rows(5, 2), rows(6, 2)
	c, outs := searched(t, "torch._foreach_exp", value.NewList(a, b, d))
	same64(t, "list", made(t, c.listed(), "the tensors of self are read one further", "output[0]", nil),
		elements(opdef.Map(tensor.Float32, b, math.Exp)))
	same64(t, "results", made(t, c.listedResults(wrong("output[0]", outs[0])), "the 3 results are read backwards",
		"output[0]", outs[0]), elements(outs[2]))
	c, _ = searched(t, "torch._foreach_exp", value.NewList(a, rows(7, 3), d))
	for m := range c.listed() {
		if strings.HasSuffix(m.Text, "one further") {
			t.Error(m.Text)
		}
	}
}

// TestUnchangedPlace: a part of an argument is as it was before the call.
func TestUnchangedPlace(t *testing.T) {
	before, want := rows(8, 40), rows(9, 40)
	got := gathered(want, func(i int) int { return i })
	part := tensor.New(tensor.Float32, []int{40}, append(elements(want)[:32:32], elements(before)[32:]...)).Rounded()
	if text := unchangedPlace(part, want, before); text != " at indices 32 to 39 of dimension 0" {
		t.Errorf("%q", text)
	}
	if text := unchangedPlace(got.Rounded(), want, before); text != "" {
		t.Errorf("all is changed: %q", text)
	}
	v := elements(part)
	v[3]++
	if text := unchangedPlace(tensor.New(tensor.Float32, []int{40}, v).Rounded(), want, before); text != "" {
		t.Errorf("another element is wrong: %q", text)
	}
}

// TestWholeNumbersThatStayWrong: a mistake that explains few of the whole numbers that are wrong is none.
func TestWholeNumbersThatStayWrong(t *testing.T) {
	of := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{4}, v).Rounded() }
	due, got := of(1, 2, 3, 4), of(5, 6, 7, 4)
	if Nearer(got, due, of(5, 0, 0, 4)) || !Nearer(got, due, of(5, 6, 0, 4)) {
		t.Error("half of those that are wrong have to be right")
	}
}

// TestInfiniteIsFar: a mistake that makes the only finite element infinite is none.
func TestInfiniteIsFar(t *testing.T) {
	inf := math.Inf(1)
	of := func(v ...float64) *tensor.Tensor { return tensor.New(tensor.Float16, []int{3}, v).Rounded() }
	if Nearer(of(inf, 255, inf), of(300, 255, 400), of(inf, inf, inf)) {
		t.Error("255 was right")
	}
	if !Nearer(of(inf, 255, inf), of(300, 255, 400), of(inf, 255, inf)) {
		t.Error("all are right")
	}
}

// TestWraps: whole numbers keep their lowest bits, or stay within those of a dtype.
func TestWraps(t *testing.T) {
	x := tensor.New(tensor.Int64, []int{3}, []int64{200, -300, 5}).Rounded()
	want := map[string][]float64{"%s wraps at 8 bits": {-56, -44, 5},
		"%s is limited to the numbers of int8": {127, -128, 5}}
	for _, f := range ofElements(x) {
		if w, ok := want[f.text]; ok {
			same64(t, f.text, elements(f.of(x)), w)
			delete(want, f.text)
		}
	}
	if len(want) > 0 {
		t.Error(want)
	}
}

// TestListsOfNumbers: numbers of a list that stand in another order.
func TestListsOfNumbers(t *testing.T) {
	list := value.NewList(rows(4, 2), rows(5, 2), rows(6, 2))
	c, _ := searched(t, "torch._foreach_mul", list, value.NewList(2.0, 3.0, 0.5))
	var texts []string
	for m := range c.wrongArguments() {
		texts = append(texts, m.Text)
	}
	for _, text := range []string{"[3.0, 0.5, 2.0]", "[0.5, 2.0, 3.0]", "[0.5, 3.0, 2.0]", "[2.0, 2.0, 2.0]"} {
		if !slices.Contains(texts, "scalars is "+text+", not [2.0, 3.0, 0.5]") {
			t.Error(text, texts)
		}
	}
}

// TestLostInLanes: of equal indices among every four only the last, or the first, adds its element.
func TestLostInLanes(t *testing.T) {
	index := tensor.New(tensor.Int64, []int{8}, []int64{0, 1, 0, 2, 0, 2, 1, 2})
	source := tensor.New(tensor.Float32, []int{8}, []float64{1, 2, 4, 8, 16, 32, 64, 128}).Rounded()
	zero := tensor.Full(tensor.Float32, []int{3}, 0.0).Rounded()
	c, outs := searched(t, "torch.index_add", zero, int64(0), index, source)
	fails := wrong("output[0]", outs[0])
	const last, first = "among each 4 of index, only the last of equal elements counts",
		"among each 4 of index, only the first of equal elements counts"
	same64(t, "last", made(t, c.lostDuplicates(fails), last, "output[0]", outs[0]), []float64{4 + 16, 2 + 64, 8 + 128})
	same64(t, "first", made(t, c.lostDuplicates(fails), first, "output[0]", outs[0]), []float64{1 + 16, 2 + 64, 8 + 32})
}

// TestWholeEvidence: a large integer that is hit counts the bits that it has, a small one four.
func TestWholeEvidence(t *testing.T) {
	of := func(v ...int64) *tensor.Tensor { return tensor.New(tensor.Int64, []int{len(v)}, v) }
	due := of(13335187024, 7)
	for _, tc := range []struct {
		got  *tensor.Tensor
		want float64
	}{{of(450285136, 7), 28}, {of(13335187024, 3), 4}} {
		if bits := (Mistake{}).Evidence(tc.got, due, tc.got); bits < tc.want || bits > tc.want+1 {
			t.Errorf("got %v bits, want %v", bits, tc.want)
		}
	}
}

// TestRepeatedParts: a third and a quarter are called so only where there are some.
func TestRepeatedParts(t *testing.T) {
	if i := repeated(3)(4, 6); i != 0 {
		t.Errorf("got index %d, want 0", i)
	}
	if i := repeated(4)(4, 6); i != 4 {
		t.Errorf("got index %d, want 4: six have no quarter", i)
	}
}

// TestMisplacedComplex: a bin of a transform that is not written, and bins in another order.
func TestMisplacedComplex(t *testing.T) {
	c, outs := searched(t, "torch.fft.rfft", rows(1, 3, 32))
	due := make([]complex128, outs[0].Numel())
	tensor.Load(outs[0], 0, due)
	for _, tc := range []struct {
		want string
		of   func(at int) int // the bin that a bin holds, -1: nothing
	}{
		{"the last of dimension 1 is " + zeroUnwritten, func(at int) int {
			if at == 16 {
				return -1
			}
			return at
		}},
		{"its dimension 1 is backwards", func(at int) int { return 16 - at }},
	} {
		got := make([]complex128, len(due))
		for i := range got {
			if from := tc.of(i % 17); from >= 0 {
				got[i] = due[i-i%17+from]
			}
		}
		w := []Wrong{{Target: "output[0]", Got: tensor.New(tensor.Complex64, []int{3, 17}, got), Want: outs[0]}}
		found := texts(c.misplacedResults(w))
		if !slices.Contains(found, tc.want) {
			t.Errorf("found %v, want %q", found, tc.want)
		}
	}
}
