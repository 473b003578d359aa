package ops_test

import (
	"errors"
	"math"
	"math/cmplx"
	"testing"

	"github.com/optool/optool/ops"
	"github.com/optool/optool/ops/opdef"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestElementwiseGolden compares elementwise ops with values that torch 1.13.1
// gave on the CPU.
func TestElementwiseGolden(t *testing.T) {
	reg := ops.Default()
	odd := tensor.New(tensor.Float64, []int{7}, []float64{-2.5, -0.5, math.Copysign(0, -1), 0.3, 1.7, math.NaN(),
		math.Inf(1)})
	positive := tensor.New(tensor.Float64, []int{5}, []float64{0.1, 0.5, 0.9, 1.5, 3.0})
	for _, c := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		want   value.Value
	}{
		{"torch.maximum", []value.Value{tensor.New(tensor.Uint8, []int{2}, []int64{0, 200}), tensor.Scalar(tensor.Int64,
			int64(-1))}, nil, tensor.New(tensor.Uint8, []int{2}, []int64{255, 255})},
		{"torch.minimum", []value.Value{tensor.New(tensor.Uint8, []int{2}, []int64{0, 200}), tensor.Scalar(tensor.Int64,
			int64(257))}, nil, tensor.New(tensor.Uint8, []int{2}, []int64{0, 1})},
		{"torch.abs", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{2.5, 0.5, 0.0, 0.3, 1.7,
			math.NaN(), math.Inf(1)})},
		{"torch.neg", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{2.5, 0.5, 0.0, -0.3, -1.7,
			math.NaN(), math.Inf(-1)})},
		{"torch.sign", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-1.0, -1.0, 0.0, 1.0,
			1.0, 0.0, 1.0})},
		{"torch.ceil", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.0, math.Copysign(0, -1), math.Copysign(0, -1), 1.0, 2.0, math.NaN(), math.Inf(1)})},
		{"torch.floor", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-3.0, -1.0, math.Copysign(0, -1), 0.0, 1.0, math.NaN(), math.Inf(1)})},
		{"torch.trunc", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.0, math.Copysign(0, -1), math.Copysign(0, -1), 0.0, 1.0, math.NaN(), math.Inf(1)})},
		{"torch.round", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.0, math.Copysign(0, -1), math.Copysign(0, -1), 0.0, 2.0, math.NaN(), math.Inf(1)})},
		{"torch.frac", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.5, -0.5, 0.0, 0.3,
			0.7, math.NaN(), math.NaN()})},
		{"torch.square", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{6.25, 0.25, 0.0, 0.09,
			2.8899999999999997, math.NaN(), math.Inf(1)})},
		{"torch.reciprocal", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.4, -2.0, math.Inf(-1), 3.3333333333333335, 0.5882352941176471, math.NaN(), 0.0})},
		{"torch.exp", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{0.0820849986238988,
			0.6065306597126334, 1.0, 1.3498588075760032, 5.473947391727199, math.NaN(), math.Inf(1)})},
		{"torch.expm1", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.9179150013761012,
			-0.3934693402873666, math.Copysign(0, -1), 0.3498588075760031, 4.4739473917272, math.NaN(), math.Inf(1)})},
		{"torch.sin", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.5984721441039564,
			-0.479425538604203, math.Copysign(0, -1), 0.29552020666133955, 0.9916648104524686, math.NaN(),
			math.NaN()})},
		{"torch.cos", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.8011436155469337,
			0.8775825618903728, 1.0, 0.955336489125606, -0.12884449429552464, math.NaN(), math.NaN()})},
		{"torch.tan", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{0.7470222972386603,
			-0.5463024898437905, math.Copysign(0, -1), 0.30933624960962325, -7.696602139459161, math.NaN(),
			math.NaN()})},
		{"torch.atan", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-1.1902899496825317,
			-0.4636476090008061, math.Copysign(0, -1), 0.2914567944778671, 1.039072259536091, math.NaN(),
			1.5707963267948966})},
		{"torch.sinh", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-6.0502044810397875,
			-0.5210953054937474, math.Copysign(0, -1), 0.3045202934471426, 2.6456319338372323, math.NaN(),
			math.Inf(1)})},
		{"torch.cosh", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{6.132289479663686,
			1.1276259652063807, 1.0, 1.0453385141288605, 2.828315457889967, math.NaN(), math.Inf(1)})},
		{"torch.tanh", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.9866142981514303,
			-0.46211715726000974, math.Copysign(0, -1), 0.2913126124515909, 0.935409070603099, math.NaN(), 1.0})},
		{"torch.asinh", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-1.6472311463710958,
			-0.48121182505960347, math.Copysign(0, -1), 0.29567304756342244, 1.3008204268406467, math.NaN(),
			math.Inf(1)})},
		{"torch.sigmoid", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{0.07585818002124355,
			0.3775406687981454, 0.5, 0.574442516811659, 0.8455347349164652, math.NaN(), 1.0})},
		{"torch.deg2rad", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7}, []float64{-0.04363323129985824,
			-0.008726646259971648, math.Copysign(0, -1), 0.005235987755982988, 0.029670597283903602, math.NaN(),
			math.Inf(1)})},
		{"torch.isnan", []value.Value{odd}, nil, tensor.New(tensor.Bool, []int{7}, []int64{0, 0, 0, 0, 0, 1, 0})},
		{"torch.isinf", []value.Value{odd}, nil, tensor.New(tensor.Bool, []int{7}, []int64{0, 0, 0, 0, 0, 0, 1})},
		{"torch.isfinite", []value.Value{odd}, nil, tensor.New(tensor.Bool, []int{7}, []int64{1, 1, 1, 1, 1, 0, 0})},
		{"torch.signbit", []value.Value{odd}, nil, tensor.New(tensor.Bool, []int{7}, []int64{1, 1, 1, 0, 0, 0, 0})},
		{"torch.logical_not", []value.Value{odd}, nil, tensor.New(tensor.Bool, []int{7}, []int64{0, 0, 1, 0, 0, 0, 0})},
		{"torch.nan_to_num", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.5, -0.5, math.Copysign(0, -1), 0.3, 1.7, 0.0, 1.7976931348623157e+308})},
		{"torch.sqrt", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5}, []float64{0.31622776601683794,
			0.7071067811865476, 0.9486832980505138, 1.224744871391589, 1.7320508075688772})},
		{"torch.rsqrt", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5}, []float64{3.162277660168379,
			1.414213562373095, 1.0540925533894598, 0.8164965809277261, 0.5773502691896258})},
		{"torch.log", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5}, []float64{-2.3025850929940455,
			-0.6931471805599453, -0.10536051565782628, 0.4054651081081644, 1.0986122886681098})},
		{"torch.log2", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5}, []float64{-3.321928094887362,
			-1.0, -0.15200309344504995, 0.5849625007211562, 1.584962500721156})},
		{"torch.log10", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5},
			[]float64{-1.0, -0.3010299956639812, -0.045757490560675115, 0.17609125905568124, 0.47712125471966244})},
		{"torch.log1p", []value.Value{positive}, nil, tensor.New(tensor.Float64, []int{5},
			[]float64{0.09531017980432487, 0.4054651081081644, 0.6418538861723948, 0.9162907318741551,
				1.3862943611198906})},
		{"torch.nn.functional.relu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{0.0, 0.0, math.Copysign(0, -1), 0.3, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.relu6", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{0.0, 0.0, math.Copysign(0, -1), 0.3, 1.7, math.NaN(), 6.0})},
		{"torch.nn.functional.silu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.18964545005310887, -0.1887703343990727, math.Copysign(0, -1), 0.1723327550434977,
				1.437409049357991, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.mish", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.19681620390653337, -0.22074377465173, math.Copysign(0, -1), 0.20800137234811503,
				1.6207680739755408, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.hardswish", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.20833333333333334, -0.20833333333333334, math.Copysign(0, -1), 0.16499999999999998,
				1.3316666666666668, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.hardsigmoid", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{0.08333333333333333, 0.4166666666666667, 0.5, 0.5499999999999999, 0.7833333333333333,
				math.NaN(), 1.0})},
		{"torch.nn.functional.selu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-1.6137857588732423, -0.6917581878028713, 0.0, 0.31521029620664415, 1.7861916785043168,
				math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.elu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.9179150013761012, -0.3934693402873666, 0.0, 0.3, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.celu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.9179150013761012, -0.3934693402873666, 0.0, 0.3, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.softplus", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{0.07888973429254963, 0.4740769841801067, 0.6931471805599453, 0.8543552444685272,
				1.867786029386266, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.softsign", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.7142857142857143, -0.3333333333333333, math.Copysign(0, -1), 0.23076923076923075,
				0.6296296296296295, math.NaN(), math.NaN()})},
		{"torch.nn.functional.tanhshrink", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-1.5133857018485697, -0.03788284273999026, 0.0, 0.008687387548409087, 0.764590929396901,
				math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.logsigmoid", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.5788897342925496, -0.9740769841801067, -0.6931471805599453, -0.5543552444685271,
				-0.16778602938626594, math.NaN(), 0.0})},
		{"torch.nn.functional.leaky_relu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.025, -0.005, math.Copysign(0, -1), 0.3, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.hardtanh", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-1.0, -0.5, math.Copysign(0, -1), 0.3, 1.0, math.NaN(), 1.0})},
		{"torch.nn.functional.hardshrink", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.5, 0.0, 0.0, 0.0, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.softshrink", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-2.0, 0.0, 0.0, 0.0, 1.2, math.NaN(), math.Inf(1)})},
		// torch's first element, -0.015524163314440398, is off by 18 eps: it cancels.
		{"torch.nn.functional.gelu", []value.Value{odd}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-0.01552416331444034, -0.15426876936299344, math.Copysign(0, -1), 0.1853734266566858,
				1.6242387133104768, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.gelu", []value.Value{odd}, keywords("approximate", "tanh"),
			tensor.New(tensor.Float64, []int{7}, []float64{-0.015084266089998577, -0.15428599017485606,
				math.Copysign(0, -1), 0.18537092354275922, 1.624105895551156, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.threshold", []value.Value{odd, 0.1, 20.0}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{20.0, 20.0, 20.0, 0.3, 1.7, math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.softplus", []value.Value{odd, 2.0, 3.0}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{0.003357674244559034, 0.15663084375911143, 0.34657359027997264, 0.5187439752429428, 1.7,
				math.NaN(), math.Inf(1)})},
		{"torch.nn.functional.glu",
			[]value.Value{tensor.New(tensor.Float64, []int{1, 4}, []float64{1.0, 2.0, -1.0, 0.5})}, nil,
			tensor.New(tensor.Float64, []int{1, 2}, []float64{0.2689414213699951, 1.2449186624037092})},
		{"torch.round", []value.Value{tensor.New(tensor.Float64, []int{3}, []float64{2.675, -1.005, 0.125})},
			keywords("decimals", int64(2)), tensor.New(tensor.Float64, []int{3}, []float64{2.68, -1.0, 0.12})},
		{"torch.div", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{-3.75, -3.75, 2.0, 0.0})},
		{"torch.floor_divide", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{-4.0, -4.0, 2.0, 0.0})},
		{"torch.remainder", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{0.5, -0.5, 0.0, 0.0})},
		{"torch.fmod", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{-1.5, 1.5, 0.0, 0.0})},
		{"torch.pow", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{56.25, 0.017777777777777778, 55.90169943749474, 0.0})},
		{"torch.atan2", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Float64, []int{4}, []float64{-1.3101939350475555, 1.8313987185422376,
				1.1071487177940904, 0.0})},
		{"torch.eq", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Bool, []int{4}, []int64{0, 0, 0, 0})},
		{"torch.lt", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Bool, []int{4}, []int64{1, 0, 0, 1})},
		{"torch.ge", []value.Value{tensor.New(tensor.Float64, []int{4}, []float64{-7.5, 7.5, 5.0, 0.0}),
			tensor.New(tensor.Float64, []int{4}, []float64{2.0, -2.0, 2.5, 3.0})}, nil,
			tensor.New(tensor.Bool, []int{4}, []int64{0, 1, 1, 0})},
		{"torch.floor_divide", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-4, 0, -2, 1})},
		{"torch.remainder", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{1, -2, -1, 2})},
		{"torch.fmod", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-1, -2, 1, 2})},
		{"torch.bitwise_and", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{0, -4, 2, 5})},
		{"torch.bitwise_or", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-5, -1, -1, 7})},
		{"torch.bitwise_xor", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-5, 3, -3, 2})},
		{"torch.gcd", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{1, 1, 1, 1})},
		{"torch.lcm", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{14, 6, 6, 35})},
		{"torch.div", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, keywords("rounding_mode", "trunc"),
			tensor.New(tensor.Int64, []int{4}, []int64{-3, 0, -1, 1})},
		{"torch.div", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, keywords("rounding_mode", "floor"),
			tensor.New(tensor.Int64, []int{4}, []int64{-4, 0, -2, 1})},
		{"torch.div", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, nil, tensor.New(tensor.Float32, []int{4},
			[]float64{-3.5, 0.6666666865348816, -1.5, 1.399999976158142})},
		{"torch.pow", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}), int64(3)}, nil,
			tensor.New(tensor.Int64, []int{4}, []int64{-343, -8, 27, 343})},
		{"torch.pow", []value.Value{int64(2), tensor.New(tensor.Int64, []int{3}, []int64{0, 3, 5})}, nil,
			tensor.New(tensor.Int64, []int{3}, []int64{1, 8, 32})},
		{"torch.Tensor.__rpow__", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{0.5, 2.0}), 10000.0},
			nil, tensor.New(tensor.Float32, []int{2}, []float64{100.0, 100000000.0})},
		{"torch.Tensor.__rtruediv__", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{0.5, 3.0}), 1.0},
			nil, tensor.New(tensor.Float32, []int{2}, []float64{2.0, 0.3333333432674408})},
		{"torch.Tensor.__rsub__", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}), int64(10)},
			nil, tensor.New(tensor.Int64, []int{4}, []int64{17, 12, 7, 3})},
		{"torch.bitwise_left_shift", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{1, 2, 3, 0})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-14, -8, 24, 7})},
		{"torch.bitwise_right_shift", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{1, 2, 1, 0})}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{-4, -1, 1, 7})},
		{"torch.bitwise_not", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7})}, nil,
			tensor.New(tensor.Int64, []int{4}, []int64{6, 1, -4, -8})},
		{"torch.bitwise_not", []value.Value{tensor.New(tensor.Bool, []int{2}, []int64{1, 0})}, nil,
			tensor.New(tensor.Bool, []int{2}, []int64{0, 1})},
		{"torch.clamp", []value.Value{odd, -1.0, 1.0}, nil, tensor.New(tensor.Float64, []int{7},
			[]float64{-1.0, -0.5, math.Copysign(0, -1), 0.3, 1.0, math.NaN(), 1.0})},
		{"torch.clamp", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}), int64(2), int64(-2)},
			nil, tensor.New(tensor.Int64, []int{4}, []int64{-2, -2, -2, -2})},
		{"torch.clamp", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7})}, keywords("max", 2.5),
			tensor.New(tensor.Float32, []int{4}, []float64{-7.0, -2.0, 2.5, 2.5})},
		{"torch.where", []value.Value{tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1}),
			tensor.New(tensor.Int64, []int{3}, []int64{1, 2, 3}), tensor.New(tensor.Float32, []int{3},
				[]float64{0.5, 1.5, 2.5})}, nil, tensor.New(tensor.Float32, []int{3}, []float64{1.0, 1.5, 3.0})},
		{"torch.masked_fill", []value.Value{tensor.New(tensor.Float32, []int{3}, []float64{1.0, 2.0, 3.0}),
			tensor.New(tensor.Bool, []int{3}, []int64{1, 0, 1}), math.Inf(-1)}, nil,
			tensor.New(tensor.Float32, []int{3}, []float64{math.Inf(-1), 2.0, math.Inf(-1)})},
		{"torch.addcmul", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, 2.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{3.0, 4.0}), tensor.New(tensor.Float32, []int{2},
				[]float64{5.0, 6.0})}, keywords("value", 0.5), tensor.New(tensor.Float32, []int{2},
			[]float64{8.5, 14.0})},
		{"torch.addcdiv", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, 2.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{3.0, 4.0}), tensor.New(tensor.Float32, []int{2},
				[]float64{5.0, 8.0})}, keywords("value", int64(-2)), tensor.New(tensor.Float32, []int{2},
			[]float64{-0.20000004768371582, 1.0})},
		{"torch.lerp", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, 2.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{3.0, 8.0}), 0.25}, nil, tensor.New(tensor.Float32, []int{2},
			[]float64{1.5, 3.5})},
		{"torch.add", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7}),
			tensor.New(tensor.Int64, []int{4}, []int64{2, -3, -2, 5})}, keywords("alpha", int64(3)),
			tensor.New(tensor.Int64, []int{4}, []int64{-1, -11, -3, 22})},
		{"torch.sub", []value.Value{tensor.New(tensor.Uint8, []int{2}, []int64{1, 2}), tensor.New(tensor.Int8, []int{2},
			[]int64{3, 1})}, nil, tensor.New(tensor.Int16, []int{2}, []int64{-2, 1})},
		{"torch.mul", []value.Value{tensor.New(tensor.Bool, []int{2}, []int64{1, 0}), 2.5}, nil,
			tensor.New(tensor.Float32, []int{2}, []float64{2.5, 0.0})},
		{"torch.add", []value.Value{tensor.New(tensor.BFloat16, []int{2}, []float64{1.5, 2.5}),
			tensor.New(tensor.Float64, []int{}, []float64{1.0})}, nil, tensor.New(tensor.BFloat16, []int{2},
			[]float64{2.5, 3.5})},
		{"torch.mul", []value.Value{-4.4375, 4.3125}, nil, tensor.New(tensor.Float64, []int{},
			[]float64{-19.13671875})},
		{"torch.mul", []value.Value{int64(2), 3.5}, nil, tensor.New(tensor.Float32, []int{}, []float64{7.0})},
		{"torch.gt", []value.Value{tensor.New(tensor.BFloat16, []int{1}, []float64{0.10009765625}), 0.1}, nil,
			tensor.New(tensor.Bool, []int{1}, []int64{0})},
		{"torch.eq", []value.Value{tensor.New(tensor.Int64, []int{1}, []int64{16777217}),
			tensor.New(tensor.Float32, []int{1}, []float64{16777216.0})}, nil, tensor.New(tensor.Bool, []int{1},
			[]int64{1})},
		{"torch.arange", []value.Value{int64(5)}, nil, tensor.New(tensor.Int64, []int{5}, []int64{0, 1, 2, 3, 4})},
		{"torch.arange", []value.Value{int64(1), int64(7), int64(2)}, nil, tensor.New(tensor.Int64, []int{3},
			[]int64{1, 3, 5})},
		{"torch.arange", []value.Value{int64(5), int64(-5), int64(-3)}, nil, tensor.New(tensor.Int64, []int{4},
			[]int64{5, 2, -1, -4})},
		{"torch.arange", []value.Value{0.0, -8.000001, -4.0}, keywords("dtype", tensor.Int64),
			tensor.New(tensor.Int64, []int{2}, []int64{0, -4})},
		{"torch.linspace", []value.Value{int64(-2), int64(10), int64(5)}, nil, tensor.New(tensor.Float32, []int{5},
			[]float64{-2.0, 1.0, 4.0, 7.0, 10.0})},
		{"torch.linspace", []value.Value{int64(1), int64(9), int64(4)}, keywords("dtype", tensor.Int64),
			tensor.New(tensor.Int64, []int{4}, []int64{1, 3, 6, 9})},
		{"torch.logspace", []value.Value{int64(0), int64(3), int64(4), 2.0}, nil, tensor.New(tensor.Float32, []int{4},
			[]float64{1.0, 2.0, 4.0, 8.0})},
		{"torch.eye", []value.Value{int64(2), int64(3)}, nil, tensor.New(tensor.Float32, []int{2, 3},
			[]float64{1.0, 0.0, 0.0, 0.0, 1.0, 0.0})},
		{"torch.tril_indices", []value.Value{int64(3), int64(3), int64(-1)}, nil, tensor.New(tensor.Int64, []int{2, 3},
			[]int64{1, 2, 2, 0, 0, 1})},
		{"torch.full", []value.Value{value.NewTuple(int64(2)), int64(7)}, nil, tensor.New(tensor.Int64, []int{2},
			[]int64{7, 7})},
		{"torch.tensor", []value.Value{value.NewList(value.NewList(int64(1), 2.5), value.NewList(int64(3), int64(4)))},
			nil, tensor.New(tensor.Float32, []int{2, 2}, []float64{1.0, 2.5, 3.0, 4.0})},
		{"torch.xlogy", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{0.0, 2.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{0.0, 3.0})}, nil, tensor.New(tensor.Float32, []int{2},
			[]float64{0.0, 2.1972246170043945})},
		{"torch.nextafter", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, 0.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{2.0, -1.0})}, nil, tensor.New(tensor.Float32, []int{2},
			[]float64{1.0000001192092896, -1.401298464324817e-45})},
		{"torch.logaddexp", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, math.Inf(-1)}),
			tensor.New(tensor.Float32, []int{2}, []float64{2.0, math.Inf(-1)})}, nil,
			tensor.New(tensor.Float32, []int{2}, []float64{2.3132617473602295, math.Inf(-1)})},
		{"torch.Tensor.float", []value.Value{tensor.New(tensor.Int64, []int{4}, []int64{-7, -2, 3, 7})}, nil,
			tensor.New(tensor.Float32, []int{4}, []float64{-7.0, -2.0, 3.0, 7.0})},
		{"torch.Tensor.byte", []value.Value{tensor.New(tensor.Float32, []int{3}, []float64{-1.5, 2.9000000953674316,
			300.0})}, nil, tensor.New(tensor.Uint8, []int{3}, []int64{255, 2, 44})},
		{"torch.result_type", []value.Value{tensor.New(tensor.Int64, []int{1}, []int64{1}), 1.5}, nil, tensor.Float32},
		{"torch.abs", []value.Value{tensor.New(tensor.Complex64, []int{1}, []complex128{complex(3.0, 4.0)})}, nil,
			tensor.New(tensor.Float32, []int{1}, []float64{5.0})},
		{"torch.angle",
			[]value.Value{tensor.New(tensor.Complex64, []int{2}, []complex128{complex(0.0, 1.0), complex(-1.0, 0.0)})},
			nil, tensor.New(tensor.Float32, []int{2}, []float64{1.5707963705062866, 3.1415927410125732})},
		{"torch.nn.functional.prelu",
			[]value.Value{tensor.New(tensor.Float32, []int{2, 2}, []float64{-1.0, 2.0, 3.0, -4.0}),
				tensor.New(tensor.Float32, []int{2}, []float64{0.10000000149011612, 0.5})}, nil,
			tensor.New(tensor.Float32, []int{2, 2}, []float64{-0.10000000149011612, 2.0, 3.0, -2.0})},
		{"torch.heaviside", []value.Value{tensor.New(tensor.Float32, []int{3}, []float64{-1.0, 0.0, 2.0}),
			tensor.New(tensor.Float32, []int{}, []float64{0.5})}, nil, tensor.New(tensor.Float32, []int{3},
			[]float64{0.0, 0.5, 1.0})},
		{"torch.copysign", []value.Value{tensor.New(tensor.Float32, []int{2}, []float64{1.0, -2.0}),
			tensor.New(tensor.Float32, []int{2}, []float64{math.Copysign(0, -1), 1.0})}, nil,
			tensor.New(tensor.Float32, []int{2}, []float64{-1.0, 2.0})},
	} {
		call, err := reg.Bind(c.name, c.args, c.kwargs)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		f, err := call.Forward()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		want, ok := c.want.(*tensor.Tensor)
		if !ok {
			if f.Value != c.want {
				t.Errorf("%s: got %v, want %v", c.name, f.Value, c.want)
			}
			continue
		}
		got := f.Outs[0]
		if got.Meta() != want.Meta() {
			t.Errorf("%s: got %s, want %s", c.name, got.Meta(), want.Meta())
			continue
		}
		g, w := tensor.Data[complex128](got.Rounded()), tensor.Data[complex128](want.Rounded())
		for i := range w {
			if !near(g[i], w[i], 16*want.DType.Eps()) {
				t.Errorf("%s: element %d: got %v, want %v", c.name, i, g[i], w[i])
			}
		}
	}
}

// near compares with a relative tolerance; NaN equals NaN.
func near(got, want complex128, rel float64) bool {
	if cmplx.IsNaN(want) || cmplx.IsInf(want) {
		return cmplx.IsNaN(want) && cmplx.IsNaN(got) || got == want
	}
	return cmplx.Abs(got-want) <= rel*cmplx.Abs(want)
}

func keywords(items ...value.Value) *value.Dict {
	d := &value.Dict{}
	for i := 0; i < len(items); i += 2 {
		d.Items = append(d.Items, value.Item{Key: items[i], Value: items[i+1]})
	}
	return d
}

// TestElementwiseRefusals lists calls that torch refuses, and the argument at
// fault.
func TestElementwiseRefusals(t *testing.T) {
	reg := ops.Default()
	ints := tensor.New(tensor.Int64, []int{2}, []int64{1, 2})
	bools := tensor.New(tensor.Bool, []int{2}, []int64{0, 1})
	floats := tensor.New(tensor.Float32, []int{2}, []float64{1, 2})
	complexes := tensor.New(tensor.Complex64, []int{2}, []complex128{1, 2i})
	for _, c := range []struct {
		name   string
		args   []value.Value
		kwargs *value.Dict
		arg    string
	}{
		{"torch.sub", []value.Value{bools, bools}, nil, "other"},
		{"torch.add", []value.Value{ints, ints}, keywords("alpha", 1.5), "alpha"},
		{"torch.add", []value.Value{floats, tensor.New(tensor.Float32, []int{3}, []float64{1, 2, 3})}, nil, ""},
		{"torch.Tensor.div_", []value.Value{ints, ints}, nil, "self"},
		{"torch.div", []value.Value{floats, floats}, keywords("rounding_mode", "up"), "rounding_mode"},
		{"torch.floor_divide", []value.Value{ints, tensor.New(tensor.Int64, []int{2}, []int64{1, 0})}, nil, "other"},
		{"torch.pow", []value.Value{ints, int64(-1)}, nil, "exponent"},
		{"torch.pow", []value.Value{int64(2), int64(3)}, nil, ""},
		{"torch.neg", []value.Value{bools}, nil, "self"},
		{"torch.floor", []value.Value{complexes}, nil, "self"},
		{"torch.lt", []value.Value{complexes, complexes}, nil, "self"},
		{"torch.bitwise_and", []value.Value{floats, floats}, nil, "self"},
		{"torch.where", []value.Value{floats, floats, floats}, nil, "condition"},
		{"torch.masked_fill", []value.Value{ints, bools, 1e30}, nil, "value"},
		{"torch.masked_fill", []value.Value{floats, ints, 1.0}, nil, "mask"},
		{"torch.clamp", []value.Value{floats}, nil, "min"},
		{"torch.lerp", []value.Value{floats, ints, 0.5}, nil, "end"},
		{"torch.nn.functional.gelu", []value.Value{floats}, keywords("approximate", "erf"), "approximate"},
		{"torch.nn.functional.softshrink", []value.Value{floats, -0.5}, nil, "lambd"},
		{"torch.nn.functional.glu", []value.Value{tensor.New(tensor.Float32, []int{3}, []float64{1, 2, 3})},
			nil, "dim"},
		{"torch.nn.functional.dropout", []value.Value{floats, 1.5}, nil, "p"},
		{"torch.arange", []value.Value{int64(0), int64(5), int64(-1)}, nil, "step"},
		{"torch.zeros", []value.Value{int64(2), int64(-1)}, nil, "size"},
		{"torch.zeros", []value.Value{int64(math.MaxInt64), int64(2)}, nil, "size"},
		{"torch.tensor", []value.Value{value.NewList(int64(1), value.NewList(int64(2)))}, nil, "data"},
		{"torch.complex", []value.Value{floats, ints}, nil, "imag"},
		{"torch.Tensor.item", []value.Value{floats}, nil, "self"},
		{"torch.copysign", []value.Value{int64(2), floats}, nil, "self"},
		{"torch.fmod", []value.Value{int64(2), ints}, nil, "self"},
		{"torch.Tensor.float_power_", []value.Value{floats, int64(2)}, nil, "self"},
		{"torch.fft.fftshift", []value.Value{tensor.New(tensor.Float32, nil, []float64{1}), int64(0)}, nil, "dim"},
		{"torch.gather", []value.Value{floats, int64(0), tensor.New(tensor.Int64, []int{1}, []int64{0})},
			keywords("out", bools), "out"},
		{"torch.mean", []value.Value{floats}, keywords("dtype", tensor.Float64, "out", floats), "out"},
		{"torch.Tensor.to", []value.Value{floats, value.NewList()}, nil, "device"},
	} {
		call, err := reg.Bind(c.name, c.args, c.kwargs)
		if err == nil {
			_, err = call.Forward()
		}
		var refused *opdef.RefusedError
		switch {
		case !errors.As(err, &refused):
			t.Errorf("%s: got error %v, want a refusal", c.name, err)
		case refused.Arg != c.arg:
			t.Errorf("%s: %v blames argument %q, want %q", c.name, err, refused.Arg, c.arg)
		}
	}
}

// TestDropoutRandom: dropout draws only in training with a probability between
// 0 and 1.
func TestDropoutRandom(t *testing.T) {
	reg := ops.Default()
	x := tensor.New(tensor.Float32, []int{2}, []float64{1, 2})
	for _, c := range []struct {
		p        float64
		training bool
		random   bool
	}{{0.5, true, true}, {0.5, false, false}, {0, true, false}, {1, true, false}} {
		call, err := reg.Bind("torch.nn.functional.dropout", []value.Value{x, c.p, c.training}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Random() != ""; got != c.random {
			t.Errorf("dropout(p=%v, training=%v): random is %v, want %v", c.p, c.training, got, c.random)
		}
	}
}
