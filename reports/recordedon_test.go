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
		"values recorded on cpu with torch 1.13.0, compared with cpu with torch 2.9.0; no device": {
			`"recorded_on":"cpu with torch 1.13.0, compared with cpu with torch 2.9.0",`,
			`"recorded_on":"cpu with torch 2.9.0","verdict":"skipped","reason":"only in old",`},
		"on cpu with torch 1, compared with cpu with torch 2, and on xpu with torch 1, compared with xpu with torch 2; no": {
			`"recorded_on":"cpu with torch 1, compared with cpu with torch 2",`,
			`"recorded_on":"xpu with torch 1, compared with xpu with torch 2",`},
		"of a device that is not known": {``},
	} {
		text := `{"kind":"run","schema":1}` + "\n"
		for _, on := range lines {
			if !strings.Contains(on, "verdict") {
				on += `"verdict":"pass","reason":"",`
			}
			text += `{"kind":"result",` + on + `"capture":"a","op":"torch.add","phase":"forward",` +
				`"target":"output[0]"}` + "\n"
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
