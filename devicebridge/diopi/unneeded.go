package diopi

// unneeded lists the parameters of functions through which a callee need not write,
// or not everything, with these arguments: what nothing reads afterwards.
var unneeded = map[string]func(args map[string]Arg) []string{
	// Statistics of the batch are for the gradient in training.
	"diopiBatchNorm":  unlessSet("training", "save_mean", "save_invstd"),
	"diopiDropout":    unlessSet("train", "mask"),
	"diopiDropoutInp": unlessSet("train", "mask"),
	// Rows beyond the length of a sequence, and of its target, are never read.
	"diopiCTCLoss": func(map[string]Arg) []string { return []string{"log_alpha"} },
	"diopiNLLLossV2": func(args map[string]Arg) []string {
		if args["reduction"] == Enum("ReductionNone") {
			return []string{"total_weight"}
		}
		return nil
	},
}

// unlessSet are the parameters of a function that are optional unless a flag is set.
func unlessSet(flag string, params ...string) func(map[string]Arg) []string {
	return func(args map[string]Arg) []string {
		if on, ok := args[flag].(Bool); ok && bool(on) {
			return nil
		}
		return params
	}
}

// describe marks the tensors through which a call need not write, and names those
// that have no name after their parameters.
func (c *Call) describe() {
	for name, a := range c.Args {
		if t, ok := a.(*Tensor); ok && t != nil && t.Role == "" {
			t.Role = name
		}
	}
	if list := unneeded[c.Function]; list != nil {
		for _, name := range list(c.Args) {
			if t, ok := c.Args[name].(*Tensor); ok && t != nil {
				t.Optional = true
			}
		}
	}
}
