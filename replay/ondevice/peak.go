package ondevice

import (
	"context"
	"math"
	"time"

	"github.com/optool/optool/devicebridge/diopi"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/timing"
)

// A Peak is the most that a device was seen to do.
type Peak struct {
	Bandwidth float64 // bytes per second read and written, from cold caches; 0: not known
	Flops     float64 // floating-point operations per second, of one dtype; 0: not known
	Busy      bool    // other processes were in the way: it may do more
}

const (
	peakTime   = 500 * time.Millisecond // of one size, at most
	smallBytes = 1 << 20                // of the smallest tensor to move
	largeBytes = 128 << 20              // of the largest
	smallSide  = 256                    // of the smallest matrices to multiply
	largeSide  = 8192                   // of the largest
	longEnough = 20 * time.Millisecond  // a product of that time is large enough
)

// MeasurePeak measures the peak of a floating dtype: additions and sums of
// tensors of several sizes, from cold caches, and products of matrices, each
// until larger ones take long. What the library lacks is left at 0.
func (d *Device) MeasurePeak(ctx context.Context, dt tensor.DType, flush int64) (Peak, error) {
	var p Peak
	best := func(rate *float64, cache timing.Cache, work float64, function string,
		args map[string]diopi.Arg) (time.Duration, error) {
		plan := &diopi.Plan{Calls: []*diopi.Call{{Phase: diopi.Forward, Function: function, Args: args}}}
		if !d.exports(function) {
			return math.MaxInt64, nil
		}
		t := &Timer{device: d, plan: plan, phase: diopi.Forward}
		if cache == timing.Cold {
			t.flush = flush
		}
		least, calm, err := timing.Fastest(ctx, t, cache, peakTime)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err != nil: // it cannot, for this dtype or this size
			return math.MaxInt64, nil
		}
		p.Busy = p.Busy || !calm
		*rate = max(*rate, work/least.Seconds())
		return least, nil
	}
	full := func(role string, shape ...int) *diopi.Tensor {
		return &diopi.Tensor{Role: role, DType: dt, Shape: shape, Value: tensor.Full(dt, shape, 1.0)}
	}
	empty := func(shape ...int) *diopi.Tensor { return &diopi.Tensor{Role: "out", DType: dt, Shape: shape} }
	one := diopi.Scalar{DType: tensor.Float32, Float: 1}
	for bytes := smallBytes; bytes <= largeBytes; bytes *= 4 {
		n := bytes / dt.Size()
		add := map[string]diopi.Arg{"out": empty(n), "input": full("input", n), "other": full("other", n), "alpha": one}
		if _, err := best(&p.Bandwidth, timing.Cold, float64(3*bytes), "diopiAdd", add); err != nil {
			return p, err
		}
		sum := map[string]diopi.Arg{"out": empty(), "input": full("input", n), "dim": diopi.Size{0}}
		if _, err := best(&p.Bandwidth, timing.Cold, float64(bytes), "diopiSum", sum); err != nil {
			return p, err
		}
	}
	for n := smallSide; n <= largeSide; n *= 2 {
		product := map[string]diopi.Arg{"out": empty(n, n), "input": full("input", n, n), "other": full("other", n, n)}
		took, err := best(&p.Flops, timing.Hot, 2*float64(n)*float64(n)*float64(n), "diopiMatmul", product)
		if err != nil {
			return p, err
		}
		if took >= longEnough {
			break
		}
	}
	return p, nil
}
