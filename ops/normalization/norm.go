package normalization

import (
	"fmt"
	"slices"

	"github.com/optool/optool/internal/num/vmath"
	"github.com/optool/optool/ops/internal/elements"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/ops/reduction"
	"github.com/optool/optool/tensor"
)

// normOps normalise by mean and variance, or by root mean square, taken over
// some dimensions.
var normOps = []*opdef.Entry{
	normEntry(opdef.Planned[*layerNormArgs, *normalisation]{
		Plan: (*layerNormArgs).norm,
		Schema: "layer_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, Tensor? bias=None, float " +
			"eps=1e-05, bool cudnn_enable=True) -> Tensor",
		Names:  "F.layer_norm layer_norm",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Normalisation over the last dimensions",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias", Notes: "var is not corrected."},
		Cases: opdef.Calls[layerNormArgs](`
			f64[3, 4], [4], weight=f64[4], bias=f64[4], cudnn_enable=False
			f64[2, 3, 4], [3, 4], weight=f64[3, 4], eps=0.001, cudnn_enable=False
			f32[2, 5], [5], cudnn_enable=False; f32[0, 5], [5], cudnn_enable=False
			bf16[2, 4], [4], weight=bf16[4], bias=bf16[4], cudnn_enable=False
			f64[3, 4], [4], bias=f64[4], eps=0.1, cudnn_enable=False
			f32[2, 33], [33], weight=f32[33], bias=f32[33], cudnn_enable=False
			bf16[3, 133]{rows}, [133], weight=bf16[133], bias=bf16[133], cudnn_enable=False
			for N in 133 1030: f32[3, N]{rows}, [N], weight=f32[N], bias=f32[N], cudnn_enable=False`),
	}),
	normEntry(opdef.Planned[*rmsNormArgs, *normalisation]{
		Plan:   (*rmsNormArgs).norm,
		Schema: "rms_norm(Tensor input, int[1] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
		Names:  "F.rms_norm rms_norm",
		Traits: opdef.Traits{Composite: true, LastTakes: 2, LastTimes: "weight", Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Scaling by the root mean square over the last dimensions",
			Formula: "input / sqrt(mean(input^2) + eps) * weight",
			Notes: "eps is by default the machine epsilon of the dtype, of float32 for 16 bits; torch before 2.7 takes " +
				"that of 16 bits, which is as right."},
		Cases: opdef.Calls[rmsNormArgs](`
			f64[3, 4], [4], weight=f64[4], eps=1e-06; f64[2, 3, 4], [3, 4], eps=0.001; f32[2, 5], [5], eps=1e-05
			f64[3, 4], [4], eps=1e-05; f32[2, 33], [33], weight=f32[33], eps=1e-05
			bf16[3, 133]{rows}, [133], weight=bf16[133], eps=1e-05
			for N in 133 1030: f32[3, N]{rows}, [N], weight=f32[N], eps=1e-05`),
	}),
	normEntry(opdef.Planned[*groupNormArgs, *normalisation]{
		Plan: (*groupNormArgs).norm,
		Schema: "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, " +
			"bool cudnn_enabled=True) -> Tensor",
		Names:  "F.group_norm group_norm",
		Traits: opdef.Traits{Autocast: opdef.AutocastFloat32},
		Doc: opdef.Doc{Summary: "Normalisation over groups of channels",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
			Notes: "input is (N, C, *); mean and var are taken over each sample's C/num_groups channels and all " +
				"positions."},
		Cases: opdef.Calls[groupNormArgs](`
			f64[2, 4, 3], 2, weight=f64[4], bias=f64[4], cudnn_enabled=False
			f64[2, 4, 2, 2], 4, bias=f64[4], eps=0.001, cudnn_enabled=False; f32[3, 6], 2, cudnn_enabled=False
			bf16[1, 4, 5], 1, weight=bf16[4], cudnn_enabled=False
			f64[2, 4, 3], 2, weight=f64[4], cudnn_enabled=False
			for T in f32 bf16: T[3, 1, 133]{rows}, 1, weight=T[1], cudnn_enabled=False
			f32[3, 1, 1030]{rows}, 1, bias=f32[1], cudnn_enabled=False`),
	}),
	batchNorm("batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? "+
		"bias=None, bool training=False, float momentum=0.1, float eps=1e-05) -> Tensor", "F.batch_norm"),
	batchNorm("batch_norm.native(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "+
		"running_var, bool training, float momentum, float eps, ignored cudnn_enabled) -> Tensor", "batch_norm"),
	instanceNorm("instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? "+
		"weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-05) -> Tensor",
		"F.instance_norm"),
	instanceNorm("instance_norm.native(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? "+
		"running_var, bool use_input_stats, float momentum, float eps, ignored cudnn_enabled) -> Tensor",
		"instance_norm"),
}

// batchNorm declares a batch normalisation, whose arguments have two orders.
func batchNorm(schema, names string) *opdef.Entry {
	return normEntry(opdef.Planned[*batchNormArgs, *normalisation]{
		Plan:   (*batchNormArgs).norm,
		Schema: schema, Names: names,
		Doc: opdef.Doc{Summary: "Normalisation of each channel over the batch",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
			Notes: "input is (N, C, *). In training mean and var are those of the batch, and the running " +
				"statistics move towards them by momentum (var corrected); otherwise they are the running statistics.",
			Source: "torch.nn.functional.batch_norm"},
		Cases: func(g opdef.Gen) []*batchNormArgs {
			f64, f32 := tensor.Float64, tensor.Float32
			stats := func(dt tensor.DType, c int) (*tensor.Tensor, *tensor.Tensor) {
				return elements.Detached(g.Normal(dt, c)), elements.Detached(g.Uniform(dt, 0.5, 2, c))
			}
			m64, v64 := stats(f64, 3)
			m32, v32 := stats(f32, 4)
			return []*batchNormArgs{
				{Input: g.Normal(f64, 4, 3), RunningMean: m64, RunningVar: v64, Weight: g.Normal(f64, 3),
					Bias: g.Normal(f64, 3), Training: true, Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 2, 2), RunningMean: m64, RunningVar: v64, Weight: g.Normal(f64, 3),
					Momentum: 0.1, Eps: 1e-3},
				{Input: g.Normal(f64, 2, 3, 4), Bias: g.Normal(f64, 3), Training: true, Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f32, 3, 4, 5), RunningMean: m32, RunningVar: v32, Training: true, Momentum: 0.5,
					Eps: 1e-5},
				{Input: g.Normal(f64, 3, 3, 2), RunningMean: m64, RunningVar: v64, Training: true,
					Momentum: 0.1, Eps: 1e-5},
			}
		},
	})
}

// instanceNorm is batchNorm for each sample by itself.
func instanceNorm(schema, names string) *opdef.Entry {
	return normEntry(opdef.Planned[*instanceNormArgs, *normalisation]{
		Plan:   (*instanceNormArgs).norm,
		Schema: schema, Names: names,
		Doc: opdef.Doc{Summary: "Normalisation of each channel of each sample",
			Formula: "(input - mean) / sqrt(var + eps) * weight + bias",
			Notes: "input is (N, C, *). With running statistics given, these move towards the average over the " +
				"batch; without use_input_stats they are used instead.", Source: "torch.nn.functional.instance_norm"},
		// The last node is a view of the batch normalisation of N*C channels.
		Node: func(n *normalisation, g *opdef.Grad) (opdef.Node, error) {
			s := n.shape
			return opdef.Node{Grads: elements.Single(g.Out[0].Reshape(slices.Concat([]int{1, s[0] * s[1]}, s[2:])...)),
				Weak: elements.ReshapedOnly}, nil
		},
		Cases: func(g opdef.Gen) []*instanceNormArgs {
			f64 := tensor.Float64
			m, v := elements.Detached(g.Normal(f64, 3)), elements.Detached(g.Uniform(f64, 0.5, 2, 3))
			return []*instanceNormArgs{
				{Input: g.Normal(f64, 2, 3, 4), Weight: g.Normal(f64, 3), Bias: g.Normal(f64, 3), UseInputStats: true,
					Momentum: 0.1, Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 2, 2), RunningMean: m, RunningVar: v, UseInputStats: true, Momentum: 0.3,
					Eps: 1e-5},
				{Input: g.Normal(f64, 2, 3, 4), RunningMean: m, RunningVar: v, Weight: g.Normal(f64, 3), Momentum: 0.1,
					Eps: 1e-5},
				{Input: g.Normal(tensor.Float32, 1, 2, 6), UseInputStats: true, Momentum: 0.1, Eps: 1e-5},
			}
		},
	})
}

// Sums of at least manyTerms terms in float32 are off by up to sqrt(n)*2^-24: as much as a factor that is wrong, if
// fewer than fewGroups of them make all results.
const (
	manyTerms = 1024
	fewGroups = 64
)

// normEntry completes the declaration of a normalisation. A result is a sum of a
// few products of numbers known to normalisation.scale.
func normEntry[A any](o opdef.Planned[*A, *normalisation]) *opdef.Entry {
	o.Error = normError
	o.Terms = (*normalisation).terms
	o.GradTerms = o.Terms // of the input; sums over rows have as many as are spread
	o.Kernel = func(n *normalisation) ([]*tensor.Tensor, error) {
		return elements.Single(n.forward().Reshape(n.shape...)), nil
	}
	o.Scale = func(n *normalisation, _ []*tensor.Tensor) []*tensor.Tensor {
		return elements.Single(n.scale().Reshape(n.shape...))
	}
	o.Grad = func(n *normalisation, g *opdef.Grad) (opdef.Grads, error) { return n.grads(g, false), nil }
	o.GradScale = func(n *normalisation, g *opdef.Grad, _ opdef.Grads) (opdef.Grads, error) {
		return n.grads(g, true), nil
	}
	o.Steps = true
	return o.Entry()
}

var normError = opdef.Error{Class: opdef.Accumulated, ULPs: 2, Grad: &opdef.Error{Class: opdef.Accumulated, ULPs: 4}}

// ErrorOf is normError with what the dtypes and the number of statistics add.
func (n *normalisation) ErrorOf() opdef.Error {
	e := normError
	if n.rms && n.x.DType.IsHalf() { // torch before 2.7 multiplies what it computed in 16 bits by a wider weight
		e.Operand = n.x.DType
	}
	// A few statistics of many elements, added in float32, are common factors of the results.
	each := n.terms()
	e.Shared = n.x.DType == tensor.Float32 && each >= manyTerms && n.x.Numel() <= fewGroups*each
	return e
}

// terms is how many elements make a statistic.
func (n *normalisation) terms() int { return elements.NumelOver(n.x.Shape, n.dims) }

func (n *normalisation) GradChain(g *opdef.Grad) (opdef.Grads, error) { return n.partialSums(g), nil }

func (n *normalisation) Else([]*tensor.Tensor) [][]*tensor.Tensor {
	if n.older == 0 {
		return [][]*tensor.Tensor{nil}
	}
	return [][]*tensor.Tensor{{n.withOlder().forward().Reshape(n.shape...)}}
}

func (n *normalisation) GradElse(g *opdef.Grad) ([]opdef.Grads, error) {
	var out []opdef.Grads
	if n.older != 0 {
		out = append(out, n.withOlder().grads(g, false))
	}
	for _, m := range n.inSteps() {
		out = append(out, m.grads(g, false))
	}
	return out, nil
}

func (n *normalisation) OtherDType(int) tensor.DType { // torch before 2.7
	if !n.rms || n.weight == nil {
		return tensor.Invalid
	}
	return tensor.Promote(n.x.DType, n.weight.DType)
}

// inSteps are n as torch's CPU kernels compute the gradient of 16 bits. Where the weight is in 16 bits too they keep
// mean and deviation so: the deviation from the mean, or from the mean as it is kept, and its square in all bits or in
// 16. Those of batch normalisation may round what flows through the variance before they subtract it.
func (n *normalisation) inSteps() (out []*normalisation) {
	if !n.x.DType.IsHalf() || n.vari != nil {
		return nil
	}
	grid := opdef.Grid{Name: n.x.DType.String(), Round: n.x.DType.Round}
	add := func(rounded statistic) {
		m := n.copied()
		m.coarse, m.grid = rounded, grid
		out = append(out, m)
	}
	kept := centre | inverse
	if n.weight != nil && n.weight.DType != n.x.DType {
		kept = 0
	} else {
		for _, also := range []statistic{0, variance, apart, apart | variance} {
			add(kept | also)
		}
	}
	if n.moves != nil {
		add(kept | share)
	}
	return out
}

// copied is n to be changed.
func (n *normalisation) copied() *normalisation {
	m := *n
	m.summed = [2]runSums{}
	return &m
}

// withOlder is n with the eps of other versions of torch.
func (n *normalisation) withOlder() *normalisation {
	m := n.copied()
	m.eps = n.older
	return m
}

// Mistakes are what kernels of normalisations get wrong about the statistics that they
// take.
func (n *normalisation) Mistakes() []opdef.Mistake[any] {
	if n.vari != nil {
		return nil
	}
	var out []opdef.Mistake[any]
	add := func(text string, with func(m *normalisation)) {
		out = append(out, opdef.Mistake[any]{Text: text, Plan: func() (any, error) {
			m := n.copied()
			with(m)
			return m, nil
		}})
	}
	if n.rms {
		add("the mean is subtracted", func(m *normalisation) { m.rms = false })
	} else {
		add("the variance is divided by n - 1, not by n", func(m *normalisation) { m.correction = 1 })
		add("the mean is not subtracted", func(m *normalisation) { m.rms = true })
		add("the mean is not subtracted, the variance is about it", func(m *normalisation) { m.uncentred = true })
		add("the mean of squares stands for the variance",
			func(m *normalisation) { m.square = true })
	}
	if n.moves == nil {
		if !n.rms {
			mean, _, _ := n.computed()
			add("the mean is subtracted, nothing is divided by the deviation", n.given(n.perRun(mean, n.x.Dim())))
		}
		add("input is not normalised", n.given(tensor.Full(tensor.Float64, n.x.Shape, 0.0)))
	}
	n.partialMoments(add)
	n.otherMoments(add)
	n.paddedMoments(add)
	if n.weight != nil && n.bias != nil && slices.Equal(n.weight.Shape, n.bias.Shape) {
		add("bias is added before weight is multiplied", func(m *normalisation) {
			m.bias = opdef.ZipBlock(n.bias.DType, n.weight, n.bias, vmath.Mul)
		})
	}
	if n.rms && n.weight != nil {
		add("weight is 1 + weight", func(m *normalisation) {
			m.weight = opdef.Map(n.weight.DType, n.weight, func(w float64) float64 { return 1 + w })
		})
	}
	n.otherGroups(add)
	n.otherDims(add)
	add("eps is added to the square root, not under it", func(m *normalisation) { m.outside = true })
	add("the larger of eps and the variance is taken, not their sum", func(m *normalisation) { m.floored = true })
	add("the root of the variance is not taken", func(m *normalisation) { m.unrooted = true })
	n.wrongGradients(func(text string, with func(m *normalisation)) {
		add(text, with)
		out[len(out)-1].Gradients = true
	})
	if n.moves != nil {
		n.wrongMoves(add)
	}
	for _, g := range opdef.CoarserGrids(n.x.DType) {
		for _, k := range []struct {
			name string
			s    statistic
		}{{"1/deviation", centre | inverse}, {"variance", centre | variance}, {"deviation", centre | deviation}} {
			text := "mean and " + k.name + " are"
			if n.rms {
				text = k.name + " is"
			}
			add(text+" kept in "+g.Name, func(m *normalisation) { m.coarse, m.grid = k.s, g })
			out[len(out)-1].Rounds = true
		}
	}
	return out
}

// otherGroups adds the mistakes of group_norm about which channels are a group.
func (n *normalisation) otherGroups(add func(string, func(*normalisation))) {
	if !slices.Equal(n.dims, []int{2, 3}) || !slices.Equal(n.affine, []int{1, 2}) {
		return
	}
	groups, each := n.x.Shape[1], n.x.Shape[2]
	if groups < 2 || each < 2 {
		return
	}
	add(fmt.Sprintf("channel c belongs to group c mod %d, not c / %d", groups, each), func(m *normalisation) {
		m.x, m.dims, m.stats = n.x.Reshape(n.x.Shape[0], each, groups, n.x.Shape[3]), []int{1, 3}, nil
	})
	add("all channels are one group", func(m *normalisation) {
		m.x, m.stats = n.x.Reshape(n.x.Shape[0], 1, groups*each, n.x.Shape[3]), nil
	})
	if n.weight != nil {
		add("weight and bias of a channel are those with the number of its group", func(m *normalisation) {
			m.weight, m.bias = byGroup(n.weight, each), byGroup(n.bias, each)
		})
		add("weight of a channel is that with the number of its group", func(m *normalisation) {
			m.weight = byGroup(n.weight, each)
		})
	}
	add("each channel is a group", func(m *normalisation) {
		m.x, m.stats = n.x.Reshape(n.x.Shape[0], groups*each, 1, n.x.Shape[3]), nil
	})
}

// wrongMoves adds what kernels get wrong about running statistics.
func (n *normalisation) wrongMoves(add func(text string, with func(m *normalisation))) {
	add("the running variance is moved towards that of n, not of n - 1", func(m *normalisation) { m.biased = true })
	add("the running variance is moved towards the deviation", func(m *normalisation) { m.rooted = true })
	twice := *n.moves
	twice.momentum = 1 - (1-twice.momentum)*(1-twice.momentum)
	add("running statistics are moved twice", func(m *normalisation) { m.moves = &twice })
	moves := *n.moves
	moves.momentum = 1 - moves.momentum
	add(fmt.Sprintf("momentum is %g, not %g", moves.momentum, n.moves.momentum),
		func(m *normalisation) { m.moves = &moves })
}

// partialMoments adds statistics of the first of a batch, and those that lack an incomplete tile,
// or the last element, of what they are taken over.
func (n *normalisation) partialMoments(add func(text string, with func(m *normalisation))) {
	of := func(x *tensor.Tensor) func(m *normalisation) {
		return func(m *normalisation) { m.stats = opdef.FoldDims(reduction.MomentsFold, n.dims, false, x) }
	}
	if n.x.Numel() == 0 {
		return
	}
	if len(n.dims) > 1 && n.dims[0] == 0 && n.x.Shape[0] > 1 {
		add("the statistics are those of the first of the batch", of(n.x.Slice(0, 0, 1, 1)))
	}
	if len(n.dims) != 1 {
		return
	}
	d := n.dims[0]
	size := n.x.Shape[d]
	var tried []int
	for _, tile := range []int{size, 8, 16, 32, 64, 128} {
		tail := size % tile
		if tile == size {
			tail = 1
		}
		if tail == 0 || size-tail < 2 || slices.Contains(tried, tail) {
			continue
		}
		tried = append(tried, tail)
		add(fmt.Sprintf("the statistics leave out the last %d of %d elements", tail, size),
			of(n.x.Slice(d, 0, size-tail, 1)))
		add(fmt.Sprintf("the statistics take the last %d of %d elements for 0", tail, size),
			of(opdef.AlongDim(n.x.DType, n.x, d, func(src, dst []float64) {
				copy(dst, src)
				clear(dst[size-tail:])
			})))
	}
}

// otherMoments adds statistics of each of a batch, of a half of it, of other rows, and variances that are those
// within parts of a row.
func (n *normalisation) otherMoments(add func(text string, with func(m *normalisation))) {
	if n.x.Numel() == 0 {
		return
	}
	of := func(x *tensor.Tensor) func(m *normalisation) {
		return func(m *normalisation) { m.stats = opdef.FoldDims(reduction.MomentsFold, n.dims, false, x) }
	}
	if batch := n.x.Shape[0]; len(n.dims) > 1 && n.dims[0] == 0 && batch > 1 {
		add("the statistics are those of each of the batch", func(m *normalisation) {
			m.dims, m.stats = n.dims[1:], nil
		})
		if batch > 2 {
			add("the statistics are those of the first half of the batch", of(n.x.Slice(0, 0, batch/2, 1)))
		}
	}
	for _, d := range n.dims {
		if len(n.dims) < 2 {
			break
		}
		for _, tail := range opdef.Tails(n.x.Shape[d]) {
			add(fmt.Sprintf("the statistics leave out the last %d of %d indices of dimension %d", tail, n.x.Shape[d],
				d), of(n.x.Slice(d, 0, n.x.Shape[d]-tail, 1)))
		}
	}
	if len(n.dims) < n.x.Dim() && n.moves == nil {
		add("the statistics are those of all elements", func(m *normalisation) {
			m.dims, m.stats = elements.AllDims(n.x.Dim()), nil
		})
	}
	last := n.x.Dim() - 1
	if last == 0 || !slices.Equal(n.dims, []int{last}) {
		return
	}
	rows := tensor.Numel(n.x.Shape[:last])
	from := func(row func(i int) int) func(m *normalisation) {
		flat := n.x.Reshape(rows, n.x.Shape[last])
		return of(opdef.Rows(n.x.DType, flat.Shape, n.x.Shape[last], func(i int, dst []float64) {
			tensor.Load(flat, row(i)*len(dst), dst)
		}).Reshape(n.x.Shape...))
	}
	if rows > 1 {
		add("the statistics are those of the first row", from(func(int) int { return 0 }))
		add("the statistics are those of the next row", from(func(i int) int { return min(i+1, rows-1) }))
		add("the statistics are those of the row before", from(func(i int) int { return max(i-1, 0) }))
	}
	for _, each := range []int{2, 4, 8, 16, 32, 64} {
		if each < rows {
			add(fmt.Sprintf("the statistics are those of the first of %d rows", each),
				from(func(i int) int { return i / each * each }))
		}
	}
	for _, parts := range []int{2, 4, 8, 32} {
		if size := n.x.Shape[last]; !n.rms && size%parts == 0 && size > parts {
			add(fmt.Sprintf("the variance is the mean of those of %d parts of a row", parts),
				of(opdef.AlongDim(n.x.DType, n.x, last, func(src, dst []float64) {
					centreParts(dst, src, size/parts)
				})))
		}
	}
}

// centreParts gives each part of a row the mean of all.
func centreParts(dst, src []float64, length int) {
	mean := func(v []float64) (m float64) {
		for _, x := range v {
			m += x / float64(len(v))
		}
		return m
	}
	all := mean(src)
	for from := 0; from < len(src); from += length {
		own := mean(src[from : from+length])
		for i := from; i < from+length; i++ {
			dst[i] = src[i] - own + all
		}
	}
}

// wrongGradients adds mistakes that gradients alone show.
func (n *normalisation) wrongGradients(add func(text string, with func(m *normalisation))) {
	add("the gradient lacks what flows through the variance", func(m *normalisation) { m.noVariance = true })
	if !n.rms {
		add("the gradient lacks what flows through the mean", func(m *normalisation) { m.noMean = true })
		add("the gradient lacks what flows through mean and variance",
			func(m *normalisation) { m.noMean, m.noVariance = true, true })
	}
	add("input's gradient is not divided by the deviation", func(m *normalisation) { m.undivided = true })
	if n.weight == nil {
		return
	}
	add("input's gradient is multiplied by weight twice", func(m *normalisation) {
		m.weight = opdef.Map(n.weight.DType, n.weight, func(w float64) float64 { return w * w })
	})
	add("weight's gradient is made of input, not of what it is normalised to",
		n.given(tensor.Full(tensor.Float64, n.x.Shape, 0.0)))
	if !n.rms {
		mean, _, _ := n.computed()
		add("weight's gradient is not divided by the deviation", n.given(n.perRun(mean, n.x.Dim())))
	}
}

// given sets a mean, and 1 in place of the deviation.
func (n *normalisation) given(mean *tensor.Tensor) func(m *normalisation) {
	return func(m *normalisation) { m.mean, m.vari = mean, tensor.Full(tensor.Float64, n.x.Shape, 1-n.eps) }
}

type layerNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight, Bias    *tensor.Tensor
	Eps             float64
	CudnnEnable     bool
}

type rmsNormArgs struct {
	Input           *tensor.Tensor
	NormalizedShape []int
	Weight          *tensor.Tensor
	Eps             *float64
}

type groupNormArgs struct {
	Input        *tensor.Tensor
	NumGroups    int
	Weight, Bias *tensor.Tensor
	Eps          float64
	CudnnEnabled bool
}

type batchNormArgs struct {
	Input                   *tensor.Tensor
	RunningMean, RunningVar *tensor.Tensor
	Weight, Bias            *tensor.Tensor
	Training                bool
	Momentum, Eps           float64
}

type instanceNormArgs struct {
	Input                   *tensor.Tensor
	RunningMean, RunningVar *tensor.Tensor
	Weight, Bias            *tensor.Tensor
	UseInputStats           bool
	Momentum, Eps           float64
}

// lastDims are the dimensions of a normalized_shape, after torch's checks.
func lastDims(x *tensor.Tensor, shape []int, affine map[string]*tensor.Tensor) ([]int, error) {
	if err := elements.WantFloat("input", x); err != nil {
		return nil, err
	}
	if len(shape) == 0 {
		return nil, opdef.Refuse("normalized_shape", "want at least one dimension")
	}
	lead := x.Dim() - len(shape)
	if lead < 0 || !slices.Equal(x.Shape[lead:], shape) {
		return nil, opdef.Refuse("input", "shape %s does not end in normalized_shape %s", tensor.ShapeString(x.Shape),
			tensor.ShapeString(shape))
	}
	for _, name := range []string{"weight", "bias"} {
		if t := affine[name]; t != nil && !slices.Equal(t.Shape, shape) {
			return nil, opdef.Refuse(name, "shape %s differs from normalized_shape %s", tensor.ShapeString(t.Shape),
				tensor.ShapeString(shape))
		}
	}
	return elements.AllDims(x.Dim())[lead:], nil
}

func (a *layerNormArgs) norm() (*normalisation, error) {
	dims, err := lastDims(a.Input, a.NormalizedShape, map[string]*tensor.Tensor{"weight": a.Weight, "bias": a.Bias})
	return &normalisation{x: a.Input, shape: a.Input.Shape, dims: dims, affine: dims, eps: a.Eps, weight: a.Weight,
		bias: a.Bias}, err
}

func (a *rmsNormArgs) norm() (*normalisation, error) {
	dims, err := lastDims(a.Input, a.NormalizedShape, map[string]*tensor.Tensor{"weight": a.Weight})
	n := &normalisation{x: a.Input, shape: a.Input.Shape, dims: dims, affine: dims, rms: true, weight: a.Weight}
	switch dt := a.Input.DType; {
	case a.Eps != nil:
		n.eps = *a.Eps
	case dt.IsReduced(): // computed in float32, whose epsilon torch takes since 2.7
		n.eps, n.older = tensor.Float32.Eps(), dt.Eps()
	default:
		n.eps = dt.Eps()
	}
	return n, err
}

// channels checks what is given per channel, dimension 1 of x.
func channels(x *tensor.Tensor, given map[string]*tensor.Tensor) error {
	if err := elements.WantFloat("input", x); err != nil {
		return err
	}
	if x.Dim() < 2 {
		return opdef.Refuse("input", "want at least 2 dimensions, got shape %s", tensor.ShapeString(x.Shape))
	}
	for _, name := range []string{"running_mean", "running_var", "weight", "bias"} {
		if t := given[name]; t != nil && (t.Dim() != 1 || t.Shape[0] != x.Shape[1]) {
			return opdef.Refuse(name, "want %d elements, one per channel, got shape %s", x.Shape[1],
				tensor.ShapeString(t.Shape))
		}
	}
	return nil
}

func (a *groupNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if err := channels(x, map[string]*tensor.Tensor{"weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	if a.NumGroups <= 0 || x.Shape[1]%a.NumGroups != 0 {
		return nil, opdef.Refuse("num_groups", "%d channels cannot be divided into %d groups", x.Shape[1], a.NumGroups)
	}
	perGroup := x.Shape[1] / a.NumGroups
	n := &normalisation{
		shape: x.Shape, x: x.Reshape(x.Shape[0], a.NumGroups, perGroup, tensor.Numel(x.Shape[2:])), dims: []int{2, 3},
		affine: []int{1, 2}, eps: a.Eps,
		weight: a.Weight, bias: a.Bias, unplaced: x.Shape[0] > 0 && slices.Contains(x.Shape[2:], 0),
	}
	return n, nil
}

// perChannel lays running statistics out over x.
func perChannel(t, x *tensor.Tensor) *tensor.Tensor {
	return opdef.Unreduce(t, x.Shape, slices.Delete(elements.AllDims(x.Dim()), 1, 2))
}

func (a *batchNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if x.Dim() == 1 && x.Numel() == 0 { // torch returns nothing of nothing before it looks at dimensions
		return &normalisation{x: x, shape: x.Shape, mean: x, vari: x}, nil
	}
	if err := channels(x, map[string]*tensor.Tensor{"running_mean": a.RunningMean, "running_var": a.RunningVar,
		"weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	n := &normalisation{x: x, shape: x.Shape, dims: slices.Delete(elements.AllDims(x.Dim()), 1, 2), affine: []int{1},
		eps: a.Eps, weight: a.Weight, bias: a.Bias}
	if a.Training {
		n.moves = &movement{a.RunningMean, a.RunningVar, a.Momentum}
		if elements.NumelOver(x.Shape, n.dims) == 1 {
			return nil, opdef.Refuse("input", "want more than one value per channel when training, got shape %s",
				tensor.ShapeString(x.Shape))
		}
		return n, nil
	}
	if a.RunningMean == nil || a.RunningVar == nil {
		return nil, opdef.Refuse("running_mean", "running statistics are needed outside training")
	}
	n.mean, n.vari = perChannel(a.RunningMean, x), perChannel(a.RunningVar, x)
	return n, nil
}

func (a *instanceNormArgs) norm() (*normalisation, error) {
	x := a.Input
	if err := channels(x, map[string]*tensor.Tensor{"running_mean": a.RunningMean, "running_var": a.RunningVar,
		"weight": a.Weight, "bias": a.Bias}); err != nil {
		return nil, err
	}
	n := &normalisation{x: x, shape: x.Shape, dims: elements.AllDims(x.Dim())[2:], affine: []int{1}, eps: a.Eps,
		weight: a.Weight, bias: a.Bias}
	if a.UseInputStats {
		n.moves = &movement{a.RunningMean, a.RunningVar, a.Momentum}
		if elements.NumelOver(x.Shape, n.dims) == 1 {
			return nil, opdef.Refuse("input", "want more than one position per channel, got shape %s",
				tensor.ShapeString(x.Shape))
		}
		return n, nil
	}
	if a.RunningMean == nil || a.RunningVar == nil {
		return nil, opdef.Refuse("running_mean", "running statistics are needed without use_input_stats")
	}
	n.mean, n.vari = perChannel(a.RunningMean, x), perChannel(a.RunningVar, x)
	return n, nil
}
