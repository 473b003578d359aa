package verdict

// Reasons why something is skipped. Besides these there are those that an
// operator's declaration gives: that it draws random numbers, that it has no
// gradient, that what was recorded belongs to another operator.
const (
	NoOutput         = "no output.pth: nothing to compare"
	NothingReturned  = "returns nothing that could be compared"
	ModuleCall       = "a module's call: those of its operators are judged"
	ValueOnly        = "a value in a model, not a call: compare and check look at it"
	NoTensorReturned = "returns no tensor"
	NoGradient       = "no gradient was recorded"
	NoGradOutput     = "no gradient of a result was recorded"
	GradOfAnotherOp  = "gradients belong to another op"
	NoDeviceCall     = "takes no call of the device"
	FallsBack        = "falls back to the CPU"
	NoGradientOfOp   = "no gradient: " // and why, as the operator declares
)
