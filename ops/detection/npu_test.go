package detection

import (
	"math"
	"testing"

	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
)

// TestOnNPU compares results with those that torch_npu's documentation and tests give, which an
// Ascend 910 computed: of npu_iou and npu_bounding_box_encode in float16.
func TestOnNPU(t *testing.T) {
	boxes := func(dt tensor.DType, shape []int, v ...float64) *tensor.Tensor { return tensor.New(dt, shape, v) }
	f16, f32 := tensor.Float16, tensor.Float32
	three, four := []int{3, 4}, []int{2, 4}
	a := boxes(f16, three, 0, 0, 10, 10, 10, 10, 20, 20, 32, 32, 38, 42)
	b := boxes(f16, three, 0, 0, 10, 20, 0, 10, 10, 10, 10, 10, 20, 20)
	anchors, deltas := boxes(f32, four, 1, 2, 3, 4, 3, 4, 5, 6), boxes(f32, four, 5, 6, 7, 8, 7, 8, 9, 6)
	entries := map[string]*opdef.Entry{}
	for _, e := range Table() {
		entries[e.Op()] = e
	}
	for _, tc := range []struct {
		op   string
		args any
		want []float64
		eps  float64
	}{
		{"npu_iou", &npuIoUArgs{a, b, 0}, []float64{0.4985, 0, 0, 0, 0, 0, 0, 0.9961, 0}, 0x1p-10},
		{"npu_ptiou", &npuIoUArgs{a, b, 1}, []float64{0.4990, 0, 0, 0, 0, 0, 0, 0.9980, 0}, 0x1p-10},
		{"npu_bounding_box_encode", &npuEncodeArgs{anchors, deltas, 0, 0, 0, 0, 0.1, 0.1, 0.2, 0.2},
			[]float64{13.3281, 13.3281, 0, 0, 13.3281, 6.6641, 0, math.NaN()}, 0.01},
		{"npu_bounding_box_decode", &npuDecodeArgs{anchors, deltas, 0, 0, 0, 0, 1, 1, 1, 1, []int{10, 10}, 0.1},
			[]float64{2.5, 6.5, 9, 9, 9, 9, 9, 9}, 1e-5},
		{"npu_rotated_overlaps", &rotatedOverlapsArgs{
			boxes(f32, []int{1, 1, 5}, 35.745582580566406, 48.66326141357422, 12, 13, 66),
			boxes(f32, []int{1, 1, 5}, 38.72185516357422, 37.3918342590332, 10, 12, -177), false},
			[]float64{10.289731}, 5e-5},
		{"npu_rotated_iou", &rotatedIoUArgs{
			boxes(f32, []int{1, 1, 5}, 34.31269073486328, 40.0398063659668, 12, 17, -99),
			boxes(f32, []int{1, 3, 5}, 35.88007736206055, 30.505043029785156, 8, 5, -44, 37.2060546875,
				50.58123016357422, 8, 18, -8, 43.98923110961914, 23.237878799438477, 1, 10, 61), false, 0, true, 0, 0},
			[]float64{0.00600622, 0.10504241, 0}, 1e-6},
		{"npu_nms_rotated", &nmsRotatedArgs{boxes(f32, []int{20, 5},
			1038.2, 316.57, 1155.6, 443.03, 2.3674, 1150.3, 305.98, 1260.2, 434.56, 0.32729,
			1150.8, 306.52, 1260.7, 434.72, 0.51713, 1151.8, 307.81, 1262.2, 434.48, 0.39718,
			1174.8, 302.02, 1285.9, 439.15, 1.8112, 1171.1, 304.80, 1286.8, 435.51, 2.1171,
			1167.3, 306.75, 1288.9, 431.94, 2.5968, 1274.1, 301.81, 1382.3, 430.36, 2.0379,
			1274.1, 302.86, 1383.6, 429.40, 2.2072, 1273.3, 303.82, 1385.5, 428.46, 2.0921,
			1293.5, 305.17, 1396.1, 431.37, 2.9583, 1407.6, 321.73, 1493.0, 427.14, 2.6099,
			1409.7, 324.96, 1493.4, 426.51, 3.0967, 1409.7, 325.69, 1493.5, 426.32, 2.5553,
			1027.9, 318.83, 1141.2, 446.46, 1.2030, 1027.5, 317.76, 1140.8, 446.41, 1.2732,
			1028.9, 316.94, 1140.7, 445.10, 0.94897, 1037.2, 312.33, 1147.7, 445.21, 1.4125,
			1037.0, 315.64, 1148.7, 443.17, 1.6109, 1036.7, 316.82, 1151.0, 440.20, 1.4112),
			boxes(f32, []int{20}, .9910, .9854, .9972, .9930, .4282, .5092, .6532, .9965, .9989, .9976, .3144, .9874,
				.9980, .9967, .9698, .9824, .9474, .9856, .9964, .9926), 0.2, 0, -1, 1},
			[]float64{8, 12, 2, 18}, 0},
	} {
		f, err := entries[tc.op].NewCall(tc.args).Forward()
		if err != nil {
			t.Errorf("%s: %v", tc.op, err)
			continue
		}
		got := tensor.Data[float64](opdef.Cast(f.Outs[0], tensor.Float64))
		if len(got) != len(tc.want) {
			t.Errorf("%s gives %v, want %v", tc.op, got, tc.want)
			continue
		}
		for i, x := range got {
			if !(math.Abs(x-tc.want[i]) <= tc.eps || math.IsNaN(x) && math.IsNaN(tc.want[i])) {
				t.Errorf("%s: element %d is %v, want %v", tc.op, i, x, tc.want[i])
			}
		}
	}
}
