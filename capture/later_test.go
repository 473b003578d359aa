package capture_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/optool/optool/capture"
	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// TestLoadLater: gradients of the second and third backward pass through a call do not mix with those of the first.
func TestLoadLater(t *testing.T) {
	dir := t.TempDir()
	x := `{"tensor":0,"dtype":"float32","shape":[]}`
	calls := `{"event":"run","format":"optool-capture","version":1,"pid":1,"rank":null}
{"event":"blob","n":0,"key":"a","file":0,"begin":0,"bytes":4}
{"event":"blob","n":1,"key":"b","file":0,"begin":4,"bytes":4}
{"event":"call","id":0,"name":"torch.f","args":[` + x + `,` + x + `],"kwargs":{}}
{"event":"return","id":0,"result":` + x + `}
{"event":"grad_output","id":0,"i":0,"pass":3,"value":` + x + `}
{"event":"grad_input","id":0,"i":0,"pass":3,"value":` + x + `}
{"event":"grad_output","id":0,"i":0,"pass":5,"value":` + x + `}
{"event":"grad_input","id":0,"i":1,"pass":5,"value":{"tensor":1,"dtype":"float32","shape":[]}}
{"event":"call","id":1,"name":"torch.g","args":[],"kwargs":{}}
{"event":"return","id":1,"result":null}
{"event":"grad_input","id":0,"i":0,"pass":6,"value":` + x + `}
{"event":"end"}
`
	for name, b := range map[string]string{"calls.jsonl": calls,
		"tensors-00000.safetensors": "\x00\x00\x80\x3f\x00\x00\x00\x40"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(b), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for e, err := range capture.Scan(context.Background(), []string{dir}, capture.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.ID != 0 {
			if len(e.LaterOrder) != 0 {
				t.Errorf("%s: later passes at %v", e.Op, e.LaterOrder)
			}
			continue
		}
		if !slices.Equal(e.LaterOrder, []int{2, 3}) {
			t.Errorf("later passes at %v", e.LaterOrder)
		}
		c, err := e.LoadLater()
		if err != nil {
			t.Fatal(err)
		}
		var got [][]value.Value
		for _, p := range c.GradInputs {
			got = append(got, p.(*value.Sequence).Items)
		}
		if len(got) != 2 || len(got[0]) != 2 || got[0][0] != nil || got[0][1].(*tensor.Tensor).Item() != 2.0 ||
			got[1][0].(*tensor.Tensor).Item() != 1.0 || got[1][1] != nil {
			t.Errorf("gradients %v", got)
		}
		c.Close()
	}
}
