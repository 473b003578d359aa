package capture

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// plainObject is v with objects as maps, as encoding/json gives them.
func plainObject(v any) any {
	switch v := v.(type) {
	case *object:
		m := map[string]any{}
		for i, k := range v.keys {
			m[k] = plainObject(v.values[i])
		}
		return m
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plainObject(x)
		}
		return out
	}
	return v
}

func TestParseJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` [ ] `, `{"a":1,"b":[true,false,null],"c":{"d":{}}}`, "{ \"a\" :\t[ 1 ,\n-2.5e+3 ] }", `"x"`,
		`-0.0`, `{"a\"b":"\u00e4\n\\"}`, `"é"`, "\"\xff\"", `[[],[[]],{}]`, `{"a":""}`, `12`, `["a\\"]`,
	} {
		var want any
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, behind := range []string{"", " {", "\n[1]"} { // what follows is not read
			got, err := parseJSON([]byte(text + behind))
			if err != nil || !reflect.DeepEqual(plainObject(got), want) {
				t.Errorf("%s: got %v, %v; want %v", text, plainObject(got), err, want)
			}
		}
	}
	for text, want := range map[string]string{
		"": "cut off", "{": "cut off", `{"a"`: "cut off", `[1,`: "cut off", `"a`: "cut off", "-": "cut off",
		`{"a":}`: "invalid", `[1 2]`: "invalid", "tru3": "invalid", `{a:1}`: "invalid", "[1,]": "invalid",
		strings.Repeat("[", 102) + strings.Repeat("]", 102): "deeper than 100",
	} {
		if got, err := parseJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v; want an error with %q", text, got, err, want)
		}
	}
	o, _ := parseJSON([]byte(`{"b":1,"a":2,"b":3}`))
	if keys := o.(*object).keys; !reflect.DeepEqual(keys, []string{"b", "a", "b"}) {
		t.Errorf("keys %v are not in the order of the text", keys)
	}
}
