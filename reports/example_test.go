package reports_test

import (
	"fmt"
	"strings"

	"github.com/optool/optool/reports"
)

// The JSON lines of a run are read back, also those of a run that was killed.
func ExampleReadRecording() {
	lines := `{"kind":"run","schema":1,"command":["optool","replay","a"],"version":"v1"}
{"kind":"result","capture":"a/1","op":"torch.add","phase":"forward","target":"output[0]","verdict":"pass"}
{"kind":"result","capture":"a/2","op":"torch.mul","phase":"forward","target":"output[0]","verdict":"fail","max_ulp":"inf"}
{"kind":"resu`
	rec, err := reports.ReadRecording(strings.NewReader(lines))
	if err != nil {
		fmt.Println(err)
		return
	}
	for r := range rec.Results.All() {
		fmt.Println(r.Op, r.Verdict)
	}
	fmt.Println("interrupted:", rec.Summary.Interrupted)
	_, err = reports.ReadRecording(strings.NewReader("{}"))
	fmt.Println(err)
	// Output:
	// torch.add pass
	// torch.mul fail
	// interrupted: true
	// line 1: want the line of kind "run" that --json FILE begins with, found kind ""
}
