package diopi

import (
	"strings"
	"testing"

	"github.com/optool/optool/internal/fuzzcheck"
	"github.com/optool/optool/tensor"
)

// FuzzParseConvertConfig reads convert_config.yaml files and converts a plan as
// they say.
func FuzzParseConvertConfig(f *testing.F) {
	for _, text := range []string{
		"- common_config:\n    dtype: (int64)->int32, (float64)->float32\n    layout: NCHW\n    contiguous: true\n",
		"- diopiAdd: {dtype: (float64)->float32, tensor_dtype: {other: (float64)->float16}}",
		"- diopiAdd: {layout: 'NHWC, input(NCHW)'}", "- diopiAdd: {contiguous: input, supportComposite: true}",
		"", "#", "null", "- ", "[[]]", "- &a {diopiAdd: *a}", "- diopiAdd: &a\n- diopiAdd: *a", "- diopiAdd: {dtype: 3}",
		"- common_config: {dtype: [(int64)->int32]}", "- {? [x] : y}", "\x00", "- diopiAdd: {layout: [[NHWC]]}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var c *ConvertConfig
		var err error
		fuzzcheck.Bounded(t, len(data), 1<<14, func() { c, err = ParseConvertConfig("config.yaml", data) })
		fuzzcheck.Sentence(t, err)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "config.yaml:") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		plan, _ := c.Apply(addPlan(tensor.Float64), func(string) bool { return true })
		if n := len(plan.Calls); n < 1 || n > 10 {
			t.Errorf("one call becomes %d", n)
		}
	})
}
