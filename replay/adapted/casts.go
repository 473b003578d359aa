package adapted

import (
	"errors"
	"fmt"
	"strings"

	"github.com/optool/optool/tensor"
)

// Casts are dtypes that arguments are converted to before a call, results back.
type Casts struct {
	Config string // as the user wrote it
	Source string // the flag or variable that it was written to
	To     map[tensor.DType]tensor.DType
}

// ErrPair is the error of ParseCasts for text of another form.
var ErrPair = errors.New(`want "torch.bfloat16->torch.float32", separated by commas`)

// ParseCasts reads op_tools' notation of dtype casts:
// "torch.float64->torch.float32,torch.int64->torch.int32". It returns nil if the
// text names none.
func ParseCasts(text string) (*Casts, error) {
	casts := &Casts{Config: text, To: map[tensor.DType]tensor.DType{}}
	for pair := range strings.SplitSeq(text, ",") {
		pair = strings.TrimSpace(pair)
		if pair == "" {
			continue
		}
		from, to, ok := strings.Cut(pair, "->")
		if !ok {
			return nil, fmt.Errorf("%q: %w", pair, ErrPair)
		}
		a, err := parseDType(from)
		if err != nil {
			return nil, err
		}
		b, err := parseDType(to)
		if err != nil {
			return nil, err
		}
		casts.To[a] = b
	}
	if len(casts.To) == 0 {
		return nil, nil
	}
	return casts, nil
}

func parseDType(text string) (tensor.DType, error) {
	name := strings.TrimPrefix(strings.TrimSpace(text), "torch.")
	dt, ok := tensor.ParseDType(name)
	if !ok {
		return dt, fmt.Errorf("unknown dtype %q", strings.TrimSpace(text))
	}
	return dt, nil
}
