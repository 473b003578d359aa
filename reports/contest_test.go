package reports

import (
	"strings"
	"testing"
)

// TestContest: values of the first device are counted by op, those of the second name it,
// and only ops of which one side is nearer are listed.
func TestContest(t *testing.T) {
	s := NewSummary()
	zero := Num(0)
	for _, r := range []*Result{
		{Op: "torch.add", Against: "same", ApartRMSE: zero},
		{Op: "torch.add", Device: "torch:cpu", Witness: "worse"},
		{Op: "torch.mm", Against: "better", ApartRMSE: Num(0.5)},
		{Op: "torch.mm", Against: "worse", ApartRMSE: Num(0.5)},
		{Op: "torch.mm", Layout: "transposed"},
	} {
		s.Add(r)
	}
	if s.Witness != nil {
		t.Errorf("the second device is counted against the record: %v", s.Witness)
	}
	if c := s.Against; c.Device != "torch:cpu" || c.Standing != (Standing{1, 1, 1, 1}) ||
		*c.ByOp["torch.mm"] != (Standing{Better: 1, Worse: 1}) {
		t.Errorf("counts %+v", c)
	}
	for tables, want := range map[bool]string{
		false: "against torch:cpu  nearer  as near  further  equal\n" +
			"torch.mm                1        0        1      0\n",
		true: "against torch:cpu  nearer  as near  further  equal\n" +
			"torch.add               0        1        0      1\n" +
			"torch.mm                1        0        1      0\n",
	} {
		var b strings.Builder
		if err := s.Against.write(&b, Style{Tables: tables}); err != nil {
			t.Fatal(err)
		}
		want := "against torch:cpu: 1 of the device's values are nearer to the reference, 1 as near, 1 further away; " +
			"1 of 3 are equal\n" + want
		if b.String() != want {
			t.Errorf("tables %t:\n%s\nwant\n%s", tables, b.String(), want)
		}
	}
	if NewSummary().Against.write(nil, Style{}) != nil {
		t.Error("one device makes no contest")
	}
}
