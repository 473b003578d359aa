package reports

import (
	"strings"
	"testing"
)

// TestRecordedOn: reports say on which devices the values were recorded, or that it is not known.
func TestRecordedOn(t *testing.T) {
	for want, lines := range map[string][]string{
		"values recorded on cuda:0 with torch 2.9.0, cpu with torch 2.9.0; no device": {
			`"recorded_on":"cuda:0 with torch 2.9.0",`, `"recorded_on":"cpu with torch 2.9.0",`,
			`"recorded_on":"cuda:0 with torch 2.9.0",`},
		"of a device that is not known": {``},
	} {
		text := `{"kind":"run","schema":1}` + "\n"
		for _, on := range lines {
			text += `{"kind":"result",` + on + `"capture":"a","op":"torch.add","phase":"forward",` +
				`"target":"output[0]","verdict":"pass","reason":""}` + "\n"
		}
		rec, err := ReadRecording(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.subject()[1]; !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
