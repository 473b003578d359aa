package pairs

import (
	"fmt"
	"strings"
)

// How much further apart than everything before them values of two runs must be, and than the unit of their dtype, to
// show that what made them differs. Between two recorded values may lie a whole block, such as an attention that one
// run fuses: its rounding is larger than that of one call, most of all in the backward pass, where terms cancel.
const (
	ReplacedForward  = 64
	ReplacedBackward = 512
)

// Operators names operators as a program writes them, of many the first ones.
func Operators(ops []string) string {
	const most = 8
	var names []string
	for i, op := range ops {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(ops)-i))
			break
		}
		names = append(names, operator(op))
	}
	return strings.Join(names, " ")
}

// operator is the name of an operator as a program writes it.
func operator(op string) string {
	for _, module := range []string{"torch.nn.functional.", "torch.Tensor.", "torch.", "__main__."} {
		if name, ok := strings.CutPrefix(op, module); ok {
			return name
		}
	}
	return op
}
