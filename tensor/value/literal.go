package value

import (
	"errors"
	"strconv"
)

// ParseLiteral reads a Python literal: None, True, False, a number (inf and -inf
// included) or a string in quotes without escapes.
func ParseLiteral(s string) (Value, error) {
	switch s {
	case "None":
		return nil, nil
	case "True":
		return true, nil
	case "False":
		return false, nil
	}
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return v, nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return v, nil
	}
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1], nil
	}
	return nil, errors.New("not a literal")
}
