package conformance

import (
	"fmt"
	"slices"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// A Variant runs cases with arguments of another layout or width than those
// recorded: the kit's modes nhwc and four_bytes. Results are compared with what
// is recorded all the same.
type Variant struct {
	// ChannelsLast lays out images and volumes with the channels last. Those with
	// fewer than MinDim or more than 5 dimensions are left out.
	ChannelsLast bool
	MinDim       int
	// FourBytes passes indices as int32 and takes them back as such, and passes
	// scalars as int32 and float32.
	FourBytes bool
}

// channelsLast are the arguments that are laid out with channels last, by
// function, and whether the function is about volumes: of 4 dimensions the first
// is then the channels.
var channelsLast = map[string]struct {
	args   []string
	volume bool
}{
	"conv2d":              {[]string{"input", "weight"}, false},
	"conv3d":              {[]string{"input", "weight"}, true},
	"batch_norm":          {[]string{"input"}, false},
	"adaptive_avg_pool2d": {[]string{"input"}, false},
	"adaptive_max_pool2d": {[]string{"input"}, false},
	"adaptive_avg_pool3d": {[]string{"input"}, true},
	"adaptive_max_pool3d": {[]string{"input"}, true},
	"avg_pool2d":          {[]string{"input"}, false},
	"max_pool2d":          {[]string{"input"}, false},
	"max_pool3d":          {[]string{"input"}, true},
	"interpolate":         {[]string{"input"}, false},
	"pad":                 {[]string{"input"}, false},
	"roi_align":           {[]string{"input"}, false},
}

// fourBytes are the arguments whose int64 becomes int32, by function.
var fourBytes = map[string][]string{
	"nll_loss":                         {"target"},
	"cross_entropy":                    {"target"},
	"index_select":                     {"index"},
	"index_put":                        {"indices1", "indices2"},
	"binary_cross_entropy_with_logits": {"pos_weight"},
	"gather":                           {"index"},
	"scatter":                          {"index"},
	"embedding":                        {"input"},
	"index":                            {"idx1", "idx2"},
	"ctc_loss":                         {"targets", "input_lengths", "target_lengths"},
	"index_fill":                       {"index"},
	"one_hot":                          {"input"},
}

// apply changes the arguments of a call; skip says why the variant leaves the
// case out, and is empty if it does not.
func (v Variant) apply(d *diopi.Case) (skip string) {
	rule, laid := channelsLast[d.Function]
	d.ChannelsLast, d.FourBytes = v.ChannelsLast && laid, v.FourBytes
	for i, it := range d.Args.Items {
		t, ok := it.Value.(*tensor.Tensor)
		name, _ := it.Key.(string)
		if !ok {
			continue
		}
		if v.FourBytes && t.DType == tensor.Int64 && slices.Contains(fourBytes[d.Function], name) {
			t = narrow(t)
		}
		if d.ChannelsLast && slices.Contains(rule.args, name) {
			if t.Dim() < v.MinDim || t.Dim() > 5 {
				return fmt.Sprintf("%s has %d dimensions: channels-last is for %d to 5", name, t.Dim(), v.MinDim)
			}
			t = lastChannels(t, rule.volume)
		}
		d.Args.Items[i].Value = t
	}
	return ""
}

// narrow is t as int32.
func narrow(t *tensor.Tensor) *tensor.Tensor {
	return tensor.New(tensor.Int32, t.Shape, tensor.Data[int64](t))
}

// lastChannels is t, of 3 dimensions or more, with its channels innermost: the
// first dimension of 3, or of 4 in a volume, else the second.
func lastChannels(t *tensor.Tensor, volume bool) *tensor.Tensor {
	n, channel := t.Dim(), 1
	if n < 3 {
		return t
	}
	if n == 3 || n == 4 && volume {
		channel = 0
	}
	stride, step := make([]int, n), 1
	set := func(d int) { stride[d] = step; step *= t.Shape[d] }
	set(channel)
	for d := n - 1; d > channel; d-- {
		set(d)
	}
	if channel == 1 {
		set(0)
	}
	return strided(t, stride)
}

// expected is a recorded result as the variant yields it: indices that the
// calls were asked to give as int32 are.
func (v Variant) expected(want value.Value, outputs []diopi.Arg) value.Value {
	if !v.FourBytes {
		return want
	}
	as := func(w value.Value, i int) value.Value {
		t, ok := w.(*tensor.Tensor)
		if !ok || i >= len(outputs) || t.DType != tensor.Int64 {
			return w
		}
		if o, ok := outputs[i].(*diopi.Tensor); ok && o.DType == tensor.Int32 {
			return narrow(t)
		}
		return w
	}
	l, ok := want.(*value.Sequence)
	if !ok {
		return as(want, 0)
	}
	out := &value.Sequence{Kind: l.Kind}
	for i, it := range l.Items {
		out.Items = append(out.Items, as(it, i))
	}
	return out
}
