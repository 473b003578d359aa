package folder

import "testing"

// TestOf: every layout gives the folder above what changes from run to run.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		path, op  string
		pid, rank int
		want      Place
	}{
		{"modelX/rank0/12321-2026-11-29-01-23-13/torch.add.0", "torch.add", 12321, -1,
			Place{"modelX", "2026-11-29-01-23-13"}},
		{"rank1/27583-2026-11-29-01-34-11/torch.add.0", "torch.add", 27583, 1, Place{"", "2026-11-29-01-34-11"}},
		{"torch.add.0", "torch.add", 27583, 1, Place{}},
		{".", "torch.add", 27583, 1, Place{}},
		{"2026-11-29/team/modelX/rank3/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, 3,
			Place{"team/modelX", "2026-11-292026-11-29-01-34-11"}},
		{"bert_20261129/rank0/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, -1,
			Place{"bert_*", "202611292026-11-29-01-34-11"}},
		{"modelX/op_tools_results/op_capture_results/torch.add/7/1/2024-09-14-12-30-05", "torch.add", 7, -1,
			Place{"modelX", ""}},
		{"op_autocompare_result/torch.add/7/autocompare/1/2024-09-14-12-30-05", "torch.add", 7, -1, Place{}},
		{"modelX/op_capture_result/1/2024-08-02--16-31/torch.add/4", "torch.add", -1, 1,
			Place{"modelX", "2024-08-02--16-31"}},
		{"modelX/2024-08-02--16-31/71/torch.add/4", "torch.add", 71, -1, Place{"modelX", "2024-08-02--16-31"}},
		{"modelX/step0/rank0/Functional.add.0", "torch.add", -1, 0, Place{"modelX", ""}},
		{"modelX/step0/proc4711/Functional.add.0", "torch.add", 4711, -1, Place{"modelX", ""}},
		{"modelX/TP0_PP0_Rank0_pid123/Pass1.pt/layers.0", "", 123, 0, Place{"modelX/TP0_PP0_Rank0_pid*/Pass1.pt", ""}},
		{"/data/v120261129/rank0/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, -1,
			Place{"/data/v120261129", "202611292026-11-29-01-34-11"}},
		{"models/7/rank0/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, -1,
			Place{"models/7", "2026-11-29-01-34-11"}},
		{"step1/rank0/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, -1, Place{"step1", "2026-11-29-01-34-11"}},
		{"42-20261129/modelX/rank0/7-2026-11-29-01-34-11/torch.add.0", "torch.add", 7, -1,
			Place{"modelX", "202611292026-11-29-01-34-11"}},
		{"7/1/2024-09-14-12-30-05", "torch.add", 7, -1, Place{"", "2024-09-14-12-30-05"}},
		{"1/2024-09-14-12-30-05", "torch.add", 7, -1, Place{"", "2024-09-14-12-30-05"}},
		{"7/autocompare/1/2024-09-14-12-30-05", "torch.add", 7, -1, Place{"", "2024-09-14-12-30-05"}},
		{"rank2/case", "", -1, -1, Place{"rank2", ""}},
	} {
		if got := Of(c.path, c.op, c.pid, c.rank); got != c.want {
			t.Errorf("%s: got %q, want %q", c.path, got, c.want)
		}
	}
}

func TestTime(t *testing.T) {
	for start, want := range map[string]string{
		"2026-11-292026-11-29-01-34-11": "2026-11-29 01:34:11", "2024-08-02--16-31": "2024-08-02 16:31:00",
		"20261129T012345": "2026-11-29 01:23:45", "2026-11-29": "0001-01-01 00:00:00", "": "0001-01-01 00:00:00"} {
		if got := (Place{Start: start}).Time().Format("2006-01-02 15:04:05"); got != want {
			t.Errorf("%q: got %s, want %s", start, got, want)
		}
	}
}
