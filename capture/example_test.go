package capture_test

import (
	"context"
	"fmt"

	"github.com/optool/optool/capture"
)

func Example() {
	paths := []string{"../fixtures/captures/v2"}
	for e, err := range capture.Scan(context.Background(), paths, capture.Options{}) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		c, err := e.Load(capture.LoadOptions{})
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(c.Op, e.ID, e.Files)
		for _, t := range c.Inputs() {
			fmt.Println(t.Meta())
		}
		c.Close()
	}
	// Output:
	// torch.Tensor.div 10 input,output,grad_inputs,grad_outputs
	// float32[2, 4, 12, 12]
}
