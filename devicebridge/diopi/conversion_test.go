package diopi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/optool/optool/tensor"
)

// config parses a convert_config.yaml.
func config(t *testing.T, text string) *ConvertConfig {
	t.Helper()
	c, err := ParseConvertConfig("convert_config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func all(string) bool { return true }

// converted is p with the conversions of a convert_config.yaml.
func converted(t *testing.T, text string, p *Plan, exports func(string) bool) *Plan {
	t.Helper()
	q, _ := config(t, text).Apply(p, exports)
	return q
}

// shown is a plan as lines "diopiCastDtype input=input out=input as float32", tensors only.
func shown(p *Plan) string {
	var lines []string
	for _, c := range p.Calls {
		f, _ := Lookup(c.Function)
		words := []string{strings.TrimPrefix(c.Function, "diopi")}
		for _, q := range f.Params {
			switch a := c.Args[q.Name].(type) {
			case *Tensor:
				words = append(words, q.Name+"="+shownTensor(a))
			case Tensors:
				for _, it := range a {
					words = append(words, q.Name+"="+shownTensor(it))
				}
			case *Alloc:
				words = append(words, q.Name+"="+a.Role)
			}
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

func shownTensor(t *Tensor) string {
	if t == nil {
		return "null"
	}
	stride := t.Stride
	if stride == nil {
		stride = tensor.Contiguous(t.Shape)
	}
	return strings.ReplaceAll(fmt.Sprintf("%s/%s%v", t.Role, t.DType, stride), " ", "_")
}

// of is a tensor without values.
func of(role string, dt tensor.DType, shape, stride []int) *Tensor {
	return &Tensor{Role: role, DType: dt, Shape: shape, Stride: stride}
}

func plan(function string, args map[string]Arg) *Plan {
	return &Plan{Calls: []*Call{{Phase: Forward, Function: "diopi" + function, Args: args}}}
}

func addPlan(dt tensor.DType) *Plan {
	return plan("Add", map[string]Arg{
		"out": of("out0", dt, []int{2, 3}, nil), "input": of("input", dt, []int{2, 3}, nil),
		"other": of("other", dt, []int{2, 3}, []int{1, 2}),
		"alpha": Scalar{DType: tensor.Int64, Int: 1},
	})
}

func TestConversions(t *testing.T) {
	image := func(role string, stride []int) *Tensor { return of(role, tensor.Float32, []int{2, 3, 4, 5}, stride) }
	last := []int{60, 1, 15, 3}
	relu := func(in, out []int) *Plan {
		return plan("Relu", map[string]Arg{"out": image("out0", out), "input": image("input", in)})
	}
	tests := []struct {
		name, config string
		plan         *Plan
		want         string
	}{
		{"no file, no conversion", "", addPlan(tensor.Float64),
			"Add out=out0/float64[3_1] input=input/float64[3_1] other=other/float64[1_2]"},
		{"arguments before, results after", "- common_config: {dtype: '(int64)->int32, (float64)->float32'}",
			addPlan(tensor.Float64), `
CastDtype out=input_as_float32/float32[3_1] input=input/float64[3_1]
CastDtype out=other_as_float32/float32[1_2] input=other/float64[1_2]
Add out=out0_as_float32/float32[3_1] input=input_as_float32/float32[3_1] other=other_as_float32/float32[1_2]
CastDtype out=out0/float64[3_1] input=out0_as_float32/float32[3_1]`},
		{"another dtype", "- common_config: {dtype: '(int64)->int32'}", addPlan(tensor.Float32),
			"Add out=out0/float32[3_1] input=input/float32[3_1] other=other/float32[1_2]"},
		{"several dtypes to one", "- diopiAdd: {dtype: '(int8, Int64)->int32,(float64)->float32'}",
			addPlan(tensor.Int8), `
CastDtype out=input_as_int32/int32[3_1] input=input/int8[3_1]
CastDtype out=other_as_int32/int32[1_2] input=other/int8[1_2]
Add out=out0_as_int32/int32[3_1] input=input_as_int32/int32[3_1] other=other_as_int32/int32[1_2]
CastDtype out=out0/int8[3_1] input=out0_as_int32/int32[3_1]`},
		{"a parameter before its function", "- diopiAdd: {dtype: (float64)->float32, tensor_dtype: {other: (float64)->float16, out: (int8)->int16}}",
			addPlan(tensor.Float64), `
CastDtype out=input_as_float32/float32[3_1] input=input/float64[3_1]
CastDtype out=other_as_float16/float16[1_2] input=other/float64[1_2]
Add out=out0/float64[3_1] input=input_as_float32/float32[3_1] other=other_as_float16/float16[1_2]`},
		{"a function before all",
			"- diopiAdd: {dtype: (int64)->int32}\n- common_config: {dtype: (float64)->float32, layout: ND}",
			addPlan(tensor.Float64),
			"Add out=out0/float64[3_1] input=input/float64[3_1] other=other/float64[1_2]"},
		{"only what a function sets", "- common_config: {dtype: (float64)->float32, layout: NCHW}\n- diopiAdd: {layout: ND, tensor_dtype: {out: (int8)->int16, input: (int8)->int16}}",
			addPlan(tensor.Float64), `
CastDtype out=other_as_float32/float32[1_2] input=other/float64[1_2]
Add out=out0/float64[3_1] input=input/float64[3_1] other=other_as_float32/float32[1_2]`},
		{"the later of two entries", "- diopiAdd: {dtype: (float64)->float32}\n- diopiAdd: {layout: ND}",
			addPlan(tensor.Float64),
			"Add out=out0/float64[3_1] input=input/float64[3_1] other=other/float64[1_2]"},
		{"another function", "- diopiSub: {dtype: (float64)->float32}", addPlan(tensor.Float64),
			"Add out=out0/float64[3_1] input=input/float64[3_1] other=other/float64[1_2]"},
		{"dtype, then layout, and back at once", "- common_config: {dtype: (float64)->float32, layout: NCHW}",
			plan("Relu", map[string]Arg{"input": of("input", tensor.Float64, []int{2, 3}, []int{1, 2}),
				"out": of("out0", tensor.Float64, []int{2, 3}, []int{1, 2})}), `
CastDtype out=input_as_float32/float32[1_2] input=input/float64[1_2]
CopyInp src=input_as_float32/float32[1_2] dest=input_as_float32_row-major/float32[3_1]
Relu out=out0_as_float32_row-major/float32[3_1] input=input_as_float32_row-major/float32[3_1]
CastDtype out=out0/float64[1_2] input=out0_as_float32_row-major/float32[3_1]`},
		{"channels last", "- diopiRelu: {layout: 'NLC, NHWC, NDHWC'}", relu(nil, nil), `
CopyInp src=input/float32[60_20_5_1] dest=input_channels-last/float32[60_1_15_3]
Relu out=out0_channels-last/float32[60_1_15_3] input=input_channels-last/float32[60_1_15_3]
CopyInp src=out0_channels-last/float32[60_1_15_3] dest=out0/float32[60_20_5_1]`},
		{"as it is wanted", "- diopiRelu: {layout: NHWC}", relu(last, last),
			"Relu out=out0/float32[60_1_15_3] input=input/float32[60_1_15_3]"},
		{"one of several", "- diopiRelu: {layout: [NHWC, NCHW]}", relu(last, nil),
			"Relu out=out0/float32[60_20_5_1] input=input/float32[60_1_15_3]"},
		{"none of several: the first", "- diopiRelu: {layout: 'NHWC, NCHW'}", relu([]int{60, 1, 3, 12}, nil), `
CopyInp src=input/float32[60_1_3_12] dest=input_channels-last/float32[60_1_15_3]
Relu out=out0/float32[60_20_5_1] input=input_channels-last/float32[60_1_15_3]`},
		{"of another rank", "- diopiRelu: {layout: 'NLC, NDHWC'}", relu(nil, []int{1, 2, 6, 24}),
			"Relu out=out0/float32[1_2_6_24] input=input/float32[60_20_5_1]"},
		{"row-major by any name", "- diopiRelu: {layout: NCL}", relu(last, nil), `
CopyInp src=input/float32[60_1_15_3] dest=input_row-major/float32[60_20_5_1]
Relu out=out0/float32[60_20_5_1] input=input_row-major/float32[60_20_5_1]`},
		{"ND leaves dense tensors alone", "- diopiRelu: {layout: ND}", relu(last, []int{1, 2, 6, 24}),
			"Relu out=out0/float32[1_2_6_24] input=input/float32[60_1_15_3]"},
		{"ND and gaps", "- diopiRelu: {layout: ND}", relu([]int{120, 2, 30, 6}, []int{0, 20, 5, 1}), `
CopyInp src=input/float32[120_2_30_6] dest=input_dense/float32[60_20_5_1]
Relu out=out0_dense/float32[60_20_5_1] input=input_dense/float32[60_20_5_1]
CopyInp src=out0_dense/float32[60_20_5_1] dest=out0/float32[0_20_5_1]`},
		{"layout of a parameter", "- diopiRelu: {layout: 'NCHW, input(NHWC)'}", relu(nil, last), `
CopyInp src=input/float32[60_20_5_1] dest=input_channels-last/float32[60_1_15_3]
Relu out=out0_row-major/float32[60_20_5_1] input=input_channels-last/float32[60_1_15_3]
CopyInp src=out0_row-major/float32[60_20_5_1] dest=out0/float32[60_1_15_3]`},
		{"contiguous", "- common_config: {contiguous: true, layout: ND}", relu(last, nil), `
CopyInp src=input/float32[60_1_15_3] dest=input_row-major/float32[60_20_5_1]
Relu out=out0/float32[60_20_5_1] input=input_row-major/float32[60_20_5_1]`},
		{"not contiguous", "- common_config:\n    layout: ND\n    contiguous: False", relu(last, nil),
			"Relu out=out0/float32[60_20_5_1] input=input/float32[60_1_15_3]"},
		{"a contiguous parameter", "- common_config: {layout: NHWC}\n- diopiRelu: {contiguous: input, layout: ND}",
			relu(last, last), `
CopyInp src=input/float32[60_1_15_3] dest=input_row-major/float32[60_20_5_1]
Relu out=out0/float32[60_1_15_3] input=input_row-major/float32[60_20_5_1]`},
		{"repeated elements are cast densely", "- diopiRelu: {dtype: (float32)->float16}",
			relu([]int{0, 20, 5, 1}, nil), `
CastDtype out=input_as_float16/float16[60_20_5_1] input=input/float32[0_20_5_1]
Relu out=out0_as_float16/float16[60_20_5_1] input=input_as_float16/float16[60_20_5_1]
CastDtype out=out0/float32[60_20_5_1] input=out0_as_float16/float16[60_20_5_1]`},
		{"in place", "- common_config: {dtype: (float64)->float32}",
			plan("ReluInp", map[string]Arg{"input": of("input", tensor.Float64, []int{2}, nil)}), `
CastDtype out=input_as_float32/float32[1] input=input/float64[1]
ReluInp input=input_as_float32/float32[1]
CastDtype out=input/float64[1] input=input_as_float32/float32[1]`},
		{"read and written",
			"- diopiBatchNorm: {tensor_dtype: {running_mean: (float64)->float32, save_mean: (float64)->float32}}",
			plan("BatchNorm", map[string]Arg{
				"out": of("out", tensor.Float32, []int{2, 3}, nil), "save_mean": of("save_mean", tensor.Float64,
					[]int{3}, nil), "save_invstd": nil,
				"input": of("input", tensor.Float32, []int{2, 3}, nil), "weight": nil, "bias": nil,
				"running_mean": of("mean", tensor.Float64, []int{3}, nil), "running_var": nil,
			}), `
CastDtype out=mean_as_float32/float32[1] input=mean/float64[1]
BatchNorm out=out/float32[3_1] save_mean=save_mean_as_float32/float32[1] input=input/float32[3_1] running_mean=mean_as_float32/float32[1]
CastDtype out=save_mean/float64[1] input=save_mean_as_float32/float32[1]
CastDtype out=mean/float64[1] input=mean_as_float32/float32[1]`},
		{"what diopiIndexPut writes holds values", "- common_config: {dtype: (float64)->float32}",
			plan("IndexPut", map[string]Arg{
				"out": of("out", tensor.Float64, []int{3}, nil), "input": of("input", tensor.Float32, []int{3}, nil),
				"values":  of("values", tensor.Float32, []int{1}, nil),
				"indices": Tensors{nil, of("index", tensor.Float64, []int{1}, nil)},
			}), `
CastDtype out=out_as_float32/float32[1] input=out/float64[1]
CastDtype out=index_as_float32/float32[1] input=index/float64[1]
IndexPut out=out_as_float32/float32[1] input=input/float32[1] values=values/float32[1] indices=null indices=index_as_float32/float32[1]
CastDtype out=out/float64[1] input=out_as_float32/float32[1]`},
		{"copies stay", "- common_config: {dtype: (float64)->float32, layout: NCHW}",
			plan("CopyInp", map[string]Arg{"src": of("src", tensor.Float64, []int{2, 3}, []int{1, 2}),
				"dest": of("dest", tensor.Float64, []int{2, 3}, nil)}),
			"CopyInp src=src/float64[1_2] dest=dest/float64[3_1]"},
		{"casts stay", "- common_config: {dtype: (float64)->float32}",
			plan("CastDtype", map[string]Arg{"input": of("in", tensor.Float64, []int{2}, nil),
				"out": of("out", tensor.Float64, []int{2}, nil)}),
			"CastDtype out=out/float64[1] input=in/float64[1]"},
		{"calls that make tensors stay", "- common_config: {dtype: (float64)->float32}",
			plan("Nonzero", map[string]Arg{"input": of("in", tensor.Float64, []int{2}, nil),
				"out": &Alloc{Role: "out0"}}),
			"Nonzero out=out0 input=in/float64[1]"},
		{"a composite", "- diopiLinear: {supportComposite: true}\n- diopiMatmul: {dtype: (float64)->float32}",
			plan("Linear", map[string]Arg{
				"out": of("out0", tensor.Float64, []int{2, 4}, nil), "input": of("input", tensor.Float64,
					[]int{2, 3}, nil),
				"weight": of("weight", tensor.Float64, []int{4, 3}, nil), "bias": of("bias", tensor.Float64,
					[]int{4}, nil),
			}), `
Transpose out=weight_transposed/float64[4_1] input=weight/float64[3_1]
CastDtype out=input_as_float32/float32[3_1] input=input/float64[3_1]
CastDtype out=weight_transposed_as_float32/float32[4_1] input=weight_transposed/float64[4_1]
Matmul out=out0_as_float32/float32[4_1] input=input_as_float32/float32[3_1] other=weight_transposed_as_float32/float32[4_1]
CastDtype out=out0/float64[4_1] input=out0_as_float32/float32[4_1]
AddInp input=out0/float64[4_1] other=bias/float64[1]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			has := func(function string) bool { return function != "diopiLinear" }
			if got, want := shown(converted(t, test.config, test.plan, has)), strings.TrimPrefix(test.want,
				"\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestConversionKeepsResults: what a plan yields are the tensors it had before,
// and calls keep their phase.
func TestConversionKeepsResults(t *testing.T) {
	p := addPlan(tensor.Float64)
	p.Calls[0].Phase = Backward
	p.Outputs = []Arg{p.Calls[0].Args["out"]}
	before := shown(p)
	q, casts := config(t, "- common_config: {dtype: (float64)->float32}").Apply(p, all)
	for _, c := range casts {
		if c.Phase != Backward || c.From != tensor.Float64 || c.To != tensor.Float32 ||
			c.Tensor.DType != tensor.Float64 {
			t.Errorf("conversion %v", c)
		}
	}
	if len(casts) != 3 {
		t.Errorf("%d conversions, want 3", len(casts))
	}
	last := q.Calls[len(q.Calls)-1]
	if last.Args["out"] != q.Outputs[0] || q.Outputs[0] != p.Outputs[0] {
		t.Error("the last call does not write the result")
	}
	if slices.ContainsFunc(q.Calls, func(c *Call) bool { return c.Phase != Backward }) {
		t.Error("a conversion belongs to another phase")
	}
	if shown(p) != before {
		t.Error("the plan itself was changed")
	}
}

// TestConversionOfSparse: of a sparse tensor the values are converted.
func TestConversionOfSparse(t *testing.T) {
	values := of("input.values", tensor.Float64, []int{2}, nil)
	sparse := &Tensor{Role: "input", DType: tensor.Float64, Shape: []int{2, 2}, CSR: &CSR{Values: values}}
	p := plan("SpMM", map[string]Arg{"out": of("out0", tensor.Float32, []int{2, 2}, nil), "input": sparse,
		"mat2": of("mat2", tensor.Float32, []int{2, 2}, nil)})
	q := converted(t, "- common_config: {dtype: (float64)->float32, layout: NCHW}", p, all)
	got, _ := q.Calls[len(q.Calls)-1].Args["input"].(*Tensor)
	if len(q.Calls) != 2 || q.Calls[0].Args["input"] != values || got.CSR.Values != q.Calls[0].Args["out"] ||
		got.DType != tensor.Float32 {
		t.Errorf("got %s", shown(q))
	}
}

// TestLinearStandsIn: nothing stands in for what the library has, nor without leave.
func TestLinearStandsIn(t *testing.T) {
	linear := plan("Linear", map[string]Arg{"out": of("out0", tensor.Float32, nil, nil),
		"input": of("input", tensor.Float32, []int{3}, nil), "weight": of("weight", tensor.Float32, []int{3}, nil),
		"bias": nil})
	for text, want := range map[string][2]int{"- diopiLinear: {supportComposite: true}": {1, 1},
		"- diopiLinear: {supportComposite: false}": {1, 1}} {
		c := config(t, text)
		have, lack := converted(t, text, linear, all), converted(t, text, linear, func(string) bool { return false })
		if len(have.Calls) != want[0] || len(lack.Calls) != want[1] || have.Calls[0].Function != "diopiLinear" {
			t.Errorf("%s: %s, %s", text, shown(have), shown(lack))
		}
		if matmul := lack.Calls[0].Function == "diopiMatmul"; matmul != c.functions["diopiLinear"].composite {
			t.Errorf("%s: %s", text, shown(lack))
		}
	}
}

func TestConvertConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"- diopiNone: {layout: ND}": `convert_config.yaml:1: DIOPI has no function "diopiNone"`,
		"common_config: {}":         "convert_config.yaml:1: want a list of functions",
		"- common_config:\n  dtype: (a)->b": "convert_config.yaml:1: want a map of one key, " +
			"common_config or the name of a function",
		"- common_config: 1":              "convert_config.yaml:1: common_config: want a map",
		"\n- diopiAdd: {laiout: ND}":      `convert_config.yaml:2: diopiAdd: unknown key "laiout"`,
		"- diopiAdd: {layout: NWHC}":      `convert_config.yaml:1: unknown layout "NWHC"`,
		"- diopiAdd: {layout: input(ND}":  `convert_config.yaml:1: layout "input(ND": want NAME or PARAMETER(NAME), separated by commas`,
		"- diopiAdd: {layout: inptu(ND)}": `convert_config.yaml:1: diopiAdd has no tensor "inptu"`,
		"- diopiAdd: {contiguous: alpha}": `convert_config.yaml:1: diopiAdd has no tensor "alpha"`,
		"- common_config: {layout: input(ND)}": "convert_config.yaml:1: common_config is about " +
			`all functions and cannot name the parameter "input"`,
		"- common_config: {contiguous: input}": `convert_config.yaml:1: want true or false, got "input"`,
		"- common_config: {tensor_dtype: {a: (int8)->int8}}": "convert_config.yaml:1: common_config: unknown " +
			`key "tensor_dtype"`,
		"- common_config: {dtype: '(float65)->float32'}":         `convert_config.yaml:1: unknown dtype "float65"`,
		"- common_config: {dtype: '(int8)->i8'}":                 `convert_config.yaml:1: unknown dtype "i8"`,
		"- common_config: {dtype: 'float64->float32'}":           `convert_config.yaml:1: dtype "float64->float32": want (DTYPE, ...)->DTYPE, separated by commas`,
		"- diopiAdd: {tensor_dtype: {nope: (float64)->float32}}": `convert_config.yaml:1: diopiAdd has no tensor "nope"`,
		"- diopiAdd: {tensor_dtype: (float64)->float32}": "convert_config.yaml:1: tensor_dtype: want a map " +
			"of parameters",
		"- diopiLinear: {supportComposite: perhaps}": `convert_config.yaml:1: want true or false, got "perhaps"`,
		"- [": "convert_config.yaml: ",
		"- diopiAdd: {layout: ND, tensor_dtype: {out: (int8)->}}": `convert_config.yaml:1: dtype "(int8)->": want (DTYPE, ...)->DTYPE, separated by commas`,
	} {
		if c, err := ParseConvertConfig("convert_config.yaml", []byte(text)); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %s", text, c, err, want)
		}
	}
	if _, err := LoadConvertConfig("testdata/none.yaml"); err == nil {
		t.Error("a file that is not there was read")
	}
	for _, text := range []string{"", "# nothing\n", "~"} {
		if c, err := ParseConvertConfig("convert_config.yaml", []byte(text)); c != nil || err != nil {
			t.Errorf("%q: %v, %v; want nothing", text, c, err)
		}
	}
}
