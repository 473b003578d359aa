package reports_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/optool/optool/reports"
)

func TestCoverage(t *testing.T) {
	c := reports.NewCoverage()
	c.Add("add", "int64", []string{"f"}, nil)
	c.Add("add", "float32", []string{"f", "g"}, nil)
	c.Add("add", "float32", nil, errors.New("no\nkernel"))
	c.Add("exp", "float16", nil, errors.New("none"))
	for _, tc := range []struct {
		name  string
		write func(*strings.Builder) error
		want  string
	}{
		{"all", func(b *strings.Builder) error { return c.Write(b, 0, false) },
			"op   calls  can run  float16  float32  int64  why not\n" +
				"add      3        2           1/2      yes    no\\nkernel\n" +
				"exp      1        0  no                       none\n"},
		{"dtypes", func(b *strings.Builder) error { return c.WriteDTypes(b, 0) },
			"dtype    operators that run  of\nfloat16                   0   1\nfloat32                   0   1\n" +
				"int64                     1   1\n"},
		{"rows", func(b *strings.Builder) error { return reports.WriteCSV(b, c.Sheet()) },
			"op,dtype,calls,runnable,functions,reason\nadd,float32,2,1,f g,\"no\nkernel\"\nadd,int64,1,1,f g,\n" +
				"exp,float16,1,0,,none\n"},
	} {
		var b strings.Builder
		if err := tc.write(&b); err != nil || b.String() != tc.want {
			t.Errorf("%s: got %v\n%s\nwant\n%s", tc.name, err, b.String(), tc.want)
		}
	}
	if n := c.Total(); n.Calls != 4 || n.Runnable != 2 {
		t.Errorf("got %d of %d calls, want 2 of 4", n.Runnable, n.Calls)
	}
}
