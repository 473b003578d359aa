package reports

import (
	"fmt"
	"math"
	"strconv"
)

// fixed9 formats as Python's f"{x:10.9f}" with the given least width: nan and
// inf are padded on the left.
func fixed9(x float64, width int) string {
	s, ok := nonFinite(x)
	if !ok {
		s = strconv.FormatFloat(x, 'f', 9, 64)
	}
	return fmt.Sprintf("%*s", width, s)
}

// nonFinite is Python's text of nan and the infinities.
func nonFinite(x float64) (string, bool) {
	switch {
	case math.IsNaN(x):
		return "nan", true
	case math.IsInf(x, 1):
		return "inf", true
	case math.IsInf(x, -1):
		return "-inf", true
	}
	return "", false
}

// number formats a statistic with the given significant digits, -1 for as many
// as it takes to read it back.
func number(x float64, digits int) string {
	if s, ok := nonFinite(x); ok {
		return s
	}
	return strconv.FormatFloat(x, 'g', digits, 64)
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// pyTuple is Python's repr of a tuple of integers: (), (4,), (2, 3).
func pyTuple(v []int) string {
	b := []byte{'('}
	for i, n := range v {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	if len(v) == 1 {
		b = append(b, ',')
	}
	return string(append(b, ')'))
}

// percentText formats a share for people, with two digits that count: "0.021 %", "150 %".
func percentText(share float64) string {
	if p := 100 * share; p < 10 || p >= 1e6 {
		return strconv.FormatFloat(p, 'g', 2, 64) + " %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// Bytes formats a size with a binary unit: "512 B", "3.0 KiB".
func Bytes(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	x, unit := float64(n), ""
	for _, unit = range []string{"KiB", "MiB", "GiB", "TiB"} {
		if x /= 1024; x < 1024 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", x, unit)
}
